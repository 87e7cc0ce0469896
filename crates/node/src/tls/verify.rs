//! Verification of clients' certificates.

use std::sync::Arc;

use leveret_config::{CrlCheck, Tls as Options};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::files::{self, TlsError};
use super::revocation;

/// The verifier of clients' certificates.
pub(super) fn verifier(
    options: &Options,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    if !options.verify_peer {
        if options.fail_if_no_peer_cert {
            let text = "fail_if_no_peer_cert needs certificates of clients, which verify_none ignores; set verify = verify_peer";
            return Err(TlsError::Unfit(text.to_owned()));
        }
        if options.crl_check != CrlCheck::Off {
            let text = "crl_check looks for certificates that verify_none doesn't ask for; set verify = verify_peer";
            return Err(TlsError::Unfit(text.to_owned()));
        }
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let roots = Arc::new(files::roots(options)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if options.fail_if_no_peer_cert { builder } else { builder.allow_unauthenticated() };
    let builder = revocation::checked(builder, options)?;
    let inner = builder.build().map_err(|error| TlsError::Unfit(format!("cacertfile or crl_sources: {error}")))?;
    Ok(Arc::new(Shallow { inner, depth: options.depth.into() }))
}

/// Refuses clients that send more certificates than `depth`, not counting their own and the root's.
#[derive(Debug)]
struct Shallow {
    inner: Arc<dyn ClientCertVerifier>,
    depth: usize,
}

impl ClientCertVerifier for Shallow {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // The root may be sent along.
        if intermediates.len() > self.depth + 1 {
            return Err(CertificateError::UnknownIssuer.into());
        }
        self.inner.verify_client_cert(end_entity, intermediates, now)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
