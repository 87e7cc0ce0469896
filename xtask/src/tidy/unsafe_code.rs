use toml::{Table, Value};

use super::Repository;
use super::manifest::value;

/// Every crate of ours forbids unsafe code, by the workspace's lints or in its root file.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let workspace = repository.text("Cargo.toml").and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let forbidden = value(&workspace, &["workspace", "lints", "rust", "unsafe_code"]).and_then(Value::as_str);
    let in_workspace = forbidden == Some("forbid");
    let mut complaints = Vec::new();
    for (path, text) in repository.texts("/Cargo.toml") {
        // The fuzzers' entry points are made by a macro that is not.
        if path.starts_with("fuzz/") {
            continue;
        }
        let manifest = text.parse::<Table>().unwrap_or_default();
        let inherits = value(&manifest, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true);
        let folder = path.trim_end_matches("Cargo.toml");
        let itself = ["src/lib.rs", "src/main.rs"].iter().any(|root| {
            repository.text(&format!("{folder}{root}")).is_some_and(|text| text.contains("#![forbid(unsafe_code)]"))
        });
        let forbids = itself || (inherits && in_workspace);
        if !forbids {
            complaints.push(format!("{path}: the crate doesn't forbid unsafe code ([lints] workspace = true)"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: (&str, &str) = ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n");

    #[test]
    fn a_crate_that_does_not_inherit_the_lint_is_named() {
        let inherits = ("crates/a/Cargo.toml", "[lints]\nworkspace = true\n");
        assert_eq!(check(&Repository::from([WORKSPACE, inherits])), [""; 0]);
        assert_eq!(check(&Repository::from([WORKSPACE, ("crates/a/Cargo.toml", "")])).len(), 1);
        assert_eq!(check(&Repository::from([("Cargo.toml", ""), inherits])).len(), 1);
    }
}
