//! Generated names: of queues, consumers and reply targets that their clients left unnamed.
//!
//! A name has 128 bits of SHA-256 over a secret and a counter. It can't be computed from other names, and a start with another
//! secret repeats no earlier name. A client that could predict a name could declare that queue first, or send answers to
//! another client's request.

use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// The beginning of the names of global parameters that keep the transfers of a cluster.
pub const TRANSFER_PARAMETER: &str = "internal_transfer.";

/// The secret that names are derived from: random bytes of the operating system at each start of a node.
pub type NameSecret = [u8; 16];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A generator of names.
pub struct Names {
    secret: NameSecret,
    given: AtomicU64,
}

impl Names {
    /// A generator whose names can't be guessed without the secret.
    pub fn new(secret: NameSecret) -> Self {
        Self { secret, given: AtomicU64::new(0) }
    }

    /// A new name: `prefix` and 22 characters that need no escaping in URLs, like RabbitMQ's.
    pub fn next(&self, prefix: &str) -> String {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        let hash = Sha256::new().chain_update(self.secret).chain_update(given.to_le_bytes()).finalize();
        let mut bits = u128::from_le_bytes(hash[..16].try_into().expect("16 of 32 bytes"));
        let mut name = String::with_capacity(prefix.len() + 22);
        name.push_str(prefix);
        for _ in 0..22 {
            name.push(char::from(ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_repeat_neither_within_a_start_nor_after_one() {
        let (first, second) = (Names::new([1; 16]), Names::new([2; 16]));
        let names: HashSet<String> =
            (0..10_000).flat_map(|_| [first.next("amq.gen-"), second.next("amq.gen-")]).collect();
        assert_eq!(names.len(), 20_000);
        assert!(names.iter().all(|name| name.len() == 30 && name.starts_with("amq.gen-")));
    }

    #[test]
    fn the_same_secret_gives_the_same_names() {
        assert_eq!(Names::new([7; 16]).next("x"), Names::new([7; 16]).next("x"));
    }
}
