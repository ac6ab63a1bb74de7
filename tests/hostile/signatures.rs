//! Uploads that are signed, by the right key, a stranger's or none.

use std::path::PathBuf;

use ed25519_dalek::{Signer as _, SigningKey};

use crate::common::admin::{shipped, start};
use crate::common::deployment_file;

fn signing(require: bool) -> (SigningKey, PathBuf) {
    let key = SigningKey::from_bytes(&[7; 32]);
    let public: String = key
        .verifying_key()
        .to_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let admin = format!("[admin]\nrequire_signature = {require}\nsigning_keys = {{ ci = \"{public}\" }}");
    (key, deployment_file("plugin = \"r-stitch\"", &admin))
}

fn signed(key: &SigningKey, bytes: &[u8]) -> String {
    let bytes = key.sign(bytes).to_bytes();
    format!(
        "signature={}",
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    )
}

#[tokio::test]
async fn only_what_is_signed_is_taken_where_signatures_are_required() {
    let (key, path) = signing(true);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let bytes = shipped("random");
    let put = |query: String, bytes: Vec<u8>| {
        let (server, path) = (&server, format!("/admin/policies/random?{query}"));
        async move { server.admin("PUT", &path, bytes).await }
    };
    let reply = put(String::new(), bytes.clone()).await;
    assert_eq!(
        (reply.status, reply.error()["code"].as_str()),
        (403, Some("unsigned")),
        "{}",
        reply.body
    );
    let stranger = SigningKey::from_bytes(&[8; 32]);
    for (query, bytes) in [
        (signed(&stranger, &bytes), bytes.clone()),
        (signed(&key, b"another component"), bytes.clone()),
        (signed(&key, &bytes), [&bytes[..], b"\0"].concat()),
    ] {
        let reply = put(query, bytes).await;
        assert_eq!(
            (reply.status, reply.error()["code"].as_str()),
            (403, Some("bad_signature")),
            "{}",
            reply.body
        );
        assert!(reply.body.contains("(ci)"), "{}", reply.body);
    }
    let reply = put("signature=00".to_owned(), bytes.clone()).await;
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert!(reply.body.contains("128 hexadecimal digits"), "{}", reply.body);
    let reply = put(signed(&key, &bytes), bytes).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
    let policy = server.admin_ok("GET", "/admin/policies/random", "").await;
    assert_eq!(policy["generations"][0]["signed_by"], "ci");
}

#[tokio::test]
async fn where_none_is_required_a_wrong_signature_is_still_wrong() {
    let (key, path) = signing(false);
    let server = start(&["--config", path.to_str().expect("UTF-8")]);
    let bytes = shipped("random");
    let path = format!("/admin/policies/random?{}", signed(&key, b"another component"));
    assert_eq!(server.admin("PUT", &path, bytes.clone()).await.status, 403);
    assert_eq!(server.admin("PUT", "/admin/policies/random", bytes).await.status, 201);
}
