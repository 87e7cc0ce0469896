//! Lists of names that are allowed to fail, each with its reason. A list can only shrink: an unneeded entry fails.

use std::collections::BTreeMap;

/// Parses `Name: reason` lines; `#` starts a comment.
///
/// # Panics
/// If a name has no reason.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, reason) = line.split_once(": ").unwrap_or((line, ""));
        assert!(!reason.trim().is_empty(), "{name} is allowed to fail without a reason");
        entries.insert(name.trim().to_owned(), reason.trim().to_owned());
    }
    entries
}

/// The complaints about a run: failures that aren't allowed, and entries that weren't needed.
pub fn judge(allowed: &BTreeMap<String, String>, passed: &[String], failed: &[String]) -> Vec<String> {
    let mut wrong: Vec<String> =
        failed.iter().filter(|name| !allowed.contains_key(*name)).map(|name| format!("{name} failed")).collect();
    for name in allowed.keys().filter(|name| !failed.contains(name)) {
        let what = if passed.contains(name) { "passes" } else { "doesn't exist or was skipped" };
        wrong.push(format!("{name} {what}: remove it from the list"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_entry_is_wrong() {
        let allowed = parse("# note\nA: needs x\nB: needs y\n");
        let wrong = judge(&allowed, &["B".into()], &["A".into(), "C".into()]);
        assert_eq!(wrong, ["C failed", "B passes: remove it from the list"]);
    }
}
