//! Help texts of the tools, generated from the table of commands.

use std::fmt::Write;

use crate::commands::{self, Command, GROUPS};
use crate::tool::Tool;

const GENERAL: &str = "[--data-dir <dir>] [--node <node>] [--timeout <seconds>] [--quiet]";

const OPTIONS: &str = "\
General Options

short            | long                 | description
-----------------|----------------------|--------------------------------
-?               | --help               | displays command help
                 | --data-dir <dir>     | the node's data directory; LEVERET_DATA_DIR if it isn't given
-n <node>        | --node <node>        | the node's name; RABBITMQ_NODENAME if it isn't given
-t               | --timeout <seconds>  | how long an answer may take
-q               | --quiet              | suppress informational messages
-s               | --silent             | suppress informational messages
                                        | and table header row
-p               | --vhost              | virtual host, for commands that work in one
                 | --formatter          | table, pretty_table, json, csv or erlang
";

/// The usage line of a tool.
pub(crate) fn usage_of_tool(tool: Tool) -> String {
    format!("{} {GENERAL} <command> [<command options>]\n", tool.name())
}

/// The usage line of a command.
pub(crate) fn usage(tool: Tool, command: &Command) -> String {
    let vhost = if command.in_vhost { " [--vhost <vhost>]" } else { "" };
    let line = format!("{} {GENERAL} {}{vhost} {}", tool.name(), command.name, command.usage);
    format!("{}\n", line.trim_end())
}

/// The help text of a tool: its usage line and its commands by group.
pub(crate) fn of_tool(tool: Tool) -> String {
    format!(
        "\nUsage\n\n{}\nAvailable commands:\n{}\nUse '{} help <command>' to learn more about a specific command\n",
        usage_of_tool(tool),
        listed(tool),
        tool.name()
    )
}

/// The list of a tool's commands by group.
pub(crate) fn listed(tool: Tool) -> String {
    let mut text = String::new();
    let commands: Vec<&Command> = commands::of(tool).collect();
    let width = commands.iter().map(|command| command.name.len()).max().unwrap_or(0);
    for (group, title) in GROUPS {
        let mut of_group: Vec<_> = commands.iter().filter(|command| command.group == *group).collect();
        if of_group.is_empty() {
            continue;
        }
        of_group.sort_by_key(|command| command.name);
        let _ = writeln!(text, "\n{title}:\n");
        for command in of_group {
            let _ = writeln!(text, "   {:width$}  {}", command.name, command.summary);
        }
    }
    text
}

/// The help text of a command.
pub(crate) fn of_command(tool: Tool, command: &Command) -> String {
    let mut text = format!("\nUsage\n\n{}\n{}\n", usage(tool, command), command.summary);
    if !command.columns.is_empty() {
        let _ = writeln!(text, "\n<column> is one of {}", command.columns.join(", "));
    }
    format!("{text}\n{OPTIONS}")
}
