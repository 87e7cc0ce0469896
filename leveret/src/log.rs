use std::io::{BufWriter, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use leveret_node::harmless;
use leveret_node::offline::{CannotCheck, DumpOptions, OfflineDirectory, dump};

use crate::verify::{CANNOT_CHECK, Format};

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Show the records of a data directory, a line each
    Dump(DumpArguments),
}

#[derive(Debug, Args)]
struct DumpArguments {
    /// The data directory of a node that doesn't run, or a copy of one
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// One of its files, such as wal-0000-0000000000000001; all of them if it isn't given
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Only what belongs to the queues with this name
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Begin with this position; with --queue, with the message of this number
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// At most so many records
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Show the bodies of messages too
    #[arg(long)]
    bodies: bool,
    /// Fields as words, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs `leveret log`. Exits with 2 if the directory can't be read.
pub(crate) fn run(arguments: LogArguments) -> ExitCode {
    let LogCommand::Dump(arguments) = arguments.command;
    match show(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("leveret: {}", harmless(&reason.to_string()));
            ExitCode::from(CANNOT_CHECK)
        }
    }
}

fn show(arguments: DumpArguments) -> Result<(), CannotCheck> {
    let directory = OfflineDirectory::open(&arguments.directory)?;
    let options = DumpOptions {
        file: arguments.file,
        queue: arguments.queue,
        from: arguments.from,
        limit: arguments.limit.unwrap_or(u64::MAX),
        bodies: arguments.bodies,
        form: arguments.format.into(),
    };
    dump(&directory, &options, &mut BufWriter::new(stdout().lock()))
}
