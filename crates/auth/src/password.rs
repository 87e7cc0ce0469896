use std::hash::{BuildHasher, Hasher, RandomState};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_model::User;
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

/// RabbitMQ's default: SHA-256 over salt and password.
pub const HASHING_SHA256: &str = "rabbit_password_hashing_sha256";
/// SHA-512 over salt and password.
pub const HASHING_SHA512: &str = "rabbit_password_hashing_sha512";

/// MD5 over salt and password: written by RabbitMQ before 3.6, and still found in its exports.
pub const HASHING_MD5: &str = "rabbit_password_hashing_md5";

/// Whether passwords with this hash function can be verified.
pub fn is_hashing_algorithm(name: &str) -> bool {
    [HASHING_SHA256, HASHING_SHA512, HASHING_MD5].contains(&name)
}

/// SHA-256 as hexadecimal digits, to tell texts apart.
pub fn sha256_hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

const SALT_BYTES: usize = 4;

/// The password hash in RabbitMQ's form: base64 of the salt and SHA-256 over salt and password.
pub fn hash_password(password: &[u8], salt: [u8; SALT_BYTES]) -> String {
    let mut bytes = salt.to_vec();
    bytes.extend(digest::<Sha256>(&salt, password));
    STANDARD.encode(bytes)
}

/// A salt that can't be predicted: the standard library seeds its hashers from the system's randomness.
pub fn random_salt() -> [u8; SALT_BYTES] {
    let random = RandomState::new().build_hasher().finish().to_le_bytes();
    [random[0], random[1], random[2], random[3]]
}

/// Whether `password` is the user's. Takes as long for users that are unknown or have no password, and its duration
/// doesn't reveal how much of a hash was right.
pub(crate) fn verify(user: Option<&User>, password: &[u8]) -> bool {
    let stored = user.and_then(|user| {
        let hash = STANDARD.decode(user.password_hash.as_deref()?).ok()?;
        Some((hash, &*user.hashing_algorithm))
    });
    let (hash, algorithm, known) = match stored {
        Some((hash, algorithm)) => (hash, algorithm, true),
        None => (vec![0; SALT_BYTES + <Sha256 as Digest>::output_size()], HASHING_SHA256, false),
    };
    let Some((salt, expected)) = hash.split_at_checked(SALT_BYTES) else { return false };
    let computed = match algorithm {
        HASHING_SHA256 => digest::<Sha256>(salt, password),
        HASHING_SHA512 => digest::<Sha512>(salt, password),
        HASHING_MD5 => digest::<Md5>(salt, password),
        _ => return false,
    };
    // RabbitMQ doesn't accept an empty password either, whatever hash is stored.
    bool::from(computed[..].ct_eq(expected)) && known && !password.is_empty()
}

fn digest<D: Digest>(salt: &[u8], password: &[u8]) -> Vec<u8> {
    D::new().chain_update(salt).chain_update(password).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(hash: Option<&str>, algorithm: &str) -> User {
        User {
            name: "u".into(),
            password_hash: hash.map(Into::into),
            hashing_algorithm: algorithm.into(),
            tags: Vec::new(),
        }
    }

    #[test]
    fn the_documented_example() {
        // rabbitmq.com/docs/passwords: salt 908DC60A, password test12.
        let hash = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";
        assert_eq!(hash_password(b"test12", [0x90, 0x8d, 0xc6, 0x0a]), hash);
        let user = user(Some(hash), HASHING_SHA256);
        assert!(verify(Some(&user), b"test12"));
        assert!(!verify(Some(&user), b"test13"));
    }

    #[test]
    fn hashes_of_other_versions_are_verified() {
        // The same salt and password.
        for (algorithm, hash) in [
            (HASHING_MD5, "kI3GChNpte2FApYFXScl+0dIluk="),
            (
                HASHING_SHA512,
                "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8\
                 TaOmAzjP2azv84GbINYwX2cDWb4DHnc=",
            ),
        ] {
            let user = user(Some(hash), algorithm);
            assert!(verify(Some(&user), b"test12"), "{algorithm}");
            assert!(!verify(Some(&user), b"test13"), "{algorithm}");
        }
    }

    #[test]
    fn users_without_a_password_cannot_log_in() {
        let empty = hash_password(b"", [1, 2, 3, 4]);
        assert!(!verify(Some(&user(Some(&empty), HASHING_SHA256)), b""));
        assert!(!verify(Some(&user(None, HASHING_SHA256)), b""));
        assert!(!verify(Some(&user(None, HASHING_SHA256)), b"x"));
        assert!(!verify(None, b"x"));
    }

    #[test]
    fn malformed_hashes_match_no_password() {
        for hash in ["", "AA==", "not base64", "AAAAAA=="] {
            assert!(!verify(Some(&user(Some(hash), HASHING_SHA256)), b"x"), "{hash}");
        }
        let hash = hash_password(b"x", [0; 4]);
        assert!(!verify(Some(&user(Some(&hash), "rabbit_password_hashing_md4")), b"x"));
        assert!(!verify(Some(&user(Some(&hash), HASHING_SHA512)), b"x"));
    }
}
