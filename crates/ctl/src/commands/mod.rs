//! The table of commands: help, parsing, completion and the tests are derived from it.

mod alarms;
mod bindings;
mod cluster;
mod connections;
mod consumers;
mod damage;
mod definitions;
mod enabled_plugins;
mod eval;
mod exchanges;
mod feature_flags;
mod general;
mod granted;
mod health;
mod life;
mod limits;
mod listed;
mod listeners;
mod logins;
mod logs;
mod members;
mod membership;
mod memory;
mod message_sizes;
mod missing;
mod network;
mod parameters;
mod permissions;
mod plugins;
mod policies;
mod process;
mod queues;
#[cfg(test)]
mod recorded;
mod replicas;
mod report;
mod set_aside;
mod status;
mod stream_clients;
mod streams;
mod tls;
mod topic_permissions;
mod transfers;
mod upgrade;
mod users;
mod vhosts;
mod waiting;

use crate::answer::CommandOutput;
use crate::call::Call;
use crate::failure::Failure;
use crate::tool::Tool;

/// The function that executes a command.
pub(crate) type Handler = fn(&mut Call<'_>) -> Result<CommandOutput, Failure>;

/// A command of the table.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The tools that have it.
    pub(crate) tools: &'static [Tool],
    pub(crate) group: CommandGroup,
    /// Its usage line, see [`crate::usage`].
    pub(crate) usage: &'static str,
    pub(crate) summary: &'static str,
    /// Whether it applies to one virtual host.
    pub(crate) in_vhost: bool,
    /// Columns that it can show; empty if it has no such choice.
    pub(crate) columns: &'static [&'static str],
    /// The reason why it isn't supported yet, if so.
    pub(crate) missing: Option<&'static str>,
    pub(crate) run: Handler,
}

impl Command {
    const fn new(
        tools: &'static [Tool],
        name: &'static str,
        group: CommandGroup,
        usage: &'static str,
        summary: &'static str,
        run: Handler,
    ) -> Self {
        Command { name, tools, group, usage, summary, in_vhost: false, columns: &[], missing: None, run }
    }

    const fn in_vhost(mut self) -> Self {
        self.in_vhost = true;
        self
    }

    const fn columns(mut self, columns: &'static [&'static str]) -> Self {
        self.columns = columns;
        self
    }
}

/// Tools with commands that change something.
const CTL: &[Tool] = &[Tool::Ctl];
/// Tools with commands that inspect.
const LOOK: &[Tool] = &[Tool::Ctl, Tool::Diagnostics];
/// Tools with commands that check.
const CHECK: &[Tool] = &[Tool::Diagnostics];
/// The tool for plugins.
const PLUGINS: &[Tool] = &[Tool::Plugins];
/// The tool for upgrades.
const UPGRADE: &[Tool] = &[Tool::Upgrade];
/// The tool for quorum queues.
const QUEUES: &[Tool] = &[Tool::Queues];
/// The tools that look at members of quorum queues.
const REPLICAS: &[Tool] = &[Tool::Diagnostics, Tool::Queues];
/// The tool for streams.
const STREAMS: &[Tool] = &[Tool::Streams];
/// The tools that look at the nodes of streams.
const COORDINATION: &[Tool] = &[Tool::Diagnostics, Tool::Streams];
/// The tools that show the members of a stream.
const STREAM_STATUS: &[Tool] = &[Tool::Diagnostics, Tool::Queues, Tool::Streams];
/// The tools with lists of the stream protocol's clients.
const STREAM_LISTS: &[Tool] = &[Tool::Ctl, Tool::Diagnostics, Tool::Streams];
/// All tools.
const ALL: &[Tool] = &Tool::ALL;

/// The group of a command in the help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandGroup {
    Help,
    Nodes,
    Cluster,
    Users,
    Access,
    Monitoring,
    Parameters,
    Policies,
    Vhosts,
    Queues,
    Operations,
    Upgrade,
    FeatureFlags,
    Configuration,
    Definitions,
    Plugins,
    Missing,
}

/// The groups in the order of the help text, with their titles.
pub(crate) const GROUPS: &[(CommandGroup, &str)] = &[
    (CommandGroup::Help, "Help"),
    (CommandGroup::Nodes, "Nodes"),
    (CommandGroup::Cluster, "Cluster"),
    (CommandGroup::Users, "Users"),
    (CommandGroup::Access, "Access Control"),
    (CommandGroup::Monitoring, "Monitoring, observability and health checks"),
    (CommandGroup::Parameters, "Parameters"),
    (CommandGroup::Policies, "Policies"),
    (CommandGroup::Vhosts, "Virtual hosts"),
    (CommandGroup::Queues, "Queues"),
    (CommandGroup::Operations, "Operations"),
    (CommandGroup::Upgrade, "Upgrade"),
    (CommandGroup::FeatureFlags, "Feature flags"),
    (CommandGroup::Configuration, "Configuration and Environment"),
    (CommandGroup::Definitions, "Definitions"),
    (CommandGroup::Plugins, "Plugin Management"),
    (CommandGroup::Missing, "Not there yet"),
];

