//! Parses a command line into a command with its options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches};

use crate::commands::{self, Command};
use crate::failure::Failure;
use crate::format::Formatter;
use crate::help;
use crate::place::NodePlace;
use crate::tool::Tool;
use crate::usage::{UsagePart, parts};

/// A parsed command line.
pub(crate) enum Parsed {
    /// A text that needs no node.
    Help(String),
    /// A command with its options and arguments.
    Command(&'static Command, CommonOptions, ArgMatches),
}

/// The options of every command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommonOptions {
    pub(crate) place: NodePlace,
    pub(crate) timeout: Option<Duration>,
    pub(crate) vhost: Option<String>,
    pub(crate) quiet: bool,
    pub(crate) silent: bool,
    pub(crate) no_table_headers: bool,
    pub(crate) formatter: Formatter,
}

impl CommonOptions {
    /// Whether tables have a header line.
    pub(crate) fn shows_headers(&self) -> bool {
        !self.silent && !self.no_table_headers
    }

    fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let seconds = match text("timeout").as_deref() {
            None => None,
            // About thirty years, in seconds.
            Some("infinity") => Some(1e9),
            Some(text) => {
                Some(text.parse::<f64>().ok().filter(|seconds| (0.001..=1e9).contains(seconds)).ok_or_else(|| {
                    Failure::Usage(format!("Error (argument validation): '{text}' is no timeout in seconds"))
                })?)
            }
        };
        let named = text("formatter");
        let formatter = named.as_deref().map_or(Some(Formatter::default()), Formatter::named);
        Ok(CommonOptions {
            place: NodePlace { data_dir: text("data-dir").map(PathBuf::from), node: text("node") },
            timeout: seconds.map(Duration::from_secs_f64),
            vhost: text("vhost"),
            quiet: matches.get_flag("quiet"),
            silent: matches.get_flag("silent"),
            no_table_headers: matches.get_flag("no-table-headers"),
            formatter: formatter.ok_or_else(|| {
                let known = Formatter::ALL.map(|(name, _)| name).join(", ");
                Failure::Usage(format!(
                    "Error (argument validation): there is no formatter '{}'. There are {known}",
                    named.unwrap_or_default()
                ))
            })?,
        })
    }
}

/// Options of single commands that have a one-letter form.
const SHORT: &[(&str, char)] = &[
    ("duration", 'd'),
    ("enabled", 'E'),
    ("if-empty", 'e'),
    ("if-unused", 'u'),
    ("implicitly-enabled", 'e'),
    ("minimal", 'm'),
    ("number", 'N'),
    ("pid", 'P'),
    ("verbose", 'v'),
];

/// The command line of a tool, used for parsing, completion and manual pages.
#[must_use]
pub fn command_line(tool: Tool) -> clap::Command {
    let value = |name: &'static str| Arg::new(name).long(name).global(true).num_args(1);
    let flag = |name: &'static str| Arg::new(name).long(name).global(true).action(ArgAction::SetTrue);
    let mut line = clap::Command::new(tool.name())
        .about("Speaks to a node on this machine")
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .arg(value("data-dir").value_name("DIR").help("the node's data directory; also LEVERET_DATA_DIR"))
        .arg(value("node").short('n').help("the node's name; also RABBITMQ_NODENAME"))
        .arg(value("timeout").short('t').value_name("seconds").help("how long an answer may take"))
        .arg(value("vhost").short('p').help("the virtual host, / if it isn't given"))
        .arg(value("formatter").help("how lists are written: table, pretty_table, json, csv or erlang"))
        .arg(flag("quiet").short('q').help("print only the result"))
        .arg(flag("silent").short('s').help("the same, and no names of columns"))
        .arg(flag("no-table-headers").help("no names of columns"))
        .arg(flag("longnames").short('l').help("does nothing: names of nodes aren't resolved"))
        .arg(flag("print-stacktrace").help("does nothing: there is no stack to print"))
        .arg(flag("help").short('?').help("show the help of a command"));
    for command in commands::of(tool) {
        line = line.subcommand(subcommand(command));
    }
    line
}

fn subcommand(command: &'static Command) -> clap::Command {
    let mut line = clap::Command::new(command.name).about(command.summary).disable_help_flag(true);
    let short = |name| SHORT.iter().find(|(long, _)| *long == name).map(|(_, short)| *short);
    for part in parts(command.usage) {
        line = line.arg(match part {
            UsagePart::Word { name, required, many } => {
                let arg = Arg::new(name).required(required);
                if many { arg.num_args(0..).action(ArgAction::Append) } else { arg }
            }
            UsagePart::Option { name, takes_value: true } => Arg::new(name).long(name).short(short(name)).num_args(1),
            UsagePart::Option { name, takes_value: false } => {
                Arg::new(name).long(name).short(short(name)).action(ArgAction::SetTrue)
            }
        });
    }
    line
}

/// Parses a command line.
///
/// # Errors
/// It names no command, or has arguments that the command doesn't take.
pub(crate) fn parse(tool: Tool, arguments: Vec<OsString>) -> Result<Parsed, Failure> {
    let given: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = std::iter::once(OsString::from(tool.name())).chain(arguments);
    let matches = match command_line(tool).try_get_matches_from(line) {
        Ok(matches) => matches,
        Err(error) => return refuse(tool, &given, &error),
    };
    let Some((name, inner)) = matches.subcommand() else {
        return Ok(Parsed::Help(help::of_tool(tool)));
    };
    let command = commands::find(tool, name).ok_or_else(|| unknown(tool, name))?;
    if inner.get_flag("help") {
        return Ok(Parsed::Help(help::of_command(tool, command)));
    }
    Ok(Parsed::Command(command, CommonOptions::of(inner)?, inner.clone()))
}

/// The error for a command line refused by clap, with RabbitMQ's text where it has one.
fn refuse(tool: Tool, given: &[String], error: &clap::Error) -> Result<Parsed, Failure> {
    let command = given.iter().find_map(|word| commands::find(tool, word));
    if let Some(command) = command.filter(|_| given.iter().any(|word| word == "--help" || word == "-?")) {
        return Ok(Parsed::Help(help::of_command(tool, command)));
    }
    let reason = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let named = error.get(clap::error::ContextKind::InvalidSubcommand).map(ToString::to_string);
            return Err(unknown(tool, &named.unwrap_or_default()));
        }
        ErrorKind::MissingRequiredArgument => "not enough arguments.".to_owned(),
        ErrorKind::UnknownArgument => {
            let named = error.get(clap::error::ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
            match named.starts_with('-') {
                true => format!("Invalid options for this command:\n{named} : "),
                false => "too many arguments.".to_owned(),
            }
        }
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or("").trim_start_matches("error: ").to_owned()
        }
    };
    let usage = command.map_or_else(|| help::usage_of_tool(tool), |command| help::usage(tool, command));
    Err(Failure::Usage(format!(
        "Error (argument validation): {reason}\nArguments given:\n\t{}\n\nUsage\n\n{usage}",
        given.join(" ")
    )))
}

fn unknown(tool: Tool, name: &str) -> Failure {
    let mut text = format!("\nCommand '{name}' not found. \n");
    let near = commands::nearest(tool, name);
    if !near.is_empty() {
        text.push_str(&format!("\nDid you mean {}?\n", near.join(" or ")));
    }
    text.push_str(&help::of_tool(tool));
    Failure::Usage(text)
}
