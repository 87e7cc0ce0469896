//! Passwords of tests, which no log may contain.
//!
//! With `LEVERET_TEST_LOGS` each node also logs at debug level to a file in that directory, and each password used by
//! a test is written to `passwords` there; `cargo xtask passwords` searches for them after all tests. Passwords of
//! scripts are in `tests/allow/passwords.txt`.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;

/// The variable with the directory.
pub const DIRECTORY: &str = "LEVERET_TEST_LOGS";

fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Settings that make a node on this data directory log for the search.
pub(crate) fn log_of(data: &Path) -> Vec<(String, String)> {
    let Some(directory) = directory() else { return Vec::new() };
    let name = data.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy().into_owned());
    let file = directory.join(format!("{}.log", name.collect::<Vec<_>>().join("-in-")));
    let pair = |key: &str, value: String| (key.to_owned(), value);
    vec![
        pair("log.console", "true".to_owned()),
        pair("log.file", file.display().to_string()),
        pair("log.file.level", "debug".to_owned()),
    ]
}

/// Records that a test logs in with this password as this user, or gives it to a user; an empty user if unknown.
///
/// # Panics
/// If it can't be recorded.
pub fn used(user: &str, password: &str) {
    static NOTED: Mutex<BTreeSet<[String; 2]>> = Mutex::new(BTreeSet::new());
    let Some(directory) = directory() else { return };
    let pair = [user.to_owned(), password.to_owned()];
    let is_new = NOTED.lock().expect("no panic").insert(pair.clone());
    if is_new && !password.is_empty() {
        let mut file = OpenOptions::new().create(true).append(true).open(directory.join("passwords")).expect("a file");
        // In one write, so that lines of other processes stay whole.
        file.write_all(format!("{}\n", Value::from(pair.to_vec())).as_bytes()).expect("is written");
    }
}

/// Records every `password` in a body sent to the HTTP API.
pub(crate) fn used_in(body: &str) {
    if body.contains("password")
        && let Ok(body) = serde_json::from_str(body)
    {
        look(&body);
    }
}

fn look(value: &Value) {
    match value {
        Value::Array(values) => values.iter().for_each(look),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(password) if name == "password" => used("", password),
                    value => look(value),
                }
            }
        }
        _ => {}
    }
}
