//! The cookie, and the proof that a node has it.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of a proof.
pub(crate) const PROOF_BYTES: usize = 32;

/// The secret that all nodes of a cluster share. Its text is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie(Vec<u8>);

impl Cookie {
    /// A cookie with these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Cookie {
        Cookie(bytes.to_vec())
    }

    /// The key by which nodes of this cluster recognise each other's tokens.
    #[must_use]
    pub fn token_key(&self, cluster_id: [u8; 16]) -> TokenKey {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        mac.update(b"leveret token 1");
        mac.update(&cluster_id);
        TokenKey(mac.finalize().into_bytes().into())
    }
}

/// A key of tokens that all nodes of a cluster take. Its bytes are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey([u8; PROOF_BYTES]);

impl TokenKey {
    /// The key with these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> TokenKey {
        TokenKey(bytes)
    }

    fn mac(&self, text: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        mac.update(text);
        mac
    }

    /// The signature of a text.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> [u8; PROOF_BYTES] {
        self.mac(text).finalize().into_bytes().into()
    }

    /// Whether this is the signature of a text, compared in constant time.
    #[must_use]
    pub fn is_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        self.mac(text).verify_slice(signature).is_ok()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie")
    }
}

/// The side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Dialer,
    Acceptor,
}

impl Role {
    pub(crate) fn other(self) -> Role {
        match self {
            Role::Dialer => Role::Acceptor,
            Role::Acceptor => Role::Dialer,
        }
    }

    fn label(self) -> &'static [u8] {
        match self {
            Role::Dialer => b"leveret peer 1: dialer",
            Role::Acceptor => b"leveret peer 1: acceptor",
        }
    }
}

/// The parts of a link that a proof is made over. They end with bytes that only this connection of TLS has, so that nobody in between can
/// hand proofs on; empty without TLS.
pub(crate) struct Transcript<'a> {
    pub dialer: &'a [u8],
    pub acceptor: &'a [u8],
    pub exporter: &'a [u8],
}

impl Transcript<'_> {
    fn mac(&self, cookie: &Cookie, role: Role) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&cookie.0).expect("a key of any length");
        for part in [role.label(), self.dialer, self.acceptor, self.exporter] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }

    /// The proof of this side.
    pub(crate) fn prove(&self, cookie: &Cookie, role: Role) -> [u8; PROOF_BYTES] {
        self.mac(cookie, role).finalize().into_bytes().into()
    }

    /// Whether this is the proof of that side, compared in constant time.
    pub(crate) fn is_proof(&self, cookie: &Cookie, role: Role, proof: &[u8]) -> bool {
        self.mac(cookie, role).verify_slice(proof).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_depends_on_cookie_side_hellos_and_connection() {
        let cookie = Cookie::new(b"MONSTER");
        let transcript = Transcript { dialer: b"ab", acceptor: b"c", exporter: b"x" };
        let proof = transcript.prove(&cookie, Role::Dialer);
        assert!(transcript.is_proof(&cookie, Role::Dialer, &proof));
        assert!(!transcript.is_proof(&cookie, Role::Acceptor, &proof));
        assert!(!transcript.is_proof(&Cookie::new(b"MONSTEr"), Role::Dialer, &proof));
        assert!(!transcript.is_proof(&cookie, Role::Dialer, &proof[..31]));
        assert!(!transcript.is_proof(&cookie, Role::Dialer, b""));
        for other in [
            Transcript { dialer: b"a", acceptor: b"bc", exporter: b"x" },
            Transcript { dialer: b"c", acceptor: b"ab", exporter: b"x" },
            Transcript { dialer: b"ab", acceptor: b"c", exporter: b"" },
            Transcript { dialer: b"ab", acceptor: b"c", exporter: b"y" },
        ] {
            assert!(!other.is_proof(&cookie, Role::Dialer, &proof));
        }
        assert_eq!(format!("{cookie:?}"), "Cookie");
    }

    #[test]
    fn a_signature_depends_on_cookie_cluster_and_text() {
        let key = Cookie::new(b"MONSTER").token_key([1; 16]);
        let signature = key.sign(b"a");
        assert!(key.is_signed(b"a", &signature) && !key.is_signed(b"b", &signature));
        assert!(!key.is_signed(b"a", &signature[..31]) && !key.is_signed(b"a", b""));
        assert!(!Cookie::new(b"MONSTER").token_key([2; 16]).is_signed(b"a", &signature));
        assert!(!Cookie::new(b"OTHER").token_key([1; 16]).is_signed(b"a", &signature));
        assert_eq!(format!("{key:?}"), "TokenKey");
    }
}
