//! The Erlang cookie, the secret that all nodes of a cluster share, from where RabbitMQ's nodes have it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use leveret_peer::Cookie;

use crate::random;

/// The environment variable.
pub(crate) const VARIABLE: &str = "RABBITMQ_ERLANG_COOKIE";
const FILE: &str = ".erlang.cookie";
/// The file is the owner's alone, as Erlang makes it.
const MODE: u32 = 0o400;
const OTHERS: u32 = 0o077;
/// Letters of a random cookie: 94 bits, as many as Erlang's.
const LETTERS: usize = 20;

/// Longest cookie of a file. Erlang's atoms end at 255 characters.
const BYTES_MAX: usize = 255;

/// The reason why there is no cookie.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CookieError {
    /// A file can't be read or written.
    #[error("cannot use the cookie file {}: {source}", file.display())]
    File {
        /// Its path.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Others may read the file.
    #[error(
        "Cookie file {} must be accessible by owner only; its mode is {mode:o}, make it 400 with 'chmod 400 {}'",
        file.display(), file.display()
    )]
    Open {
        /// Its path.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The cookie can't be one.
    #[error("{0}: a cookie is 1 to {BYTES_MAX} printable characters without spaces")]
    Unfit(String),
}

/// A cookie and its source.
#[derive(Debug)]
pub(crate) struct FoundCookie {
    /// The cookie.
    pub cookie: Cookie,
    /// Its source, for the log.
    pub source: String,
    /// Whether it was made just now: nobody else has it.
    pub is_new: bool,
}

/// The cookie: that of the environment, else of the home directory, else of the data directory, where one is made if there is none.
///
/// # Errors
/// The first of these that is there can't be used, or none can be made.
pub(crate) fn find(variable: Option<&str>, home: Option<&Path>, data: &Path) -> Result<FoundCookie, CookieError> {
    if let Some(text) = variable.filter(|text| !text.is_empty()) {
        let cookie = check(text.as_bytes(), VARIABLE)?;
        return Ok(FoundCookie { cookie, source: VARIABLE.to_owned(), is_new: false });
    }
    for directory in home.into_iter().chain([data]) {
        let file = directory.join(FILE);
        if let Some(cookie) = read(&file)? {
            return Ok(FoundCookie { cookie, source: file.display().to_string(), is_new: false });
        }
    }
    let file = data.join(FILE);
    let text = make(&file).map_err(|source| CookieError::File { file: file.clone(), source })?;
    Ok(FoundCookie { cookie: Cookie::new(&text), source: file.display().to_string(), is_new: true })
}

fn read(file: &Path) -> Result<Option<Cookie>, CookieError> {
    let failed = |source| CookieError::File { file: file.to_owned(), source };
    let found = match fs::metadata(file) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = found.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(CookieError::Open { file: file.to_owned(), mode });
    }
    let bytes = fs::read(file).map_err(failed)?;
    check(bytes.trim_ascii_end(), &format!("the cookie file {}", file.display())).map(Some)
}

fn check(bytes: &[u8], source: &str) -> Result<Cookie, CookieError> {
    match bytes {
        [] => Err(CookieError::Unfit(format!("{source} is empty"))),
        _ if bytes.len() > BYTES_MAX => Err(CookieError::Unfit(format!("{source} is too long"))),
        _ if !bytes.iter().all(u8::is_ascii_graphic) => Err(CookieError::Unfit(format!("{source} has bad characters"))),
        _ => Ok(Cookie::new(bytes)),
    }
}

/// Makes a random cookie. It is in its place as a whole or not at all.
fn make(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(LETTERS);
    while text.len() < LETTERS {
        let mut byte = [0];
        random::fill(&mut byte)?;
        // Each letter is as likely as the others.
        if byte[0] < 26 * 9 {
            text.push(b'A' + byte[0] % 26);
        }
    }
    let new = file.with_extension("cookie.new");
    if new.exists() {
        fs::remove_file(&new)?;
    }
    let mut written = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
    written.write_all(&text)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    if let Some(directory) = file.parent() {
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(directory: &Path, text: &str, mode: u32) {
        let file = directory.join(FILE);
        let _ = fs::remove_file(&file);
        fs::write(&file, text).expect("is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("is changed");
    }

    #[test]
    fn environment_home_and_data_directory_are_asked_in_turn() {
        let (home, data) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
        let find = |variable: Option<&str>| find(variable, Some(home.path()), data.path()).expect("there is one");
        let made = find(None);
        assert!(made.is_new && made.source.contains(data.path().to_str().expect("a path")));
        assert_eq!(fs::metadata(data.path().join(FILE)).expect("it is there").mode() & 0o777, 0o400);
        let again = find(None);
        assert!(!again.is_new && again.cookie == made.cookie, "it is kept");
        write(home.path(), "HOME\n", 0o600);
        assert_eq!(find(None).cookie, Cookie::new(b"HOME"));
        assert_eq!(find(Some("")).cookie, Cookie::new(b"HOME"));
        assert_eq!(find(Some("OTHER")).cookie, Cookie::new(b"OTHER"));
    }

    #[test]
    fn random_cookies_are_20_different_letters() {
        let made = || {
            let data = tempfile::tempdir().expect("one");
            find(None, None, data.path()).expect("it is made");
            fs::read_to_string(data.path().join(FILE)).expect("it is there")
        };
        let (one, other) = (made(), made());
        assert!(one.len() == LETTERS && one.bytes().all(|byte| byte.is_ascii_uppercase()), "{one}");
        assert_ne!(one, other);
    }

    #[test]
    fn a_cookie_that_others_may_read_is_refused() {
        let data = tempfile::tempdir().expect("one");
        for mode in [0o644, 0o440, 0o404] {
            write(data.path(), "SECRET", mode);
            let error = find(None, None, data.path()).expect_err("it is open").to_string();
            assert!(error.contains("must be accessible by owner only"), "{error}");
        }
        for (text, words) in [("", "is empty"), ("a b", "bad characters"), (&"A".repeat(256), "too long")] {
            write(data.path(), text, 0o400);
            let error = find(None, None, data.path()).expect_err("it is unfit").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
