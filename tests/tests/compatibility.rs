//! docs/compatibility.md is made of compatibility.txt, and what that says works has a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use leveret_tests::table::TABLES;

/// How many capabilities there are.
const ROWS: usize = 511;

const STATES: [&str; 4] = ["works", "part", "unproven", "not yet"];

struct Row {
    id: String,
    capability: String,
    state: String,
    proof: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every row under its heading.
fn rows() -> Vec<(String, Vec<Row>)> {
    let text = fs::read_to_string(root().join("tests/compatibility.txt")).expect("the table");
    // What stands before the first empty line is about the table.
    let (_, text) = text.split_once("\n\n").expect("a heading and rows");
    let mut sections: Vec<(String, Vec<Row>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            sections.push((heading.to_owned(), Vec::new()));
            continue;
        }
        let [id, capability, state, proof] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let row = Row {
            id: id.to_owned(),
            capability: capability.to_owned(),
            state: state.to_owned(),
            proof: proof.to_owned(),
        };
        sections.last_mut().expect("a heading first").1.push(row);
    }
    sections
}

/// What is wrong with a proof.
fn fault(row: &Row) -> Option<String> {
    if let Some(names) = row.proof.strip_prefix("scenario ") {
        let known: BTreeSet<&str> =
            TABLES.iter().flat_map(|table| table.scenarios).map(|scenario| scenario.name).collect();
        let unknown = names.split(' ').find(|name| !known.contains(name))?;
        return Some(format!("{}: there is no scenario {unknown}", row.id));
    }
    let Some((file, function)) = row.proof.split_once("::") else {
        return Some(format!("{}: '{}' names no test", row.id, row.proof));
    };
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let is_there = text.contains(&format!("fn {function}()"));
    (!is_there).then(|| format!("{}: there is no {function} in {file}", row.id))
}

#[test]
fn what_works_names_a_test_that_exists() {
    let rows: Vec<Row> = rows().into_iter().flat_map(|(_, rows)| rows).collect();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!((rows.len(), ids.len()), (ROWS, ROWS), "rows and their ids");
    let mut wrong: Vec<String> = rows.iter().filter(|row| row.state == "works").filter_map(fault).collect();
    for row in &rows {
        if !STATES.contains(&row.state.as_str()) || (row.state == "part" && row.proof == "-") {
            wrong.push(format!("{}: '{}' with '{}'", row.id, row.state, row.proof));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_document_is_the_table() {
    let path = root().join("docs/compatibility.md");
    let document = document();
    if std::env::var_os("LEVERET_WRITE_TABLE").is_some() {
        fs::write(&path, &document).expect("is written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == document, "docs/compatibility.md is another table; run `make -C tests table`");
}

fn document() -> String {
    let sections = rows();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in sections.iter().flat_map(|(_, rows)| rows) {
        *counts.entry(&row.state).or_default() += 1;
    }
    let mut text = String::from(
        "# Compatibility\n\nWhat RabbitMQ and its tools do, and whether Leveret does it. This page is made of\n\
         [tests/compatibility.txt](../tests/compatibility.txt) by `make -C tests table`; what *works* names a test that shows\n\
         it, of *part* it says what is missing, of what is *unproven* no test stands here yet.\n\n",
    );
    let numbers: Vec<String> =
        STATES.iter().map(|state| format!("{} {state}", counts.get(state).copied().unwrap_or(0))).collect();
    let _ = writeln!(text, "Of {ROWS} rows: {}.", numbers.join(", "));
    for (heading, rows) in sections.iter().filter(|(_, rows)| !rows.is_empty()) {
        let _ = write!(
            text,
            "\n## {heading}\n\n| id | capability | state | shown by, or what is missing |\n|---|---|---|---|\n"
        );
        for row in rows {
            let proof = match row.state.as_str() {
                "works" => format!("`{}`", row.proof),
                _ if row.proof == "-" => String::new(),
                _ => row.proof.clone(),
            };
            let _ = writeln!(text, "| {} | {} | {} | {proof} |", row.id, row.capability, row.state);
        }
    }
    text
}
