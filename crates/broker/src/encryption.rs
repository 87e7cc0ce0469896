//! What a TLS handshake came to, as listings show it: in the words of RabbitMQ, which are Erlang's.

/// The version of TLS and the cipher suite of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encryption {
    /// As on the wire: 0x0303 for TLS 1.2, 0x0304 for TLS 1.3.
    pub version: u16,
    /// IANA's number.
    pub suite: u16,
}

/// Number, key exchange and cipher of the suites that are offered, each with a MAC in its cipher.
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

    /// Such as `ecdhe_rsa`; `any` for TLS 1.3, whose suites don't say it.
    pub fn key_exchange(&self) -> &'static str {
        self.known().1
    }

    /// Such as `aes_256_gcm`.
    pub fn cipher(&self) -> &'static str {
        self.known().2
    }

    /// The hash that guards each record: part of the cipher in all suites.
    pub fn hash(&self) -> &'static str {
        "aead"
    }

    fn known(&self) -> (u16, &'static str, &'static str) {
        let found = SUITES.into_iter().find(|(suite, ..)| *suite == self.suite);
        found.unwrap_or((self.suite, "unknown", "unknown"))
    }
}
