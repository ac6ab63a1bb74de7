//! HTTPS.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::raw::{address, read_to_end};
use crate::common::{Server, deployment_file, file, not_hanging, run_to_end};

#[tokio::test]
async fn https_with_a_certificate_of_ones_own_and_nothing_in_the_clear() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let cert = file("cert.pem", certified.cert.pem());
    let key = file("key.pem", certified.signing_key.serialize_pem());
    let server = Server::with_file(&deployment_file(
        "",
        &format!("[server.tls]\ncert = {cert:?}\nkey = {key:?}"),
    ));
    assert!(server.url.starts_with("https://"), "{}", server.url);

    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).expect("a root");
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let tcp = TcpStream::connect(address(&server)).await.expect("it listens");
    let mut tls = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await
        .expect("a TLS connection");
    tls.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .expect("written");
    let mut said = String::new();
    drop(not_hanging("a reply", tls.read_to_string(&mut said)).await);
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"ready\""), "{said}");

    let mut plain = TcpStream::connect(address(&server)).await.expect("it listens");
    plain
        .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .expect("written");
    let mut said = Vec::new();
    drop(not_hanging("the end", plain.read_to_end(&mut said)).await);
    assert!(!said.starts_with(b"HTTP"), "an answer in the clear");
    drop(read_to_end(&mut plain).await);
}

#[test]
fn files_that_do_not_serve_are_named() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let cert = file("cert.pem", certified.cert.pem());
    let key = file("key.pem", certified.signing_key.serialize_pem());
    let wrong = file("key.pem", other.signing_key.serialize_pem());
    for (cert, key, parts) in [
        (&key, &key, ["cannot read a certificate from", "there is none in it"]),
        (&cert, &cert, ["cannot read a private key from", "BEGIN PRIVATE KEY"]),
        (&cert, &wrong, ["cannot be used together", "key.pem"]),
    ] {
        let config = deployment_file("", &format!("[server.tls]\ncert = {cert:?}\nkey = {key:?}"));
        let (code, stderr) = run_to_end(&["--config", config.to_str().expect("UTF-8")]);
        assert_eq!(code, 2, "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{parts:?} in {stderr}");
    }
}
