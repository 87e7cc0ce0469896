//! What the keys of a listener with TLS say: `ssl_options.*`, `management.ssl.*` and `prometheus.ssl.*`.

use std::collections::BTreeMap;

use crate::config::Endpoint;

/// How a listener speaks TLS. The files are read when the node starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `certfile`: the certificate in PEM, with those between it and its root behind it.
    pub certfile: Option<String>,
    /// `keyfile`: its private key in PEM.
    pub keyfile: Option<String>,
    /// `password`: what the key is encrypted with.
    pub password: Option<String>,
    /// `cacertfile`: the roots of clients' certificates in PEM.
    pub cacertfile: Option<String>,
    /// `verify`: whether a client's certificate is asked for and checked.
    pub verify_peer: bool,
    /// `fail_if_no_peer_cert`: whether a client without one is turned away.
    pub fail_if_no_peer_cert: bool,
    /// `crl_check`: whether certificates are looked for on lists of revoked ones.
    pub crl_check: CrlCheck,
    /// `crl_sources.*`, by their last word: where those lists are.
    pub crl_sources: BTreeMap<String, CrlSource>,
    /// `depth`: how many certificates may be between a client's and its root.
    pub depth: u8,
    /// `versions.*` by their last word; empty for 1.3 and 1.2.
    pub versions: BTreeMap<String, TlsVersion>,
    /// `ciphers.*` by their last word, by OpenSSL's or IANA's names; empty for all that are there.
    pub ciphers: BTreeMap<String, String>,
    /// `honor_cipher_order`: whether our order of ciphers counts, not the client's.
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

/// What is looked for on lists of revoked certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrlCheck {
    /// `false`: nothing.
    Off,
    /// `peer`: the client's own certificate. One of whose issuer there is no list is turned away.
    Peer,
    /// `best_effort`: all certificates of its chain, as far as there is a list.
    BestEffort,
    /// `true`: all of them. One of whose issuer there is no list is turned away.
    Chain,
}

/// A directory with such lists, in PEM or DER.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CrlSource {
    /// `crl_sources.N.path`.
    pub path: Option<String>,
}

/// A version of TLS that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// `tlsv1.2`.
    V12,
    /// `tlsv1.3`.
    V13,
}

/// Where the name of a user is in a client's certificate: `ssl_cert_login_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateLogin {
    /// `ssl_cert_login_from`.
    pub from: CertificateName,
    /// `ssl_cert_login_san_type`.
    pub san_type: AlternativeName,
    /// `ssl_cert_login_san_index`: how many names of that type come before it.
    pub san_index: usize,
}

impl Default for CertificateLogin {
    fn default() -> Self {
        Self { from: CertificateName::DistinguishedName, san_type: AlternativeName::Dns, san_index: 0 }
    }
}

/// See [`CertificateLogin::from`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// `distinguished_name`: the whole subject.
    DistinguishedName,
    /// `common_name`: the subject's CN; several are joined by commas.
    CommonName,
    /// `subject_alternative_name` or `subject_alt_name`.
    SubjectAlternativeName,
}

/// See [`CertificateLogin::san_type`].
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
    /// `other_name`: whatever it is, if it is a text.
    Other,
}

/// An HTTP server that speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsEndpoint {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// How.
    pub tls: Tls,
}

impl TlsEndpoint {
    pub(crate) fn on(port: u16) -> Self {
        Self { endpoint: Endpoint::on(port), tls: Tls::default() }
    }
}
