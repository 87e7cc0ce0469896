//! Compares the table of commands with a real RabbitMQ: golden/ctl/commands.txt has its commands,
//! golden/ctl/scene.txt those whose output is recorded and compared.

use std::collections::{BTreeMap, BTreeSet};

use super::{all, find};
use crate::tool::Tool;

const COMMANDS: &str = include_str!("../../../../tests/golden/ctl/commands.txt");
const SCENE: &str = include_str!("../../../../tests/golden/ctl/scene.txt");
/// Commands whose output isn't recorded, each with its reason.
const UNRECORDED: &str = include_str!("../../../../tests/allow/unrecorded-ctl.txt");

fn tool(name: &str) -> Tool {
    Tool::ALL.into_iter().find(|tool| tool.name() == name).unwrap_or_else(|| panic!("{name} is no tool"))
}

/// RabbitMQ's commands with the tools that have them.
fn theirs() -> BTreeMap<&'static str, Vec<Tool>> {
    let mut found: BTreeMap<_, Vec<Tool>> = BTreeMap::new();
    for (name, command) in COMMANDS.lines().filter_map(|line| line.split_once(' ')) {
        found.entry(command).or_default().push(tool(name));
    }
    found
}

#[test]
fn every_command_of_rabbitmq_works_or_is_listed_as_missing() {
    let theirs = theirs();
    assert!(theirs.len() > 150, "there are {}", theirs.len());
    for (command, tools) in theirs {
        for tool in tools {
            assert!(find(tool, command).is_some(), "{} {command} isn't known", tool.name());
        }
    }
}

#[test]
fn rabbitmqs_commands_are_recorded_or_have_a_reason() {
    let lines = SCENE.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let recorded: BTreeSet<&str> = lines
        .filter(|words| words[0].starts_with("rabbitmq"))
        .filter_map(|words| words.iter().copied().find(|word| find(tool(words[0]), word).is_some()))
        .collect();
    let allowed: BTreeMap<&str, &str> =
        UNRECORDED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect();
    let theirs = theirs();
    let ours = all().filter(|command| command.missing.is_none() && theirs.contains_key(command.name));
    let left: BTreeSet<&str> = ours.map(|command| command.name).filter(|name| !recorded.contains(name)).collect();
    let named: BTreeSet<&str> = allowed.keys().copied().collect();
    assert_eq!(left.difference(&named).collect::<Vec<_>>(), [&""; 0], "neither recorded nor in unrecorded-ctl.txt");
    assert_eq!(named.difference(&left).collect::<Vec<_>>(), [&""; 0], "not needed in unrecorded-ctl.txt");
}
