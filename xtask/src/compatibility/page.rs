use std::fmt::Write as _;

use super::{Section, State};

const HEAD: &str = "# Compatibility

What RabbitMQ 4.3 can do, row by row, and what becomes of it here. This page is made of
[compatibility.tsv](compatibility.tsv), which the tests read: run `UPDATE_DOCS=1 cargo test -p xtask` after a change.

- works: as there; the test that is named fails without it
- partly: the test shows what is there, the text says what is missing
- differs: on purpose in another way, see the row of that name in [differences.md](differences.md)
- later: not there yet, and refused with a clear error; the text begins with the part of the work that brings it
- no: it won't be there

A test is a function in a file, a scenario of [the table of clients](../tests/README.md) (`tests/src/table`), or a
script whose answers were recorded from RabbitMQ 4.3.6 and are compared with ours (`tests/golden`, and
`crates/message/tests/conversions` for messages from one protocol to the other). With later and no, it shows that it is refused.
";

/// The page, docs/compatibility.md.
#[must_use]
pub fn page(sections: &[Section<'_>]) -> String {
    let mut page = String::from(HEAD);
    page.push_str("\n| part | rows |");
    for state in State::ALL {
        let _ = write!(page, " {} |", state.word());
    }
    let _ = writeln!(page, "\n| --- |{}", " --- |".repeat(State::ALL.len() + 1));
    for section in sections {
        let _ = writeln!(page, "| {} | {}", section.title, counts(std::slice::from_ref(section)));
    }
    let _ = writeln!(page, "| all | {}", counts(sections));
    for section in sections {
        let _ = write!(page, "\n## {}\n\n| id | what | state | shown by | remark |\n", section.title);
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for row in &section.rows {
            let proofs: Vec<_> = row.proofs.iter().map(|proof| format!("`{}`", cell(proof))).collect();
            let cells = [row.id, &cell(row.title), row.state.word(), &proofs.join(", "), &cell(row.note)].join(" | ");
            let _ = writeln!(page, "| {cells} |");
        }
    }
    page
}

fn counts(sections: &[Section<'_>]) -> String {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let mut cells = vec![rows().count()];
    cells.extend(State::ALL.map(|state| rows().filter(|row| row.state == state).count()));
    cells.iter().map(|count| format!("{count} |")).collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_shown() {
        let text =
            "# One\nF1-01\tworks\ta | b\tx.rs::y; x.rs::z\t\nF1-02\tlater\tc\t\tclusters\n# Two\nF2-01\tno\td\t\te\n";
        let page = page(&super::super::parse(text).unwrap());
        for line in [
            "| part | rows | works | partly | differs | later | no |",
            "| One | 2 | 1 | 0 | 0 | 1 | 0 |",
            "| all | 3 | 1 | 0 | 0 | 1 | 1 |",
            "| F1-01 | a \\| b | works | `x.rs::y`, `x.rs::z` |  |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} isn't in\n{page}");
        }
    }
}
