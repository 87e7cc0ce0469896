//! TLS of the load generator: trusted certificates, and its own.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::{BenchArgs, BenchError};

/// The configuration shared by all TLS connections.
#[derive(Debug, Clone)]
pub(crate) struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Trusts the certificates of `--cacertfile`, or else those of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR`
    /// override them); `--certfile` and `--keyfile` are sent to a broker that requests them.
    pub(crate) fn new(args: &BenchArgs) -> Result<Self, BenchError> {
        let roots = match &args.cacertfile {
            Some(file) => roots_of(file)?,
            None => roots_of_the_system()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| BenchError::Usage(format!("TLS: {error}")))?
            .with_root_certificates(roots);
        let config = match (&args.certfile, &args.keyfile) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, "private key", &error))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| {
                    let (certificate, key) = (certificate.display(), key.display());
                    BenchError::Usage(format!("{certificate} and {key} can't be used together: {error}"))
                })?
            }
            // The command line allows neither without the other.
            _ => builder.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }

    /// A client session with `host`, whose certificate must have that name.
    pub(crate) fn session(&self, host: &str) -> Result<ClientConnection, BenchError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| BenchError::Usage(format!("{host:?} is no name that a certificate could be for")))?;
        ClientConnection::new(self.0.clone(), name).map_err(|error| BenchError::Usage(format!("TLS: {error}")))
    }
}

fn unusable(file: &Path, what: &str, error: &pem::Error) -> BenchError {
    let file = file.display();
    BenchError::Usage(match error {
        pem::Error::NoItemsFound => format!("{file} holds no {what} in PEM"),
        error => format!("{file}: {error}"),
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BenchError> {
    let unusable = |error| unusable(file, "certificate", &error);
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(unusable)?.collect::<Result<_, _>>().map_err(unusable)?;
    if found.is_empty() { Err(unusable(pem::Error::NoItemsFound)) } else { Ok(found) }
}

fn roots_of(file: &Path) -> Result<RootCertStore, BenchError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| {
            BenchError::Usage(format!("{} holds a certificate that can't be trusted: {error}", file.display()))
        })?;
    }
    Ok(roots)
}

/// The system's certificates. Unreadable ones are skipped: the others may suffice.
fn roots_of_the_system() -> Result<RootCertStore, BenchError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(|| "none are installed".to_owned(), ToString::to_string);
    Err(BenchError::Usage(format!(
        "the system has no certificates to trust ({why}): name the broker's authority by --cacertfile"
    )))
}
