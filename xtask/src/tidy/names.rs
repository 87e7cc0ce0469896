use super::Repository;
use super::directions::is_shell;

/// Names reserved for the shell: runtimes, sockets, files, threads, clocks.
const NAMES: &[&str] =
    &["tokio", "std::net", "std::fs", "std::thread", "std::os", "std::process", "Instant", "SystemTime"];

/// Checks that pure crates name no runtime, socket, file or clock, except in unit tests.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in repository.texts(".rs") {
        let Some((folder, rest)) = path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
            continue;
        };
        if is_shell(folder) || !rest.starts_with("src/") || rest.ends_with("/tests.rs") || rest.contains("/tests/") {
            continue;
        }
        for (number, line) in shipped_lines(text) {
            complaints.extend(named(line).map(|name| {
                format!("{path}:{number}: {folder} may not name {name}; only the shell ({}) may", "node and its like")
            }));
        }
    }
    complaints
}

/// Lines of code up to the unit tests, which are last in a file.
fn shipped_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..tests]
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.starts_with("//"))
        .map(|(number, line)| (number, line.split(" //").next().unwrap_or(line)))
}

fn named(line: &str) -> Option<&'static str> {
    let grouped = |name: &str| {
        name.strip_prefix("std::").is_some_and(|module| {
            line.split_once("std::{").is_some_and(|(_, group)| words(group).any(|word| word == module))
        })
    };
    NAMES.iter().copied().find(|name| {
        if name.contains("::") {
            line.match_indices(name).any(|(at, _)| !continues(&line[at + name.len()..])) || grouped(name)
        } else {
            words(line).any(|word| word == *name)
        }
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn continues(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        check(&Repository::from([("crates/queue/src/a.rs", text)])).len()
    }

    #[test]
    fn a_clock_in_a_pure_crate_is_found_however_it_is_imported() {
        assert_eq!(complaints("use std::time::Instant;\n"), 1);
        assert_eq!(complaints("use std::{io, fs, net::IpAddr};\n"), 1);
        assert_eq!(complaints("let x = tokio::spawn(y);\nstd::fs::read(p);\n"), 2);
    }

    #[test]
    fn comments_tests_and_longer_words_are_ignored() {
        assert_eq!(complaints("//! no tokio here\nlet a = 1; // not an Instant\n"), 0);
        assert_eq!(complaints("fn a() {}\n#[cfg(test)]\nmod tests {\n use std::fs;\n}\n"), 0);
        assert_eq!(complaints("struct InstantOrNot; mod std_fs; use core::net::IpAddr;\n"), 0);
    }

    #[test]
    fn the_shell_may_use_them() {
        let repository = Repository::from([("crates/node/src/a.rs", "use std::time::Instant;\n")]);
        assert_eq!(check(&repository), [""; 0]);
    }
}
