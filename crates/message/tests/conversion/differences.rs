//! The list of differences that a receiver sees from RabbitMQ, `../conversions/differences.txt`.

use std::collections::BTreeSet;

/// A difference as a line of the list: `message / lines / receivers`.
pub(crate) type Difference = String;

/// Complaints about differences that aren't listed, and about unused lines of the list.
pub(crate) fn judge(list: &str, about: impl Fn(&str) -> bool, found: Vec<(Difference, String)>) -> Vec<String> {
    let mut listed = BTreeSet::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (difference, reason) = line.rsplit_once(": ").unwrap_or((line, ""));
        assert!(!reason.trim().is_empty(), "{line}: a difference has a reason");
        let (start, ways) = difference.rsplit_once(" / ").expect("message / lines / receivers");
        ways.split(", ").filter(|way| about(way)).for_each(|way| assert!(listed.insert(format!("{start} / {way}"))));
    }
    let mut complaints = Vec::new();
    for (difference, lines) in found {
        if !listed.remove(&difference) {
            complaints.push(format!("{difference}\n  {lines}"));
        }
    }
    complaints.extend(listed.iter().map(|unused| format!("{unused}: no such difference, remove it from the list")));
    complaints
}

/// The lines that only our receiver gets, and the names of those that only RabbitMQ's gets.
pub(crate) fn lines(found: &[String]) -> String {
    if found.iter().any(|line| line.starts_with("-malformed")) {
        return "malformed".to_owned();
    }
    let name = |line: &str| line.split_once(": ").map_or(line, |(name, _)| name).to_owned();
    let here: Vec<_> = found.iter().filter_map(|line| line.strip_prefix('+')).map(str::to_owned).collect();
    let gone = found.iter().filter_map(|line| line.strip_prefix('-')).map(name);
    let gone = gone.filter(|gone| !here.iter().any(|line| name(line) == *gone)).map(|gone| format!("no {gone}"));
    let lines: BTreeSet<_> = gone.chain(here.iter().cloned()).collect();
    lines.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_needs_a_line_and_a_line_a_difference() {
        let found = || vec![("a: b / ttl / amqp10".to_owned(), String::new())];
        assert!(judge("# note\na: b / ttl / amqp10: it is so\n", |_| true, found()).is_empty());
        assert_eq!(judge("", |_| true, found()).len(), 1);
        assert_eq!(judge("a: b / ttl / amqp10, amqp091: it is so\n", |_| true, found()).len(), 1);
        assert!(judge("a: b / ttl / amqp10, amqp091: it is so\n", |way| way == "amqp10", found()).is_empty());
        let found = ["-ttl: 1", "-priority: 4", "+ttl: 2", "+header \"a\": long 1"].map(str::to_owned);
        assert_eq!(lines(&found), "header \"a\": long 1, no priority, ttl: 2");
    }
}
