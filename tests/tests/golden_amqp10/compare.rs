//! Differences between two answers.

use std::collections::BTreeMap;

use super::play::first_word;

/// The script whose answer is the beginning of all others.
const BEGUN: &str = "begin with defaults";

/// The frames up to `begin` are kept in one script; in the others they are replaced by one line.
pub(crate) fn begin_once(answers: &mut BTreeMap<String, Vec<String>>) {
    let Some(begun) = answers.get(BEGUN) else { return };
    let count = begun.iter().take_while(|line| first_word(line) != "begin").count() + 1;
    let begun = begun.iter().take(count).cloned().collect::<Vec<_>>();
    for (_, lines) in answers.iter_mut().filter(|(name, _)| *name != BEGUN) {
        while let Some(at) = lines.windows(count).position(|window| window == begun) {
            lines.splice(at..at + count, ["begun".to_owned()]);
        }
    }
}

/// The differences between recorded and actual answers, each named by its script and the frames that differ: `script
/// / detach`, `script / detach text` if only the description of an error differs, `script / no detach` and `script /
/// also detach` if only one of both has the frame.
pub(crate) fn differences(name: &str, theirs: &[String], ours: &[String]) -> Vec<String> {
    let mut differences = Vec::new();
    for pair in aligned(theirs, ours) {
        let what = match pair {
            (Some(their), Some(our)) if their == our => continue,
            (Some(their), Some(our)) if without_text(their).0 == without_text(our).0 => {
                if same_words(their, our) {
                    continue;
                }
                format!("{} text", first_word(their))
            }
            (Some(line), Some(_)) => first_word(line).to_owned(),
            (Some(line), None) => format!("no {}", first_word(line)),
            (None, Some(line)) => format!("also {}", first_word(line)),
            (None, None) => continue,
        };
        let difference = format!("{name} / {what}");
        if !differences.contains(&difference) {
            differences.push(difference);
        }
    }
    differences
}

/// Aligns lines of the same name, as many as possible, with equal lines preferred.
fn aligned<'a>(theirs: &'a [String], ours: &'a [String]) -> Vec<(Option<&'a String>, Option<&'a String>)> {
    let worth = |at: usize, to: usize| match (&theirs[at], &ours[to]) {
        (their, our) if their == our => 3,
        (their, our) if first_word(their) == first_word(our) => 2,
        _ => 0,
    };
    // The score of the rest of both, from each pair of positions on.
    let mut best = vec![vec![0; ours.len() + 1]; theirs.len() + 1];
    for at in (0..theirs.len()).rev() {
        for to in (0..ours.len()).rev() {
            let pair = worth(at, to);
            let paired = if pair > 0 { pair + best[at + 1][to + 1] } else { 0 };
            best[at][to] = paired.max(best[at + 1][to]).max(best[at][to + 1]);
        }
    }
    let mut pairs = Vec::new();
    let (mut at, mut to) = (0, 0);
    while at < theirs.len() && to < ours.len() {
        let pair = worth(at, to);
        if pair > 0 && best[at][to] == pair + best[at + 1][to + 1] {
            pairs.push((Some(&theirs[at]), Some(&ours[to])));
            (at, to) = (at + 1, to + 1);
        } else if best[at][to] == best[at + 1][to] {
            pairs.push((Some(&theirs[at]), None));
            at += 1;
        } else {
            pairs.push((None, Some(&ours[to])));
            to += 1;
        }
    }
    pairs.extend(theirs[at..].iter().map(|line| (Some(line), None)));
    pairs.extend(ours[to..].iter().map(|line| (None, Some(line))));
    pairs
}

/// Whether two lines differ only in the description of an error. A description that continues where RabbitMQ's ends,
/// or that replaces an Erlang term, counts as the same.
fn same_words(their: &str, our: &str) -> bool {
    let ((_, theirs), (_, ours)) = (without_text(their), without_text(our));
    let term = ["...", "{", "[", "<<"].into_iter().filter_map(|start| theirs.find(start)).min();
    ours.starts_with(&theirs[..term.unwrap_or(theirs.len())])
}

/// A line without the description of its error, and the description.
fn without_text(line: &str) -> (String, &str) {
    const START: &str = ", description: Some(\"";
    let Some(at) = line.find(START) else { return (line.to_owned(), "") };
    let text = at + START.len();
    let end = line[text..].find("\")").map_or(line.len(), |end| text + end);
    (format!("{}{}", &line[..at], line[end..].trim_start_matches("\")")), &line[text..end])
}

#[test]
fn differences_are_named_by_their_frames() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let theirs = lines(&["attach a", "detach { x, description: Some(\"1\") }", "end", "close { y }"]);
    let ours =
        lines(&["attach b", "flow", "detach { x, description: Some(\"2\") }", "close { y, description: Some(\"z\") }"]);
    assert_eq!(differences("s", &theirs, &ours), ["s / attach", "s / also flow", "s / detach text", "s / no end"]);
    assert!(differences("s", &theirs, &theirs).is_empty());
    let (their, ours) =
        (lines(&["end { x, description: Some(\"bad: {utf8,<<1>>}\") }"]), "end { x, description: Some(\"bad: 1\") }");
    assert!(differences("s", &their, &lines(&[ours])).is_empty());
}
