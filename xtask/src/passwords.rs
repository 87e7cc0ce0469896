//! Searches the logs of a test run for passwords in any form.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// Length below which passwords occur in unrelated words: they are only searched for next to their user and encoded.
const PLAIN_LENGTH_MIN: usize = 7;

/// Least length of base64-encoded forms.
const ENCODED_LENGTH_MIN: usize = 10;

/// Placeholder for the password of users without one.
const BY_CERTIFICATE: &str = "(certificate)";

/// The result of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of passwords.
    pub passwords: usize,
    /// Number of files.
    pub logs: usize,
    /// Number of lines.
    pub lines: usize,
    /// Lines with a password: file, line number, line.
    pub found: Vec<String>,
}

/// Searches all logs of a directory for the passwords in its file `passwords`, `["user", "password"]` per line, and
/// for those of scripts that can't record theirs: a user, a tab and a password per line.
///
/// A user who logged in and is in neither file is an error: that password wasn't searched for.
///
/// # Errors
/// A file can't be read, there is no log or no password, or a user is unknown.
pub fn search(directory: &Path, scripts: &Path) -> io::Result<Report> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut secrets = Secrets::default();
    for line in fs::read_to_string(directory.join("passwords"))?.lines() {
        let [user, password] = serde_json::from_str(line).map_err(|error| wrong(format!("'{line}': {error}")))?;
        secrets.add(user, password);
    }
    for line in fs::read_to_string(scripts)?.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (user, password) =
            line.split_once('\t').ok_or_else(|| wrong(format!("'{line}' is no user and password")))?;
        if password == BY_CERTIFICATE {
            secrets.users.insert(user.to_owned());
        } else {
            secrets.add(user.to_owned(), password.to_owned());
        }
    }
    // A password that equals a user's name is searched for in the other forms only.
    secrets.forms.retain(|form| !secrets.users.contains(form));
    let mut report = Report { passwords: secrets.passwords.len(), ..Report::default() };
    let mut strangers = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "log") {
            continue;
        }
        report.logs += 1;
        let text = fs::read(&path)?;
        let text = String::from_utf8_lossy(&text);
        for (number, line) in (1..).zip(text.lines()) {
            report.lines += 1;
            let who = line.split_once(" User '").and_then(|(_, rest)| rest.split_once("' authenticated successfully"));
            if let Some((user, _)) = who.filter(|(user, _)| !secrets.users.contains(*user)) {
                strangers.insert(user.to_owned());
            }
            if secrets.forms.iter().any(|form| line.contains(form.as_str())) {
                report.found.push(format!("{}:{number}: {line}", path.display()));
            }
        }
    }
    if !strangers.is_empty() {
        let names = strangers.into_iter().collect::<Vec<_>>().join(", ");
        return Err(wrong(format!(
            "these logged in by passwords that weren't looked for, add them to the list: {names}"
        )));
    }
    if report.logs == 0 || report.passwords == 0 || report.lines == 0 {
        return Err(wrong(format!("nothing to look for, or nowhere: {report:?}")));
    }
    Ok(report)
}

#[derive(Default)]
struct Secrets {
    users: BTreeSet<String>,
    passwords: BTreeSet<String>,
    forms: BTreeSet<String>,
}

impl Secrets {
    /// Shorter forms occur by chance in random names of clients.
    fn add_encoded(&mut self, form: String) {
        if form.len() >= ENCODED_LENGTH_MIN {
            self.forms.insert(form);
        }
    }

    fn add(&mut self, user: String, password: String) {
        let bytes = password.as_bytes();
        // The test user's password is its name, which is in every second line; only its encoded forms are searched
        // for.
        if bytes.len() >= PLAIN_LENGTH_MIN {
            self.forms.insert(password.clone());
        }
        for user in [user.as_str(), password.as_str()] {
            let joined = format!("{user}:{password}");
            if joined.len() >= PLAIN_LENGTH_MIN {
                self.forms.insert(joined);
            }
            for joined in [format!("{user}:{password}"), format!("\0{user}\0{password}")] {
                self.add_encoded(STANDARD.encode(&joined));
                self.add_encoded(STANDARD_NO_PAD.encode(&joined));
            }
        }
        // The bytes of a PLAIN response as printed by `{:?}`.
        let numbers = bytes.iter().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        self.forms.insert(format!("0, {numbers}]"));
        self.forms.insert(format!("\\0{password}"));
        self.forms.insert(format!("\\u{{0}}{password}"));
        self.forms.insert(format!("\\x00{password}"));
        let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        if hexadecimal.len() >= 8 {
            self.forms.insert(format!("00{hexadecimal}"));
        }
        self.passwords.insert(password);
        self.users.insert(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("is written");
        write("passwords", "[\"guest\", \"guest\"]\n[\"\", \"s3cret-word\"]\n");
        write("scripts.txt", "# of scripts\nme\tother-word\n");
        write("a.log", &format!("accepting AMQP connection: user 'guest'\n{line}\n"));
        let report = search(directory.path(), &directory.path().join("scripts.txt")).expect("can be read");
        assert_eq!((report.passwords, report.logs, report.lines), (3, 1, 2));
        report.found.len()
    }

    #[test]
    fn a_password_is_found_in_any_form() {
        assert_eq!(found("user 'guest' authenticated"), 0);
        for line in [
            "the password s3cret-word is wrong",
            "other-word",
            "amqp://guest:guest@localhost",
            "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=",
            "response AGd1ZXN0AGd1ZXN0",
            "[0, 103, 117, 101, 115, 116, 0, 103, 117, 101, 115, 116]",
            "b\"\\0guest\\0guest\"",
            "6775657374006775657374",
        ] {
            assert_eq!(found(line), 1, "{line}");
        }
    }

    #[test]
    fn a_search_without_logs_or_passwords_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let scripts = directory.path().join("scripts.txt");
        fs::write(directory.path().join("passwords"), "[\"guest\", \"guest\"]\n").expect("is written");
        fs::write(&scripts, "").expect("is written");
        assert!(search(directory.path(), &scripts).is_err(), "no log");
        fs::write(directory.path().join("a.log"), "a line\n").expect("is written");
        assert!(search(directory.path(), &scripts).is_ok());
        fs::write(directory.path().join("a.log"), "<0.1.0> User 'me' authenticated successfully\n")
            .expect("is written");
        let error = search(directory.path(), &scripts).expect_err("nobody knows its password").to_string();
        assert!(error.ends_with("add them to the list: me"), "{error}");
    }
}
