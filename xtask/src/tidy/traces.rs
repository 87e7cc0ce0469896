use super::Repository;

/// Prefixes of paths on a developer's machine.
const PATHS: &[&str] = &["/home/", "/root/", "/work/", "/Users/", "/tmp/wt", "/tmp/target"];
/// Lock files of package clients, in which a host would be a machine's own registry.
const LOCK_FILES: &[&str] = &["package-lock.json", "Cargo.lock", "go.sum", "uv.lock", "requirements.txt"];
/// The index that Cargo always writes.
const CARGO_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks that no file reveals the machine that it was written on, or the registry of its packages.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in repository.texts("") {
        // This file contains the patterns themselves.
        if path == "xtask/src/tidy/traces.rs" {
            continue;
        }
        let locks = LOCK_FILES.iter().any(|name| path.ends_with(name));
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = PATHS.iter().find(|found| has_path(line, found)) {
                complaints.push(format!("{path}:{}: a path of a machine: {found}", index + 1));
            }
            if locks && line.replace(CARGO_INDEX, "").contains("://") && !line.contains("\"url\"") {
                complaints.push(format!("{path}:{}: a registry's host: {}", index + 1, line.trim()));
            }
        }
    }
    complaints
}

/// Such a path is at the start of a word: `/work/x`, not `example.org/work/x`.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}' | '/' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found_and_parts_of_addresses_not() {
        assert_eq!(check(&Repository::from([("a.md", "see `/home/me/x`")])).len(), 1);
        assert_eq!(
            check(&Repository::from([("a.md", "https://example.org/work/x and $(dirname)/root/")])),
            ["a.md:1: a path of a machine: /root/"]
        );
        assert_eq!(check(&Repository::from([("a.md", "https://example.org/work/x")])), [""; 0]);
    }

    #[test]
    fn a_host_in_a_lock_file_is_found() {
        let lock = r#""resolved": "https://registry.example.org/a.tgz","#;
        assert_eq!(check(&Repository::from([("tests/package-lock.json", lock)])).len(), 1);
        let cargo = r#"source = "registry+https://github.com/rust-lang/crates.io-index""#;
        assert_eq!(check(&Repository::from([("Cargo.lock", cargo)])), [""; 0]);
    }
}
