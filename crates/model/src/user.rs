use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name.
    pub name: Arc<str>,
    /// The password hash in RabbitMQ's form, base64 of salt and digest. Without one, the user can't log in with a
    /// password.
    pub password_hash: Option<Arc<str>>,
    /// The name of the hash function, such as `rabbit_password_hashing_sha256`.
    pub hashing_algorithm: Arc<str>,
    /// The tags, in the order given: `administrator`, `monitoring`, `policymaker`, `management`,
    /// `impersonator` or any other word.
    pub tags: Vec<Arc<str>>,
}

impl User {
    /// Whether the user has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|have| &**have == tag)
    }
}
