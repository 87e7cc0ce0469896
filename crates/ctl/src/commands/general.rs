//! Help and versions.

use std::fmt::Write;

use super::{ALL, Command, CommandGroup, LOOK};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::failure::Failure;
use crate::{commands, help};

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(ALL, "help", CommandGroup::Help, "[<command>] [--list-commands]", "Displays usage information for a command", show_help),
    Command::new(ALL, "autocomplete", CommandGroup::Help, "[<word>]", "Lists the commands that begin with a word", autocomplete),
    Command::new(ALL, "version", CommandGroup::Help, "", "Displays the version of RabbitMQ that this tool is compatible with", version),
    Command::new(LOOK, "ping", CommandGroup::Monitoring, "", "Checks that the node answers", ping),
];

fn show_help(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let tool = call.tool;
    match call.given("command") {
        None if call.has("list-commands") => Ok(CommandOutput::Text(help::listed(tool))),
        None => Ok(CommandOutput::Text(help::of_tool(tool))),
        Some(name) => match commands::find(tool, name) {
            Some(command) => Ok(CommandOutput::Text(help::of_command(tool, command))),
            None => Err(Failure::Usage(format!("\nCommand '{name}' not found. \n{}", help::of_tool(tool)))),
        },
    }
}

fn autocomplete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let begin = call.word("word");
    let mut text = String::new();
    for command in commands::of(call.tool).filter(|command| command.name.starts_with(begin)) {
        let _ = writeln!(text, "{}", command.name);
    }
    Ok(CommandOutput::Text(text))
}

fn version(_: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    Ok(CommandOutput::Text(RABBITMQ_VERSION.to_owned()))
}

/// The RabbitMQ version whose tools these follow.
pub(super) const RABBITMQ_VERSION: &str = "4.3.6";

fn ping(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let place = call.options.place.node().unwrap_or_else(|| "the node".to_owned());
    let node = call.process();
    let name = node.as_ref().map_or(place, |node| node.name());
    call.say(&format!("Will ping {name}. This only checks if the node answers."));
    node?;
    Ok(CommandOutput::Text("Ping succeeded".to_owned()))
}
