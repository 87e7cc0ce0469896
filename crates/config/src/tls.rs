//! Settings of a listener with TLS: `ssl_options.*`, `management.ssl.*` and `prometheus.ssl.*`.

use std::collections::BTreeMap;

use crate::listener::Endpoint;

/// The TLS settings of a listener. The files are read when the node starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `certfile`: the certificate in PEM, followed by its intermediate certificates.
    pub certfile: Option<String>,
    /// `keyfile`: its private key in PEM.
    pub keyfile: Option<String>,
    /// `password`: passphrase of the key.
    pub password: Option<String>,
    /// `cacertfile`: the roots of clients' certificates in PEM.
    pub cacertfile: Option<String>,
    /// `verify`: whether a client's certificate is requested and verified.
    pub verify_peer: bool,
    /// `fail_if_no_peer_cert`: whether a client without a certificate is refused.
    pub fail_if_no_peer_cert: bool,
    /// `crl_check`: which certificates are checked for revocation.
    pub crl_check: CrlCheck,
    /// `crl_sources.*`, by the last part of their key: the places of revocation lists.
    pub crl_sources: BTreeMap<String, CrlSource>,
    /// `depth`: most intermediate certificates between a client's certificate and its root.
    pub depth: u8,
    /// `versions.*` by the last part of their key; empty for 1.3 and 1.2.
    pub versions: BTreeMap<String, TlsVersion>,
    /// `ciphers.*` by the last part of their key, with OpenSSL's or IANA's names; empty for all supported ones.
    pub ciphers: BTreeMap<String, String>,
    /// `honor_cipher_order`: whether the server's order of ciphers counts rather than the client's.
    pub honor_cipher_order: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            certfile: None,
            keyfile: None,
            password: None,
            cacertfile: None,
            verify_peer: false,
            fail_if_no_peer_cert: false,
            crl_check: CrlCheck::Off,
            crl_sources: BTreeMap::new(),
            depth: 10,
            versions: BTreeMap::new(),
            ciphers: BTreeMap::new(),
            honor_cipher_order: true,
        }
    }
}

/// The certificates that are checked for revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrlCheck {
    /// `false`: none.
    Off,
    /// `peer`: the client's own. A certificate without a list of its issuer is refused.
    Peer,
    /// `best_effort`: all certificates of its chain for which there is a list.
    BestEffort,
    /// `true`: all certificates of its chain. A certificate without a list of its issuer is refused.
    Chain,
}

/// A directory with revocation lists, in PEM or DER.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CrlSource {
    /// `crl_sources.N.path`.
    pub path: Option<String>,
}

/// A supported version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// `tlsv1.2`.
    V12,
    /// `tlsv1.3`.
    V13,
}

/// The part of a client's certificate that names the user: `ssl_cert_login_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateLogin {
    /// `ssl_cert_login_from`.
    pub from: CertificateName,
    /// `ssl_cert_login_san_type`.
    pub san_type: AlternativeName,
    /// `ssl_cert_login_san_index`: index of the name among those of that type, from 0.
    pub san_index: usize,
}

impl Default for CertificateLogin {
    fn default() -> Self {
        Self { from: CertificateName::DistinguishedName, san_type: AlternativeName::Dns, san_index: 0 }
    }
}

/// Values of [`CertificateLogin::from`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// `distinguished_name`: the whole subject.
    DistinguishedName,
    /// `common_name`: the subject's CN; several are joined by commas.
    CommonName,
    /// `subject_alternative_name` or `subject_alt_name`.
    SubjectAlternativeName,
}

/// Values of [`CertificateLogin::san_type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// `dns`
    Dns,
    /// `ip`
    Ip,
    /// `email`
    Email,
    /// `uri`
    Uri,
    /// `other_name`: of any kind, if it is text.
    Other,
}

/// An HTTP server with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsEndpoint {
    /// Its listener.
    pub endpoint: Endpoint,
    /// Its TLS settings.
    pub tls: Tls,
}

impl TlsEndpoint {
    pub(crate) fn on(port: u16) -> Self {
        Self { endpoint: Endpoint::on(port), tls: Tls::default() }
    }
}
