//! The table of keys, and the processing of assignments by it.

use std::borrow::Cow;

use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::grammar::{self, Assignment};
use crate::suggest;

mod amqp10;
mod auth;
mod cluster;
mod deprecated;
mod effective;
mod http;
mod interceptors;
mod limits;
mod logging;
mod mqtt;
mod other;
mod own_exchanges;
mod stream;
mod tls;
mod vhost_defaults;
mod working;

pub use effective::is_secret;

/// Sets a value in the configuration. The second argument is the word that the `$` part of the key matched.
type Set = fn(&mut Config, &str, &str) -> Result<(), String>;

/// A key that takes effect.
struct Key {
    /// The name; a part that begins with `$` matches any word.
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Set,
}

/// A key, or a family of keys if it ends with `.**`, that takes no effect.
struct Other {
    name: &'static str,
    state: KeyState,
    why: &'static str,
    /// Values that describe what happens anyway: they are accepted although the key is refused.
    taken: &'static [&'static str],
}

/// The treatment of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It takes effect.
    Working,
    /// It is meaningless here and accepted with a warning.
    Obsolete,
    /// It isn't supported yet, and running without it is harmless: a warning.
    NotYet,
    /// It isn't supported yet, and running without it would violate the user's intent: an error.
    Refused,
}

/// A row of the table, for the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDoc {
    /// The key.
    pub name: &'static str,
    /// The kind of values it takes. For a refused key, the values that are accepted all the same; empty for other
    /// keys without effect.
    pub kind: Cow<'static, str>,
    /// The default; empty if it takes no effect.
    pub default: &'static str,
    /// Its effect, or the reason why it has none.
    pub doc: &'static str,
    /// The treatment of the key.
    pub state: KeyState,
}

/// Every row of the table.
pub fn documented() -> impl Iterator<Item = KeyDoc> {
    let working = working_keys().map(|key| KeyDoc {
        name: key.name,
        kind: key.kind.into(),
        default: key.default,
        doc: key.doc,
        state: KeyState::Working,
    });
    let others = other::KEYS.iter().map(|other| KeyDoc {
        name: other.name,
        kind: other.taken.join(", ").into(),
        default: "",
        doc: other.why,
        state: other.state,
    });
    working.chain(others)
}

fn working_keys() -> impl Iterator<Item = &'static Key> {
    let tls = [tls::LISTENERS, tls::AMQP, tls::MANAGEMENT, tls::PROMETHEUS];
    let log = [
        logging::CONSOLE_FORMATTER,
        logging::FILE_FORMATTER,
        logging::SYSLOG_FORMATTER,
        logging::EXCHANGE_FORMATTER,
        logging::KEYS,
    ];
    let others = [
        working::KEYS,
        vhost_defaults::KEYS,
        limits::KEYS,
        amqp10::KEYS,
        cluster::KEYS,
        deprecated::KEYS,
        interceptors::KEYS,
        mqtt::KEYS,
        stream::KEYS,
        own_exchanges::KEYS,
    ];
    let http = http::LISTENERS.into_iter().chain([http::API]);
    others.into_iter().chain(tls).chain(log).chain(http).chain(auth::ALL.iter().copied()).flatten()
}

impl Config {
    /// Applies the text of a file; `source` names it in errors. Later assignments override earlier ones.
    ///
    /// # Errors
    /// Every line that isn't accepted; the others have taken effect.
    pub fn read(&mut self, source: &str, text: &str) -> Result<Vec<Warning>, Vec<ConfigError>> {
        self.read_with(source, text, &|_| None)
    }

