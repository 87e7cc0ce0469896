//! Scenarios as text: each file of `scenarios/` is a script of steps, with the answers and signals after each.
//!
//! The first line names the types of queues that a scenario applies to; each of them has to give the same answers. `#` begins a
//! comment, an indented line belongs to the answer of the step before it. [`runner::bench`] has the list of commands.
//! `UPDATE_SCENARIOS=1 cargo test -p leveret-queue --test scenarios` rewrites the answers: check the diff, because each line
//! has to match RabbitMQ's behaviour.

mod chunks;
mod runner;

use std::path::{Path, PathBuf};
use std::{env, fs};

use self::runner::bench::Bench;
use self::runner::script::Script;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Runs a script on queues of each type that it is for.
fn run(text: &str) -> Result<String, String> {
    let script = Script::parse(text)?;
    if script.types.is_empty() {
        return Err("line 1: there are no types".to_owned());
    }
    let mut answers = Vec::new();
    for queue_type in script.types.iter().copied() {
        let mut bench = Bench::new(queue_type);
        let mut answer = |line: usize, command: &str| {
            bench.step(command).map_err(|reason| format!("line {line}: `{command}`: {reason}"))
        };
        let answered = script.answer(&mut answer)?;
        answers.push((queue_type, answered));
    }
    let (first, answered) = answers.swap_remove(0);
    match answers.into_iter().find(|(_, other)| *other != answered) {
        Some((other, _)) => Err(format!("line 1: {first:?} and {other:?} queues answer differently")),
        None => Ok(answered),
    }
}

#[test]
fn every_scenario_is_answered_as_written() {
    let update = env::var_os("UPDATE_SCENARIOS").is_some();
    let mut files: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut complaints = Vec::new();
    for path in &files {
        let name = path.file_name().unwrap().to_string_lossy();
        if path.extension().is_none_or(|extension| extension != "txt") {
            complaints.push(format!("{name} isn't used: scenarios end in .txt"));
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        match run(&text) {
            Ok(answered) if answered == text => {}
            Ok(answered) if update => fs::write(path, answered).unwrap(),
            Ok(answered) => complaints.push(format!("{name} {}", difference(&text, &answered))),
            Err(reason) => complaints.push(format!("{name} {reason}")),
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
    assert!(files.len() >= 40, "only {} scenarios were found", files.len());
}

/// The first line that differs, with the written and the actual answer.
fn difference(written: &str, answered: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (written.lines().collect(), answered.lines().collect());
    let at = (0..).find(|at| old.get(*at) != new.get(*at)).expect("they differ");
    let step = new[..at.min(new.len())].iter().rev().find(|line| !line.starts_with(' ') && !line.is_empty());
    let show = |lines: &[&str]| lines.get(at).map_or("nothing".to_owned(), |line| format!("`{}`", line.trim()));
    let step = step.unwrap_or(&"the beginning");
    format!("line {}, after `{step}`: written is {}, answered was {}", at + 1, show(&old), show(&new))
}

#[test]
fn an_unknown_command_is_named_with_its_line() {
    let refused = run("types: classic\n\nqueue\nexplode now\n").unwrap_err();
    assert_eq!(refused, "line 4: `explode now`: there is no command `explode`");
    let refused = run("types: classic\nqueue\npublish a b c frobnicate=3\n").unwrap_err();
    assert_eq!(refused, "line 3: `publish a b c frobnicate=3`: `frobnicate` isn't asked for");
}

#[test]
fn a_script_without_types_is_not_used() {
    assert!(run("types:\nqueue\n").unwrap_err().starts_with("line 1"));
    assert!(run("types: cubic\nqueue\n").unwrap_err().starts_with("line 1"));
    assert!(run("queue\n").unwrap_err().starts_with("line 1"));
}

#[test]
fn answers_are_replaced_and_all_else_stays() {
    let script = "types: classic\n\n# Why.\nqueue\npublish a\n    wrong\n";
    let answered = run(script).unwrap();
    assert_eq!(answered, "types: classic\n\n# Why.\nqueue\npublish a\n    accepted: a, at 1\n");
    assert_eq!(run(&answered).unwrap(), answered);
}
