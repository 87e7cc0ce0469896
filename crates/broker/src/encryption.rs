//! The result of a TLS handshake as listings show it, in RabbitMQ's words, which are Erlang's.

use std::sync::Arc;

/// The TLS version, cipher suite and client certificate of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// Version as on the wire: 0x0303 for TLS 1.2, 0x0304 for TLS 1.3.
    pub version: u16,
    /// Cipher suite by IANA's number.
    pub suite: u16,
    /// The client's certificate, if it presented one; it is verified.
    pub certificate: Option<Arc<PeerCertificate>>,
    /// The name of this node that the client asked for (SNI, RFC 6066).
    pub server_name: Option<String>,
}

/// The content of a client's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Its subject, a distinguished name (RFC 4514).
    pub subject: String,
    /// Its issuer.
    pub issuer: String,
    /// The begin and end of its validity.
    pub validity: String,
    /// Its serial number, in hexadecimal.
    pub serial_number: String,
    /// The name of the user that may log in with it, from the field set by `ssl_cert_login_from`; `None` if it is missing.
    pub user: Option<String>,
}

/// Number, key exchange and cipher of the offered suites, all of which have an AEAD cipher.
const SUITES: [(u16, &str, &str); 9] = [
    (0x1301, "any", "aes_128_gcm"),
    (0x1302, "any", "aes_256_gcm"),
    (0x1303, "any", "chacha20_poly1305"),
    (0xc02b, "ecdhe_ecdsa", "aes_128_gcm"),
    (0xc02c, "ecdhe_ecdsa", "aes_256_gcm"),
    (0xc02f, "ecdhe_rsa", "aes_128_gcm"),
    (0xc030, "ecdhe_rsa", "aes_256_gcm"),
    (0xcca8, "ecdhe_rsa", "chacha20_poly1305"),
    (0xcca9, "ecdhe_ecdsa", "chacha20_poly1305"),
];

impl Encryption {
    /// Such as `tlsv1.3`.
    pub fn protocol(&self) -> &'static str {
        match self.version {
            0x0303 => "tlsv1.2",
            0x0304 => "tlsv1.3",
            _ => "unknown",
        }
    }

    /// Such as `ecdhe_rsa`; `any` for TLS 1.3, whose suites don't name it.
    pub fn key_exchange(&self) -> &'static str {
        self.known().1
    }

    /// Such as `aes_256_gcm`.
    pub fn cipher(&self) -> &'static str {
        self.known().2
    }

    /// The hash that protects each record: part of the cipher in all suites.
    pub fn hash(&self) -> &'static str {
        "aead"
    }

    fn known(&self) -> (u16, &'static str, &'static str) {
        let found = SUITES.into_iter().find(|(suite, ..)| *suite == self.suite);
        found.unwrap_or((self.suite, "unknown", "unknown"))
    }
}
