//! The table of RabbitMQ's features and their state in this project: docs/compatibility.tsv.

mod page;
mod proof;

use std::collections::BTreeSet;

pub use self::page::page;
use crate::tidy::Repository;

/// Path of the table.
pub const TABLE: &str = "docs/compatibility.tsv";
/// Path of the page generated from it.
pub const PAGE: &str = "docs/compatibility.md";
const DIFFERENCES: &str = "docs/differences.md";

/// Parts of the work that a missing feature may wait for.
const PARTS: &[&str] = &[
    "clusters",
    "identity",
    "logging",
    "metrics",
    "MQTT",
    "operating",
    "plugins",
    "policies",
    "queue features",
    "quorum queues",
    "shovels and federation",
    "STOMP",
    "streams",
    "TLS",
    "web page",
    "wishes",
];

/// The state of a feature of RabbitMQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It works as in RabbitMQ; each proof fails without it.
    Works,
    /// It works in part; the note names the missing parts.
    Partly,
    /// It differs on purpose; the note names the row of docs/differences.md.
    Differs,
    /// It is missing; the note begins with the part of the work that will add it.
    Later,
    /// It won't be added; the note has the reason.
    No,
}

impl State {
    const ALL: [Self; 5] = [Self::Works, Self::Partly, Self::Differs, Self::Later, Self::No];

    fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partly => "partly",
            Self::Differs => "differs",
            Self::Later => "later",
            Self::No => "no",
        }
    }
}

/// A feature.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its stable id: `F1-01`.
    pub id: &'a str,
    /// Its state.
    pub state: State,
    /// Its description.
    pub title: &'a str,
    /// The tests that prove it, or prove that it is refused: `FILE.rs::FUNCTION`, a scenario of the table of clients,
    /// or a recorded script.
    pub proofs: Vec<&'a str>,
    /// Missing parts, a reason, or a remark.
    pub note: &'a str,
}

/// Features of one area.
#[derive(Debug)]
pub struct Section<'a> {
    /// The heading.
    pub title: &'a str,
    /// In the order of their ids.
    pub rows: Vec<Row<'a>>,
}

/// Parses the table: lines of id, state, title, proofs (separated by `; `) and note, under headings that begin with
/// `# `.
///
/// # Errors
/// The error in a line, with its number.
pub fn parse(text: &str) -> Result<Vec<Section<'_>>, String> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("# ") {
            sections.push(Section { title, rows: Vec::new() });
            continue;
        }
        let at = |what: &str| format!("{TABLE}:{}: {what}", index + 1);
        let [id, word, title, proofs, note] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(at("a row has five columns"));
        };
        let state = State::ALL.into_iter().find(|state| state.word() == word);
        let state = state.ok_or_else(|| at(&format!("no such state: {word}")))?;
        let proofs = proofs.split("; ").filter(|proof| !proof.is_empty()).collect();
        let section = sections.last_mut().ok_or_else(|| at("a row without a heading"))?;
        section.rows.push(Row { id, state, title, proofs, note });
    }
    Ok(sections)
}

