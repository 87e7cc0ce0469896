//! Passwords of tests, which no log may hold.
//!
//! With `LEVERET_TEST_LOGS` each node also logs at debug level to a file in that directory, and each password that a test
//! uses is written to `passwords` there; `cargo xtask passwords` looks for them when all tests have run. Passwords of
//! scripts are in `tests/allow/passwords.txt`.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;

/// Names the directory.
pub const DIRECTORY: &str = "LEVERET_TEST_LOGS";

fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What makes a node on this data directory log for the search.
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

/// A test logs in by it as this user, or gives it to one; nobody's name if it isn't known here.
///
/// # Panics
/// When it can't be noted.
pub fn used(user: &str, password: &str) {
    static NOTED: Mutex<BTreeSet<[String; 2]>> = Mutex::new(BTreeSet::new());
    let Some(directory) = directory() else { return };
    let pair = [user.to_owned(), password.to_owned()];
    let is_new = NOTED.lock().expect("no panic").insert(pair.clone());
    if is_new && !password.is_empty() {
        let mut file = OpenOptions::new().create(true).append(true).open(directory.join("passwords")).expect("a file");
        // One write, so that those of other processes stay whole.
        file.write_all(format!("{}\n", Value::from(pair.to_vec())).as_bytes()).expect("is written");
    }
}

/// The same for every `password` in what is sent to the HTTP API.
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
