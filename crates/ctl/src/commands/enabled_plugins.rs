//! The file enabled_plugins, which a node reads when it starts: `[rabbitmq_management].`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The path that `rabbitmq-server` uses.
const INSTALLED: &str = "/etc/rabbitmq/enabled_plugins";

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// The file of a node that isn't running.
pub(super) fn offline() -> PathBuf {
    let given = env::var_os("RABBITMQ_ENABLED_PLUGINS_FILE").filter(|file| !file.is_empty());
    given.map_or_else(|| INSTALLED.into(), PathBuf::from)
}

/// The names in the file; `None` if it doesn't exist.
///
/// # Errors
/// The file can't be read, or isn't a list of names.
pub(super) fn read(file: &Path) -> Result<Option<BTreeSet<String>>, Failure> {
    let wrong = |reason: String| Failure::refused(&format!("cannot read {}: {reason}", file.display()));
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
        Ok(metadata) if metadata.len() > BYTES_MAX => return Err(wrong(format!("it has more than {BYTES_MAX} bytes"))),
        Ok(_) => {}
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    names(&text).map(Some).ok_or_else(|| wrong("it is no list of plugins, such as [rabbitmq_management].".to_owned()))
}

/// Writes names to the file.
///
/// # Errors
/// The file can't be written.
pub(super) fn write(file: &Path, names: &BTreeSet<String>) -> Result<(), Failure> {
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    fs::write(file, format!("[{}].\n", listed.join(",")))
        .map_err(|error| Failure::refused(&format!("cannot write {}: {error}", file.display())))
}

/// Parses the file. A node accepts more forms; here it has to be one list of names without blanks in them.
fn names(text: &str) -> Option<BTreeSet<String>> {
    let without_comments: String = text.lines().map(|line| line.split('%').next().unwrap_or_default()).collect();
    let list = match without_comments.trim() {
        "" => return Some(BTreeSet::new()),
        list => list.strip_suffix('.')?.trim().strip_prefix('[')?.strip_suffix(']')?.trim(),
    };
    let is_name = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '@'))
    };
    let bare = |name: &'_ str| name.trim().trim_matches('\'').to_owned();
    if list.is_empty() {
        return Some(BTreeSet::new());
    }
    list.split(',').map(bare).map(|name| is_name(&name.as_str()).then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_and_other_files_are_not_touched() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(
            names("%% of the image\n[ rabbitmq_b,\n'rabbitmq_a' ] .\n"),
            Some(set(&["rabbitmq_a", "rabbitmq_b"]))
        );
        assert_eq!(names("[]."), Some(set(&[])));
        assert_eq!(names(""), Some(set(&[])));
        for wrong in ["[a]", "[a", "a.", "[\"a\"].", "[a,,b].", "[{a}]."] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
        let file = env::temp_dir().join(format!("leveret-enabled-plugins-{}", std::process::id()));
        assert_eq!(read(&file), Ok(None));
        write(&file, &set(&["rabbitmq_b", "rabbitmq_a"])).expect("is written");
        assert_eq!(fs::read_to_string(&file).expect("is there"), "[rabbitmq_a,rabbitmq_b].\n");
        assert_eq!(read(&file), Ok(Some(set(&["rabbitmq_a", "rabbitmq_b"]))));
        fs::remove_file(&file).expect("is removed");
    }
}
