//! A sample configuration file with every key.

use std::fmt::Write;

use crate::keys::{KeyState, documented};

const HEAD: &str = "\
# Every key that takes effect, commented out, with its default if it has one.
# `leveret config check FILE` says what is wrong with a file.
# A word in capital letters stands for a name of yours.
";

/// A file in the format of rabbitmq.conf with every key that takes effect, each in a comment: unchanged, it has no
/// effect.
pub fn example() -> String {
    let mut text = HEAD.to_owned();
    for key in documented().filter(|key| key.state == KeyState::Working) {
        let _ = write!(
            text,
            "\n## {}\n## {}\n# {} = {}\n",
            key.doc,
            key.kind,
            named(key.name),
            value(&key.kind, key.default)
        );
    }
    text
}

/// `$name` as a word to be replaced by the user.
fn named(name: &str) -> String {
    let part = |part: &str| part.strip_prefix('$').map_or_else(|| part.to_owned(), str::to_ascii_uppercase);
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// The text after the equals sign: the default if it is a value rather than a description of one.
fn value(kind: &str, default: &str) -> String {
    let default = default.rsplit(" = ").next().unwrap_or(default);
    if kind == "none" { "none".to_owned() } else { default.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn it_has_every_key_and_changes_nothing() {
        let text = example();
        for key in documented().filter(|key| key.state == KeyState::Working) {
            assert!(text.contains(&format!("\n# {} = ", named(key.name))), "{}", key.name);
        }
        let mut config = Config::default();
        assert_eq!(config.read("example", &text), Ok(Vec::new()));
        assert_eq!(config, Config::default());
    }
}
