//! TLS for connections in which we are the client.

use std::sync::Arc;

use leveret_config::{ClientTls, Tls as Options};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

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
    client_config_with(options, roots)
}

fn client_config_with(options: &Options, roots: RootCertStore) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(super::provider(options)?)
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

/// The configuration for the server of a backend of logins.
///
/// # Errors
/// As [`client_config`].
pub(crate) fn backend_config(settings: &ClientTls) -> Result<ClientConfig, TlsError> {
    let options = &settings.tls;
    let mut config = match settings.trusts_any {
        // No root is needed.
        true if options.cacertfile.is_none() => client_config_with(options, RootCertStore::empty())?,
        _ => client_config(options)?,
    };
    let roots = match options.cacertfile {
        Some(_) => files::roots(options)?,
        None if settings.trusts_any => RootCertStore::empty(),
        None => system_roots()?,
    };
    let inner = match roots.is_empty() {
        true => None,
        false => {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), super::provider(options)?);
            Some(builder.build().map_err(|error| TlsError::Unfit(format!("cacertfile: {error}")))?)
        }
    };
    let verifier = BackendVerifier {
        inner: inner.filter(|_| !settings.trusts_any),
        schemes: aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes(),
        depth: options.depth.into(),
        takes_any_name: settings.takes_any_name,
    };
    config.dangerous().set_certificate_verifier(Arc::new(verifier));
    Ok(config)
}

/// Verifies the certificate of a server as its settings say.
#[derive(Debug)]
struct BackendVerifier {
    /// `None` if any certificate is taken.
    inner: Option<Arc<WebPkiServerVerifier>>,
    schemes: Vec<SignatureScheme>,
    depth: usize,
    takes_any_name: bool,
}

impl ServerCertVerifier for BackendVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        // The root may be sent along.
        if intermediates.len() > self.depth + 1 {
            return Err(CertificateError::UnknownIssuer.into());
        }
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is verified before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.takes_any_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
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
