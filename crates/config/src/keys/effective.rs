//! The effective configuration, in the form of a file.

use std::fmt::Write;

use super::{KeyState, documented};
use crate::config::Config;

/// Replacement for secrets.
const HIDDEN: &str = "********";

impl Config {
    /// Every key that takes effect with its value: first the keys that were set, then the others as comments with
    /// their defaults. Passwords aren't shown.
    pub fn effective(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.assigned.0 {
            let value = if is_secret(key) { HIDDEN } else { value };
            let _ = writeln!(text, "{key} = {value}");
        }
        for doc in documented().filter(|doc| doc.state == KeyState::Working && !self.assigned.0.contains_key(doc.name))
        {
            let default = if is_secret(doc.name) { HIDDEN } else { doc.default };
            let _ = writeln!(text, "# {} = {default}", doc.name);
        }
        text
    }
}

/// Whether the value of a key, or of a variable in lower case, is a secret.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    key.contains("pass") || key.contains("secret") || key.contains("cookie")
}

#[test]
fn names_of_secrets_are_told_from_others() {
    let secrets = ["default_pass", "management.oauth_client_secret", "rabbitmq_erlang_cookie"];
    assert!(secrets.iter().all(|name| is_secret(name)) && !is_secret("rabbitmq_nodename"));
}

#[test]
fn set_keys_come_first_and_no_password_is_shown() {
    let mut config = Config::default();
    config.set("default_pass=hush-hush").expect("is a key");
    config.set("management.tcp.port=1").expect("is a key");
    config.set("management.tcp.port=2").expect("is a key");
    let text = config.effective();
    assert!(text.starts_with("default_pass = ********\nmanagement.tcp.port = 2\n# "), "{text}");
    assert!(!text.contains("hush-hush") && text.contains("# heartbeat = 60\n"), "{text}");
    assert!(!text.contains("# management.tcp.port"), "{text}");
}
