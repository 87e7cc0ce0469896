//! Writes the tables from the recording of `tests/golden/message-conversion.py`, for `make golden`.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::difference;
use crate::recording::{EVERY_WAY, ITS_DEATH, Receiver, bytes, way};
use crate::view;

/// Converts RabbitMQ's answers to text.
type Shown = fn(&str) -> String;

#[test]
#[ignore = "writes the tables: CONVERSION_RECORDED and CONVERSION_TABLE name the file and what is written from it"]
fn write_the_tables() {
    let recorded = std::env::var("CONVERSION_RECORDED").expect("CONVERSION_RECORDED names a file");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(recorded).unwrap()).unwrap();
    let name = std::env::var("CONVERSION_TABLE").expect("CONVERSION_TABLE is all, stamps-keep or stamps-overwrite");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversions");
    let tables: &[(&str, &[&str], Shown)] = match &*name {
        "all" => &[
            ("amqp091", &["amqp091"], str::to_owned),
            ("amqp10", &["amqp10"], str::to_owned),
            ("refused", &["refused"], str::to_owned),
            ("histories", &["histories"], str::to_owned),
        ],
        stamps => &[(stamps, &["amqp091", "amqp10"], view::without_times)],
    };
    for (table, sections, shown) in tables {
        let cases: Vec<_> = sections.iter().flat_map(|section| recorded[section].as_array().unwrap()).collect();
        std::fs::write(folder.join(format!("{table}.txt")), text(&recorded, &cases, *shown)).unwrap();
    }
}

fn string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

fn text(recorded: &Value, cases: &[&Value], shown: Shown) -> String {
    let mut out = format!(
        "# Messages that a {} delivered on {}, by `make golden`; tests/conversion/recording.rs says how to read them.\n",
        string(recorded, "server").unwrap(),
        string(recorded, "date").unwrap()
    );
    // The lines of the simplest messages, which have nothing that a death could change.
    let usual = |receiver: Receiver| {
        let case =
            cases.iter().find(|case| matches!(case["name"].as_str(), Some("body only" | "data" | "stamps= nothing")));
        case.map_or_else(Vec::new, |case| {
            let before = received(case, receiver, false, shown).unwrap();
            let after = received(case, receiver, true, shown).unwrap();
            difference(&before, &after)
        })
    };
    let usual = [usual(Receiver::Amqp091), usual(Receiver::Amqp10)];
    if !usual[0].is_empty() {
        writeln!(out, "\n[{ITS_DEATH}]").unwrap();
        for (receiver, lines) in [Receiver::Amqp091, Receiver::Amqp10].into_iter().zip(&usual) {
            writeln!(out, "{}", way(receiver, true)).unwrap();
            write_difference(&mut out, lines);
        }
    }
    for case in cases {
        let [name, published] = ["name", "published"].map(|key| string(case, key).unwrap());
        writeln!(out, "\n[{name}]\nbytes {published}").unwrap();
        if let Some(outcome) = string(case, "outcome") {
            writeln!(out, "refused {outcome}").unwrap();
            continue;
        }
        if let Some(steps) = case["steps"].as_array() {
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            steps.iter().for_each(|step| writeln!(out, "death {} {}", word(&step[0]), word(&step[1])).unwrap());
            out.push_str(if case["with_key"] == true { "with-key\n" } else { "" });
            writeln!(out, "last {}", string(case, "last").unwrap()).unwrap();
        }
        write_views(&mut out, case, shown, &usual);
    }
    out
}

fn received(case: &Value, receiver: Receiver, died: bool, shown: Shown) -> Option<String> {
    let raw = string(case, &way(receiver, died).replace(' ', "_"))?;
    Some(shown(&match receiver {
        Receiver::Amqp091 => content(raw),
        Receiver::Amqp10 => view::amqp10(&bytes(raw)),
    }))
}

fn content(raw: &str) -> String {
    let (properties, body) = raw.split_once(':').unwrap();
    view::amqp091(&bytes(properties), &bytes(body))
}

fn write_views(out: &mut String, case: &Value, shown: Shown, usual: &[Vec<String>; 2]) {
    let published = string(case, "published").unwrap();
    let published = if published.contains(':') { content(published) } else { view::amqp10(&bytes(published)) };
    write_lines(out, "published", &published);
    for (receiver, died) in EVERY_WAY {
        let name = way(receiver, died);
        let base = if died { way(receiver, false) } else { "published" };
        let before = if died { received(case, receiver, false, shown) } else { Some(published.clone()) };
        match (received(case, receiver, died, shown), before) {
            // Messages with several deaths were not rejected again.
            (None, _) if case["steps"].is_array() => {}
            (None, _) => writeln!(out, "{name}: fails").unwrap(),
            (Some(got), Some(before)) => {
                let mut found = difference(&before, &got);
                let usual = &usual[usize::from(receiver == Receiver::Amqp10)];
                let its_death = died && !usual.is_empty() && usual.iter().all(|line| found.contains(line));
                found.retain(|line| !its_death || !usual.contains(line));
                if found.len() >= before.lines().count() {
                    write_lines(out, name, &got);
                    continue;
                }
                writeln!(out, "{name}, as {base}").unwrap();
                write_difference(out, &found);
                out.push_str(if its_death { "    + its death\n" } else { "" });
            }
            (Some(got), None) => write_lines(out, name, &got),
        }
    }
}

fn write_lines(out: &mut String, section: &str, lines: &str) {
    writeln!(out, "{section}").unwrap();
    lines.lines().for_each(|line| writeln!(out, "    {line}").unwrap());
}

fn write_difference(out: &mut String, lines: &[String]) {
    lines.iter().for_each(|line| writeln!(out, "    {} {}", &line[..1], &line[1..]).unwrap());
}
