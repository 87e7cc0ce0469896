//! A report with everything needed for support, in one text.

use std::ffi::OsString;

use super::{Command, CommandGroup, LOOK, find};
use crate::answer::CommandOutput;
use crate::arguments::{self, Parsed};
use crate::call::Call;
use crate::client::NodeClient;
use crate::failure::Failure;
use crate::format::{self, Formatter};

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "report", CommandGroup::Monitoring, "", "Displays the status, the configuration and all lists of the node, for support", report),
];

/// Commands about the node.
const NODE: &[&str] = &["status", "cluster_status", "environment", "list_connections", "list_channels"];

/// Commands about each virtual host.
const VHOST: &[&str] = &[
    "list_queues",
    "list_exchanges",
    "list_bindings",
    "list_permissions",
    "list_policies",
    "list_global_parameters",
    "list_parameters",
];

fn report(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    if call.options.formatter != Formatter::Table {
        return Err(Failure::Usage("Error (argument validation): Only report formatter is supported".to_owned()));
    }
    let node = call.node()?;
    call.say(&format!("Reporting server status of node {} ...\n", node.name()));
    let mut text = String::new();
    for name in NODE {
        part(call, &node, name, None, &mut text)?;
    }
    for vhost in node.list("/api/vhosts?columns=name")? {
        let vhost = vhost["name"].as_str().unwrap_or_default();
        for name in VHOST {
            part(call, &node, name, Some(vhost), &mut text)?;
        }
    }
    Ok(CommandOutput::Text(text))
}

/// Appends the output of a command about this node, with all its columns. An error is reported in place of the
/// output.
fn part(call: &Call<'_>, node: &NodeClient, name: &str, vhost: Option<&str>, text: &mut String) -> Result<(), Failure> {
    let columns = find(call.tool, name).map_or(&[][..], |command| command.columns);
    let words = std::iter::once(name).chain(columns.iter().copied()).map(OsString::from).collect();
    if let Parsed::Command(command, _, matches) = arguments::parse(call.tool, words)? {
        let mut options = call.options.clone();
        options.vhost = vhost.map(str::to_owned);
        (options.quiet, options.silent) = (false, false);
        match (command.run)(&mut Call::new(call.tool, options, matches, text).to(node)) {
            Ok(answer) => text.push_str(&format::show(answer, Formatter::Table, true)),
            Err(failure) => text.push_str(&format!("{}\n", failure.text())),
        }
        text.push('\n');
    }
    Ok(())
}