/// All commands.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    [
        general::COMMANDS,
        life::COMMANDS,
        status::COMMANDS,
        cluster::COMMANDS,
        membership::COMMANDS,
        users::COMMANDS,
        permissions::COMMANDS,
        topic_permissions::COMMANDS,
        limits::COMMANDS,
        vhosts::COMMANDS,
        parameters::COMMANDS,
        policies::COMMANDS,
        queues::COMMANDS,
        set_aside::COMMANDS,
        transfers::COMMANDS,
        damage::COMMANDS,
        stream_clients::COMMANDS,
        streams::COMMANDS,
        exchanges::COMMANDS,
        bindings::COMMANDS,
        connections::COMMANDS,
        consumers::COMMANDS,
        definitions::COMMANDS,
        feature_flags::COMMANDS,
        alarms::COMMANDS,
        health::COMMANDS,
        listeners::COMMANDS,
        memory::COMMANDS,
        logs::COMMANDS,
        logins::COMMANDS,
        message_sizes::COMMANDS,
        process::COMMANDS,
        waiting::COMMANDS,
        network::COMMANDS,
        tls::COMMANDS,
        replicas::COMMANDS,
        members::COMMANDS,
        report::COMMANDS,
        eval::COMMANDS,
        upgrade::COMMANDS,
        plugins::COMMANDS,
        missing::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// The commands of a tool.
pub(crate) fn of(tool: Tool) -> impl Iterator<Item = &'static Command> {
    all().filter(move |command| command.tools.contains(&tool))
}

/// The command of a tool with this name.
pub(crate) fn find(tool: Tool, name: &str) -> Option<&'static Command> {
    of(tool).find(|command| command.name == name)
}

/// Commands with similar names, the nearest first.
pub(crate) fn nearest(tool: Tool, name: &str) -> Vec<&'static str> {
    let mut near: Vec<(usize, &str)> =
        of(tool).map(|command| (distance(name, command.name), command.name)).filter(|(far, _)| *far <= 3).collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// The edit distance of two names.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, theirs) in other.iter().enumerate() {
            let changed = before[column] + usize::from(letter != *theirs);
            current.push(changed.min(before[column + 1] + 1).min(current[column] + 1));
        }
        before = current;
    }
    before[other.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn each_name_is_one_command_of_a_tool() {
        for tool in Tool::ALL {
            let mut seen = BTreeSet::new();
            let twice: Vec<&str> = of(tool).map(|command| command.name).filter(|name| !seen.insert(*name)).collect();
            assert_eq!(twice, [""; 0]);
            assert!(seen.contains("help") && seen.contains("version"), "{}", tool.name());
            // Panics if an argument is declared twice or can't be parsed.
            crate::arguments::command_line(tool).debug_assert();
        }
    }

    #[test]
    fn a_mistyped_command_gives_a_suggestion() {
        assert_eq!(nearest(Tool::Ctl, "list_queue"), ["list_queues"]);
        assert_eq!(nearest(Tool::Ctl, "completely_else"), [""; 0]);
        assert_eq!(distance("ab", "acb"), 1);
    }

    /// The commands of each set of tools, as a part of the page lists them: below a line with the names of the tools.
    fn lists(part: &str) -> BTreeMap<BTreeSet<String>, Vec<String>> {
        let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let list = |paragraph: &str| {
            let (tools, commands) = paragraph.trim().split_once(":\n")?;
            let tools = match tools {
                "All of these tools" => Tool::ALL.map(|tool| tool.name().to_owned()).into(),
                tools => quoted(tools).into_iter().collect(),
            };
            Some((tools, quoted(commands)))
        };
        part.split("\n\n").filter_map(list).collect()
    }

    #[test]
    fn the_page_has_every_command() {
        let page = include_str!("../../../../docs/command-line.md");
        let (_, page) = page.split_once("## Commands").expect("a list");
        let (there, missing) = page.split_once("## Not there yet").expect("two parts");
        let mut expected = BTreeMap::<BTreeSet<String>, Vec<String>>::new();
        for command in all() {
            if command.missing.is_some() {
                assert!(missing.contains(&format!("`{}`", command.name)), "{} isn't there", command.name);
            } else {
                let tools = command.tools.iter().map(|tool| tool.name().to_owned()).collect();
                expected.entry(tools).or_default().push(command.name.to_owned());
            }
        }
        expected.values_mut().for_each(|names| names.sort_unstable());
        let lists = lists(there);
        for (tools, names) in &expected {
            assert_eq!(lists.get(tools), Some(names), "of {tools:?} in docs/command-line.md");
        }
        assert_eq!(lists.len(), expected.len(), "{:?}", lists.keys());
    }

    #[test]
    fn every_command_has_a_description() {
        for command in all() {
            assert!(!command.summary.is_empty(), "{}", command.name);
            assert_eq!(command.missing.is_some(), command.group == CommandGroup::Missing, "{}", command.name);
        }
    }
}
