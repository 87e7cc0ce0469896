use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Pattern, Refused};

/// The routing keys that a user may use at one topic exchange. Without one, permissions on the exchange are enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Words", into = "Words")]
pub struct TopicPermission {
    /// The user.
    pub user: Arc<str>,
    /// The vhost.
    pub vhost: Arc<str>,
    /// The exchange.
    pub exchange: Arc<str>,
    /// Pattern of routing keys that may be published with.
    pub write: Pattern,
    /// Pattern of routing keys that may be bound with.
    pub read: Pattern,
}

/// The texts that an administrator gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Words {
    user: Arc<str>,
    vhost: Arc<str>,
    exchange: Arc<str>,
    write: String,
    read: String,
}

impl TopicPermission {
    /// Compiles the patterns, in which `{username}` and `{vhost}` stand for the user's and the vhost's name, taken
    /// literally.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn new(user: Arc<str>, vhost: Arc<str>, exchange: Arc<str>, write: &str, read: &str) -> Result<Self, Refused> {
        let object = format!("user '{user}' for exchange '{exchange}' in vhost '{vhost}'");
        let variables = [("username", &*user), ("vhost", &*vhost)];
        let (write, read) = (
            Pattern::with_variables(write, &variables, &object, "write")?,
            Pattern::with_variables(read, &variables, &object, "read")?,
        );
        Ok(TopicPermission { user, vhost, exchange, write, read })
    }
}

impl TryFrom<Words> for TopicPermission {
    type Error = Refused;

    fn try_from(words: Words) -> Result<Self, Refused> {
        TopicPermission::new(words.user, words.vhost, words.exchange, &words.write, &words.read)
    }
}

impl From<TopicPermission> for Words {
    fn from(permission: TopicPermission) -> Self {
        Words {
            write: permission.write.as_str().to_owned(),
            read: permission.read.as_str().to_owned(),
            user: permission.user,
            vhost: permission.vhost,
            exchange: permission.exchange,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(user: &str, write: &str) -> Result<TopicPermission, Refused> {
        TopicPermission::new(user.into(), "v".into(), "amq.topic".into(), write, "")
    }

    #[test]
    fn variables_stand_for_names_and_never_for_patterns() {
        let own = permission("a.b", r"^{vhost}\.{username}\.").unwrap();
        assert!(own.write.matches("v.a.b.x"));
        assert!(!own.write.matches("v.axb.x"), "the name's dot is a dot");
        let all = permission(".*", "^{username}$").unwrap();
        assert!(!all.write.matches("anything"));
        let other = permission("u", "^{client_id}-{nothing}$").unwrap();
        assert!(other.write.matches("{client_id}-{nothing}"), "what is no variable is text");
        assert!(permission("u", "^a{2}$").unwrap().write.matches("aa"));
    }

    #[test]
    fn patterns_survive_a_record_and_malformed_ones_are_refused() {
        let one = permission("u", "^{username}").unwrap();
        let text = serde_json::to_string(&one).unwrap();
        assert!(text.contains("^{username}"), "{text}");
        assert_eq!(serde_json::from_str::<TopicPermission>(&text).unwrap(), one);
        let refused = permission("u", "[").unwrap_err();
        let begin = "invalid write pattern '[' of user 'u' for exchange 'amq.topic' in vhost 'v': ";
        assert!(refused.text.starts_with(begin), "{refused}");
    }
}