    /// As [`Config::read`], with `$(NAME)` in values replaced by `variable`.
    ///
    /// # Errors
    /// As [`Config::read`]; an unset variable is an error.
    pub fn read_with(
        &mut self,
        source: &str,
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let mut warnings = Vec::new();
        let mut errors = Vec::new();
        for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let done = match grammar::line(line) {
                Ok(None) => continue,
                Ok(Some(assignment)) => grammar::interpolated(assignment, variable)
                    .and_then(|value| self.assign(Assignment { key: assignment.key, value: &value })),
                Err(text) => Err(text),
            };
            match done {
                Ok(None) => {}
                Ok(Some(text)) => warnings.push(Warning { source_name: source.to_owned(), line: Some(number), text }),
                Err(text) => errors.push(ConfigError { source_name: source.to_owned(), line: Some(number), text }),
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// Applies one `key=value`, as after `--set`; quotes and comments are as in files.
    ///
    /// # Errors
    /// It isn't accepted.
    pub fn set(&mut self, text: &str) -> Result<Option<Warning>, ConfigError> {
        let source_name = || "--set".to_owned();
        let done = grammar::assignment(text).and_then(|assignment| self.assign(assignment));
        match done {
            Ok(warning) => Ok(warning.map(|text| Warning { source_name: source_name(), line: None, text })),
            Err(text) => Err(ConfigError { source_name: source_name(), line: None, text }),
        }
    }

    pub(crate) fn assign(&mut self, assignment: Assignment<'_>) -> Result<Option<String>, String> {
        let Assignment { key, value } = assignment;
        let working = working_keys().find_map(|known| Some((known, matched(known.name, key)?)));
        let other = other_of(key);
        // `log.exchange.**` isn't a category of `log.$category.level`.
        let is_nearer = |other: &&Other| working.is_none_or(|(known, _)| spelled(other.name) > spelled(known.name));
        if let Some(other) = other.filter(is_nearer) {
            return other.answer(key, Some(value));
        }
        let Some((known, word)) = working else {
            let names = documented().map(|doc| doc.name).filter(|name| !name.ends_with("**"));
            let hint = suggest::nearest(key, names);
            let hint = hint.map_or(String::new(), |name| format!("; did you mean '{name}'?"));
            return Err(format!("unknown key '{key}'{hint}"));
        };
        if value.starts_with(ENCRYPTED) {
            // The text would be taken for the encrypted password itself.
            return Err(format!(
                "{key}: values that are encrypted ('{ENCRYPTED}') aren't read yet: give the value itself"
            ));
        }
        (known.set)(self, word, value).map_err(|error| format!("{key}: {error}"))?;
        self.assigned.0.insert(key.to_owned(), value.to_owned());
        Ok(None)
    }
}

/// Prefix of values encrypted by `rabbitmqctl encrypt_conf_value`.
const ENCRYPTED: &str = "encrypted:";

impl Other {
    /// The warning or error for the key with this value. A value that can't be written in rabbitmq.conf is `None`.
    fn answer(&self, key: &str, value: Option<&str>) -> Result<Option<String>, String> {
        match self.state {
            KeyState::Working | KeyState::Obsolete => Ok(Some(format!("'{key}' has no effect: {}", self.why))),
            KeyState::NotYet => Ok(Some(format!("'{key}' is not built yet and has no effect: {}", self.why))),
            KeyState::Refused if value.is_some_and(|value| self.taken.contains(&value)) => Ok(None),
            KeyState::Refused if self.taken.is_empty() => Err(format!("'{key}' is not built yet: {}", self.why)),
            KeyState::Refused => {
                let got = value.map(|value| format!("; got '{value}'")).unwrap_or_default();
                let taken = self.taken.join(" or ");
                Err(format!("'{key}' is not built yet: {}; only {taken} is taken{got}", self.why))
            }
        }
    }
}

/// The row of a key, or of the family of keys below one, that takes no effect.
fn other_of(key: &str) -> Option<&'static Other> {
    other::KEYS.iter().find(|other| matched(other.name, key).is_some())
}

/// The warning or error for a key, or for a family of keys, with a value that can't be written in rabbitmq.conf.
/// `None` if there is no such key.
pub(crate) fn without_value(key: &str) -> Option<Result<Option<String>, String>> {
    let below = || other::KEYS.iter().find(|other| other.name.strip_suffix(".**") == Some(key));
    other_of(key).or_else(below).map(|other| other.answer(key, None))
}

/// Number of literal bytes in a name.
fn spelled(name: &str) -> usize {
    name.find(['$', '*']).unwrap_or(name.len())
}

/// Whether a name of the table matches this key; if so, the word that its `$` matches. With several, it is the part of the key from the
/// first to the last one.
fn matched<'k>(name: &str, key: &'k str) -> Option<&'k str> {
    if let Some(family) = name.strip_suffix("**") {
        return key.starts_with(family).then_some("");
    }
    let mut word = None;
    let mut at = 0;
    let mut parts = key.split('.');
    for part in name.split('.') {
        let have = parts.next()?;
        if part.starts_with('$') {
            let (begin, _) = word.unwrap_or((at, at));
            word = Some((begin, at + have.len()));
        } else if part != have {
            return None;
        }
        at += have.len() + 1;
    }
    let (begin, end) = word.unwrap_or_default();
    parts.next().is_none().then_some(&key[begin..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_words_and_families() {
        assert_eq!(matched("listeners.tcp.$name", "listeners.tcp.default"), Some("default"));
        assert_eq!(matched("listeners.tcp.$name", "listeners.tcp"), None);
        assert_eq!(matched("listeners.tcp", "listeners.tcp.default"), None);
        assert_eq!(matched("a.$x.b.$y", "a.1.b.23"), Some("1.b.23"));
        assert_eq!(matched("raft.**", "raft.wal.x"), Some(""));
        assert_eq!(matched("raft.**", "raftx"), None);
    }

    #[test]
    fn each_name_is_in_the_table_once_and_has_a_description() {
        let mut names: Vec<&str> = documented().map(|doc| doc.name).collect();
        assert!(documented().all(|doc| !doc.doc.is_empty()));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
