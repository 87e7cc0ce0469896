//! Checks the table of RabbitMQ's features, and that its page is up to date.

use std::fs;

use xtask::compatibility::{PAGE, TABLE, check, page, parse};
use xtask::tidy::Repository;

#[test]
fn every_row_has_a_proof_or_a_reason() {
    let repository = Repository::read(&xtask::root()).expect("the repository can be read");
    let sections = parse(repository.text(TABLE).expect("the table is there")).expect("the table can be read");
    let complaints = check(&sections, &repository);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// `UPDATE_DOCS=1` writes the page.
#[test]
fn the_page_is_the_table() {
    let root = xtask::root();
    let text = fs::read_to_string(root.join(TABLE)).expect("the table is there");
    let made = page(&parse(&text).expect("the table can be read"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root.join(PAGE), &made).expect("the page can be written");
    }
    let is_same = fs::read_to_string(root.join(PAGE)).is_ok_and(|page| page == made);
    assert!(is_same, "{PAGE} isn't what {TABLE} makes: run with UPDATE_DOCS=1");
}
