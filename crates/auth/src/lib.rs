//! Authentication: login mechanisms and password formats.
//!
//! Permissions are checked by [`leveret_model::authorize`]. This crate must not know of protocols: a session decodes
//! the peer's response as far as its own encoding goes.

mod login;
mod mechanism;
mod password;

pub use login::{LoginRefused, authenticate, recognise};
pub use mechanism::{Mechanism, Response};
pub use password::{
    HASHING_MD5, HASHING_SHA256, HASHING_SHA512, hash_password, is_hashing_algorithm, random_salt, sha256_hex,
};
