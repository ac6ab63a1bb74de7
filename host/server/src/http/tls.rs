//! TLS from a certificate and a key in PEM files, read once at the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why TLS cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate's file.
    #[error(
        "cannot read a certificate from {path}: {what}; it is a PEM file with BEGIN CERTIFICATE, the server's own first"
    )]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The key's file.
    #[error("cannot read a private key from {path}: {what}; it is a PEM file with BEGIN PRIVATE KEY, not encrypted")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The two are not for each other.
    #[error("the certificate {cert} and the key {key} cannot be used together: {what}")]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Reads both files.
///
/// # Errors
/// [`TlsError`], with the file.
pub(super) fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let no_certificate = |what: String| TlsError::Certificate {
        path: cert.to_owned(),
        what,
    };
    let certificates = CertificateDer::pem_file_iter(cert).map_err(|error| no_certificate(error.to_string()))?;
    let certificates = certificates
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| no_certificate(error.to_string()))?;
    if certificates.is_empty() {
        return Err(no_certificate("there is none in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::Key {
        path: key.to_owned(),
        what: error.to_string(),
    })?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| TlsError::Pair {
            cert: cert.to_owned(),
            key: key.to_owned(),
            what: error.to_string(),
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
