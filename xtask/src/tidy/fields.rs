use super::Repository;

/// Files with the state of a connection, whose fields are its parts: its methods by subject use them.
const STATES: &[&str] = &["/src/connection.rs", "/src/session.rs"];

/// Checks that the parts of connections own their fields: in the session crates no field is visible in the whole crate or in the module
/// above, but the parts in the state of a connection. A plain value's fields are `pub`, as its type is visible as far as it should be.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in repository.texts(".rs") {
        if !path.starts_with("crates/session")
            || !path.contains("/src/")
            || STATES.iter().any(|state| path.ends_with(state))
        {
            continue;
        }
        for (at, _) in text.lines().enumerate().filter(|(_, line)| is_shared_field(line)) {
            complaints
                .push(format!("{path}:{}: a part owns its fields: give it methods, or make it a plain value", at + 1));
        }
    }
    complaints
}

/// Whether a line declares a field for others than its own module and those that have the type.
fn is_shared_field(line: &str) -> bool {
    let line = line.trim_start();
    let Some((_, rest)) = line.strip_prefix("pub(").and_then(|line| line.split_once(") ")) else { return false };
    let name = rest.split(':').next().unwrap_or_default();
    rest.contains(": ")
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_others_reach_into_is_named() {
        let part = "pub(crate) struct Part {\n    count: u64,\n    pub(super) next: u64,\n}\n";
        let own =
            "pub(crate) struct Part {\n    count: u64,\n}\n\nimpl Part {\n    pub(crate) fn count(&self) -> u64 {\n";
        let found = check(&Repository::from([("crates/session-a/src/part.rs", part)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/session-a/src/part.rs:3: "), "{found:?}");
        assert_eq!(check(&Repository::from([("crates/session-a/src/part.rs", own)])), [""; 0]);
        assert_eq!(check(&Repository::from([("crates/session-a/src/session.rs", part)])), [""; 0]);
        assert_eq!(check(&Repository::from([("crates/other/src/part.rs", part)])), [""; 0]);
    }
}
