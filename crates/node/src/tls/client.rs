//! TLS for connections in which we are the client.

use std::sync::Arc;

use leveret_config::Tls as Options;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use super::files::{self, TlsError};

/// The configuration for servers that have a certificate below these roots: `cacertfile`, or the system's. The system's
/// are in OpenSSL's places, which `SSL_CERT_FILE` and `SSL_CERT_DIR` override.
///
/// # Errors
/// A file can't be used, or the system has no roots.
pub(crate) fn client_config(options: &Options) -> Result<ClientConfig, TlsError> {
    let roots = match options.cacertfile {
        Some(_) => files::roots(options)?,
        None => system_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&super::versions(options))
        .map_err(|error| TlsError::Unfit(error.to_string()))?
        .with_root_certificates(roots);
    if options.certfile.is_none() && options.keyfile.is_none() {
        return Ok(builder.with_no_client_auth());
    }
    let (chain, key) = files::identity(options)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| TlsError::Unfit(format!("certfile and keyfile don't fit together: {error}")))
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Many systems' stores have old certificates that can't be read.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(TlsError::Missing(format!(
            "cacertfile isn't set, and the system has no roots of certificates ({})",
            if reasons.is_empty() { "its store is empty".to_owned() } else { reasons.join("; ") }
        )));
    }
    Ok(roots)
}