/// Checks the table against the repository.
#[must_use]
pub fn check(sections: &[Section<'_>], repository: &Repository) -> Vec<String> {
    let mut complaints = Vec::new();
    let rows: Vec<_> = sections.iter().flat_map(|section| &section.rows).collect();
    for pair in rows.windows(2).filter(|pair| pair[0].id >= pair[1].id) {
        complaints.push(format!("{} stands before {}", pair[0].id, pair[1].id));
    }
    for row in rows {
        complaints.extend(incomplete(row, repository).map(|what| format!("{}: {what}", row.id)));
        let missing = row.proofs.iter().filter_map(|proof| proof::missing(proof, repository));
        complaints.extend(missing.map(|what| format!("{}: {what}", row.id)));
    }
    complaints
}

fn incomplete(row: &Row<'_>, repository: &Repository) -> Option<String> {
    let part = row.note.split_once(':').map_or(row.note, |(part, _)| part);
    let differences = || repository.text(DIFFERENCES).unwrap_or_default().contains(&format!("\n| {} |", row.note));
    match row.state {
        _ if row.title.is_empty() => Some("it has no title".into()),
        State::Works | State::Partly if row.proofs.is_empty() => Some("no test shows it".into()),
        State::Partly | State::No if row.note.is_empty() => Some("the note is missing".into()),
        State::Differs if !differences() => Some(format!("no row of {DIFFERENCES} begins with {:?}", row.note)),
        State::Later if !PARTS.contains(&part) => Some(format!("the note begins with none of {PARTS:?}")),
        _ => None,
    }
}

/// Features of a census (Markdown tables whose first cell is the id) that are missing from the table, and vice versa.
#[must_use]
pub fn strangers(sections: &[Section<'_>], census: &str) -> Vec<String> {
    let ours: BTreeSet<&str> = sections.iter().flat_map(|section| &section.rows).map(|row| row.id).collect();
    let theirs: BTreeSet<&str> = census.lines().filter_map(id).collect();
    let missing = theirs.difference(&ours).map(|id| format!("{id} is not in {TABLE}"));
    missing.chain(ours.difference(&theirs).map(|id| format!("{id} is in {TABLE} only"))).collect()
}

/// The id in a row of the census: a letter, letters or digits, a dash and two or three digits.
fn id(line: &str) -> Option<&str> {
    let (id, _) = line.strip_prefix("| ")?.split_once(" |")?;
    let (area, number) = id.split_once('-')?;
    let area = area.starts_with(['F', 'G', 'N']) && area.len() <= 2;
    (area && (2..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 2] =
        [("a.rs", "#[test]\nfn there() {}\n"), (DIFFERENCES, "| what |\n|---|\n| size | x | y |\n")];

    fn complaints(text: &str) -> Vec<String> {
        check(&parse(text).unwrap_or_else(|error| panic!("{error}")), &Repository::from(FILES))
    }

    #[test]
    fn a_sound_table_has_no_complaint() {
        let text = "# A\nF1-01\tworks\tx\ta.rs::there\t\nF1-02\tpartly\tx\ta.rs::there\ty\nF1-03\tdiffers\tx\t\tsize\n\
                    # B\nF2-01\tlater\tx\t\tclusters: z\nF2-02\tno\tx\ta.rs::there\tz\n";
        assert_eq!(complaints(text), [""; 0]);
    }

    #[test]
    fn each_flaw_is_named() {
        for (row, flaw) in [
            ("F1-01\tworks\tx\t\t", "no test shows it"),
            ("F1-01\tworks\tx\ta.rs::gone\t", "a.rs has no test gone"),
            ("F1-01\tworks\t\ta.rs::there\t", "no title"),
            ("F1-01\tpartly\tx\ta.rs::there\t", "the note is missing"),
            ("F1-01\tdiffers\tx\t\tcolour", "no row of docs/differences.md begins with \"colour\""),
            ("F1-01\tlater\tx\t\tsome day", "the note begins with none of"),
            ("F1-01\tno\tx\t\t", "the note is missing"),
            ("F1-02\tno\tx\t\ty\nF1-01\tno\tx\t\ty", "F1-02 stands before F1-01"),
            ("F1-01\tno\tx\t\ty\nF1-01\tno\tx\t\ty", "F1-01 stands before F1-01"),
        ] {
            let found = complaints(&format!("# A\n{row}\n"));
            assert!(found.len() == 1 && found[0].contains(flaw), "{row}: {found:?}");
        }
        for (text, flaw) in [
            ("# A\nF1-01\tperhaps\tx\t\ty\n", "docs/compatibility.tsv:2: no such state: perhaps"),
            ("# A\nF1-01\tno\n", "docs/compatibility.tsv:2: a row has five columns"),
            ("F1-01\tno\tx\t\ty\n", "docs/compatibility.tsv:1: a row without a heading"),
        ] {
            assert_eq!(parse(text).err().as_deref(), Some(flaw));
        }
    }

    #[test]
    fn a_census_is_compared_both_ways() {
        let sections = parse("# A\nF1-01\tno\tx\t\ty\nN-001\tno\tx\t\ty\n").unwrap();
        let census = "| Id | x |\n| --- | --- |\n| F1-01 | x |\n| G0-02 | x |\n| C-01 | x |\n| 7 | x |\n";
        assert_eq!(
            strangers(&sections, census),
            ["G0-02 is not in docs/compatibility.tsv", "N-001 is in docs/compatibility.tsv only"]
        );
    }
}
