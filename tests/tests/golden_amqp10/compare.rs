//! Where two answers differ.

use std::collections::BTreeMap;

use super::play::first_word;

/// The script whose answer all others begin with.
pub(crate) const BEGUN: &str = "begin with defaults";

/// What is said up to `begin` stays with one script; in the others one line stands for it.
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

/// The differences between what was recorded and what was said, each by its script's name and the frames that differ:
/// `script / detach`, or `script / detach text` when only the description of an error differs.
pub(crate) fn differences(name: &str, theirs: &[String], ours: &[String]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut add = |what: String| {
        let difference = format!("{name} / {what}");
        if !differences.contains(&difference) {
            differences.push(difference);
        }
    };
    let (mut theirs, mut ours) = (theirs.iter().peekable(), ours.iter().peekable());
    while let Some(&their) = theirs.peek() {
        let Some(&our) = ours.peek() else { break };
        if their == our {
            (theirs.next(), ours.next());
        } else if first_word(their) == first_word(our) {
            let text = without_text(their) == without_text(our);
            add(format!("{}{}", first_word(their), if text { " text" } else { "" }));
            (theirs.next(), ours.next());
        } else {
            break;
        }
    }
    // From here on other frames came.
    for line in theirs {
        add(format!("no {}", first_word(line)));
    }
    for line in ours {
        add(format!("also {}", first_word(line)));
    }
    differences
}

/// A line without the description of its error.
fn without_text(line: &str) -> String {
    const START: &str = "description: Some(\"";
    let Some(at) = line.find(START) else { return line.to_owned() };
    let text = at + START.len();
    let end = line[text..].find("\")").map_or(line.len(), |end| text + end);
    format!("{}{}", &line[..text], &line[end..])
}

#[test]
fn differences_are_named_by_their_frames() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let theirs = lines(&["attach a", "detach Some(x) description: Some(\"1\") }", "end"]);
    let ours = lines(&["attach b", "detach Some(x) description: Some(\"2\") }", "close"]);
    assert_eq!(differences("s", &theirs, &ours), ["s / attach", "s / detach text", "s / no end", "s / also close"]);
    assert!(differences("s", &theirs, &theirs).is_empty());
}
