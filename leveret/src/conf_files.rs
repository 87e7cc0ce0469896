//! The files that `--config-dir` and `RABBITMQ_CONFIG_FILES` name: by a directory, by a pattern, or a single file.

use std::path::{Component, Path, PathBuf};

/// Characters that make a path a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

/// The files in the order of their paths: the files of a directory that end in .conf, the matches of a pattern such as
/// `/etc/rabbitmq/conf.d/*.conf`, or the one file that is named. Directories are left out, as in RabbitMQ.
///
/// # Errors
/// A directory can't be read, the pattern is invalid, or a path without a pattern doesn't exist. Ignoring a misspelt
/// path would start a node without the limits that its operator configured.
pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_dir() {
        return in_order(of_pattern(path, &["*.conf"])?);
    }
    let text = path.to_string_lossy();
    if path.is_file() || !text.contains(SPECIAL) {
        // The caller's attempt to read it reports the path and the reason.
        return Ok(vec![path.to_owned()]);
    }
    let unknown = |reason: &str| format!("cannot read the pattern {text}: {reason}");
    let mut found = Vec::new();
    let patterns = alternatives(&text).ok_or_else(|| unknown("a '{' has no '}'"))?;
    for pattern in patterns {
        let (mut base, mut parts) = (PathBuf::new(), Vec::new());
        for part in Path::new(&pattern).components() {
            match part {
                Component::Normal(part) if !parts.is_empty() || part.to_string_lossy().contains(SPECIAL) => {
                    parts.push(part.to_str().unwrap_or_default());
                }
                Component::ParentDir if !parts.is_empty() => return Err(unknown("'..' can't come after a pattern")),
                other => base.push(other),
            }
        }
        for part in &parts {
            if *part == "**" {
                return Err(unknown("'**' isn't known; '*' stands for part of one name"));
            }
            let letters: Vec<char> = part.chars().collect();
            check(&letters).map_err(unknown)?;
        }
        found.extend(of_pattern(&base, &parts)?);
    }
    in_order(found)
}

fn in_order(mut files: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    // A broken link stays in the list: the attempt to read it reports it.
    files.retain(|path| !path.is_dir());
    files.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    files.dedup();
    Ok(files)
}

/// The paths below `base` whose names match `parts`, one name for each.
fn of_pattern(base: &Path, parts: &[&str]) -> Result<Vec<PathBuf>, String> {
    let Some((part, others)) = parts.split_first() else { return Ok(vec![base.to_owned()]) };
    let directory = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let unreadable = |reason| format!("cannot read the directory {}: {reason}", directory.display());
    let pattern: Vec<char> = part.chars().collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let below = base.join(&name);
        if name.to_str().is_some_and(|name| matches(&pattern, name)) && (others.is_empty() || below.is_dir()) {
            found.extend(of_pattern(&below, others)?);
        }
    }
    Ok(found)
}

/// One pattern for each choice of `{one,other}`; braces don't nest. `None` if one isn't closed.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let Some((before, behind)) = pattern.split_once('{') else { return Some(vec![pattern.to_owned()]) };
    let (choices, behind) = behind.split_once('}')?;
    let rests = alternatives(behind)?;
    let choices = choices.split(',').flat_map(|choice| rests.iter().map(move |rest| format!("{before}{choice}{rest}")));
    Some(choices.collect())
}

fn check(pattern: &[char]) -> Result<(), &'static str> {
    match pattern {
        [] => Ok(()),
        ['\\', ..] => Err("'\\' isn't known"),
        ['[', rest @ ..] => match class(rest) {
            Some((_, behind)) => check(behind),
            None => Err("a '[' has no ']'"),
        },
        [_, rest @ ..] => check(rest),
    }
}

/// Splits `a-z]rest` into the characters of the class and the rest.
fn class(pattern: &[char]) -> Option<(&[char], &[char])> {
    // A ']' in the first place is a character of the class.
    let end = pattern.iter().skip(1).position(|letter| *letter == ']')? + 1;
    Some((&pattern[..end], &pattern[end + 1..]))
}

fn is_in_class(class: &[char], letter: char) -> bool {
    match class {
        [first, '-', last, rest @ ..] => (*first..=*last).contains(&letter) || is_in_class(rest, letter),
        [one, rest @ ..] => *one == letter || is_in_class(rest, letter),
        [] => false,
    }
}

/// Whether a name matches a pattern: `*` stands for any characters, `?` for one, `[a-z]` for one of these. A dot at the
/// beginning has to be written, as in a shell, because editors' backup files begin with one.
fn matches(pattern: &[char], name: &str) -> bool {
    fn rest(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            (['*', others @ ..], _) => (0..=name.len()).any(|at| rest(others, &name[at..])),
            (['?', others @ ..], [_, name @ ..]) => rest(others, name),
            (['[', others @ ..], [first, name @ ..]) => {
                class(others).is_some_and(|(class, others)| is_in_class(class, *first) && rest(others, name))
            }
            ([letter, others @ ..], [first, name @ ..]) => letter == first && rest(others, name),
            ([], []) => true,
            _ => false,
        }
    }
    let name: Vec<char> = name.chars().collect();
    name.starts_with(&['.']) == pattern.starts_with(&['.']) && rest(pattern, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_that_a_pattern_matches() {
        let directory = tempfile::tempdir().expect("a directory");
        for place in ["a.d", "b.d", "20-b.conf.d", "15-a.conf"] {
            std::fs::create_dir(directory.path().join(place)).expect("is made");
        }
        let files = ["20-b.conf", "10-a.conf", "30-c.conf.bak", ".40-d.conf", "5-e.conf", "a.d/1.conf", "b.d/0.conf"];
        for name in files {
            std::fs::write(directory.path().join(name), "").expect("is written");
        }
        let names = |pattern: &str| {
            let files = files_of(&directory.path().join(pattern)).expect("is a pattern");
            let name = |path: &PathBuf| path.strip_prefix(directory.path()).expect("is below").display().to_string();
            files.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["10-a.conf", "20-b.conf", "5-e.conf"]);
        assert_eq!(names("*.conf"), names(""));
        assert_eq!(names("?0-*.conf*"), ["10-a.conf", "20-b.conf", "30-c.conf.bak"]);
        assert_eq!(names("[1-25]*.conf"), ["10-a.conf", "20-b.conf", "5-e.conf"]);
        assert_eq!(names("{20,10}-*.{conf,none}"), ["10-a.conf", "20-b.conf"]);
        assert_eq!(names("*.d/*.conf"), ["a.d/1.conf", "b.d/0.conf"]);
        assert_eq!(names("30-c.conf.bak"), ["30-c.conf.bak"]);
        assert!(names("*.none").is_empty());
    }

    #[test]
    fn a_pattern_that_can_not_be_read_is_named_with_the_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        for (pattern, part) in [
            ("none/*.conf", "cannot read the directory"),
            ("[1-2.conf", "has no ']'"),
            ("{a,b.conf", "has no '}'"),
            ("**/a.conf", "'**' isn't known"),
            ("a\\*", "'\\' isn't known"),
            ("*/../a.conf", "'..' can't come"),
        ] {
            let mistake = files_of(&directory.path().join(pattern)).expect_err(pattern);
            assert!(mistake.contains(part) && mistake.contains(&directory.path().display().to_string()), "{mistake}");
        }
    }
}
