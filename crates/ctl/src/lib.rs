//! The command line: `rabbitmqctl`, `rabbitmq-diagnostics`, `rabbitmq-plugins`, `rabbitmq-upgrade`, `rabbitmq-queues` and `rabbitmq-streams` for a node on this machine.
//!
//! A tool is a name under which [`run`] is called. Its commands are listed in one table, [`commands::all`], from
//! which help, parsing, the documentation and the tests are derived; the arguments of a command are its usage line,
//! parsed by [`usage`]. A command talks HTTP to the node through a [`client`] over the node's local socket, whose
//! [`place`] is a data directory. Its result is an [`answer`], which a [`format`] formats, or a [`failure`] with
//! RabbitMQ's exit code.
//!
//! It only knows the node's HTTP API. There is no runtime and there are no threads: a response takes a few
//! milliseconds.

mod answer;
mod arguments;
mod call;
mod client;
mod commands;
mod failure;
mod format;
mod help;
mod place;
#[cfg(test)]
mod stand_in;
mod tool;
mod usage;

pub use arguments::command_line;
pub use tool::Tool;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use arguments::Parsed;
use call::Call;
use failure::Failure;

/// Runs a tool with the arguments after its name on the command line.
///
/// Exits with 0, or with the codes of RabbitMQ's tools: 64 for unknown or invalid command lines, 65 for missing
/// objects or invalid values, 67 for users, 69 if the node can't be reached or isn't healthy, 70 if it refuses, 75
/// for a timeout.
#[must_use]
pub fn run(tool: Tool, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut output = String::new();
    let failure = answer(tool, arguments.into_iter().collect(), &mut output).err();
    // A closed pipe means that its reader has read enough.
    let output = format::harmless(&output);
    let _ = io::stdout().write_all(output.as_bytes()).and_then(|()| io::stdout().flush());
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            eprintln!("{}", format::harmless(failure.text()));
            ExitCode::from(failure.code())
        }
    }
}

fn answer(tool: Tool, arguments: Vec<OsString>, output: &mut String) -> Result<(), Failure> {
    match arguments::parse(tool, arguments)? {
        Parsed::Help(text) => output.push_str(&text),
        Parsed::Command(command, options, matches) => {
            if let Some(why) = command.missing {
                return Err(Failure::Usage(format!("Error:\n'{}' isn't there yet: {why}", command.name)));
            }
            let mut call = Call::new(tool, options, matches, output);
            let said = (command.run)(&mut call);
            let formatter = call.options.formatter;
            let headers = call.options.shows_headers();
            // The output is shown even if the command failed.
            output.push_str(&format::show(said?, formatter, headers));
        }
    }
    Ok(())
}
