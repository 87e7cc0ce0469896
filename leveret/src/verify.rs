use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use leveret_node::harmless;
use leveret_node::offline::{CannotCheck, Form, OfflineDirectory, verify};

/// The exit code for a damaged directory.
const DAMAGED: u8 = 1;
pub(crate) const CANNOT_CHECK: u8 = 2;

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The data directory of a node that doesn't run, or a copy of one
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How the report is written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Writes what is sound to this new data directory; DIR stays as it is
    #[arg(long, value_name = "COPY")]
    repair_to: Option<PathBuf>,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl From<Format> for Form {
    fn from(format: Format) -> Form {
        match format {
            Format::Text => Form::Text,
            Format::Json => Form::Json,
        }
    }
}

/// Runs `leveret verify`. Exits with 0 if everything is valid, 1 if something is damaged, 2 if the check failed.
pub(crate) fn run(arguments: &VerifyArguments) -> ExitCode {
    match check(arguments) {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("leveret: {}", harmless(&reason.to_string()));
            ExitCode::from(CANNOT_CHECK)
        }
    }
}

fn check(arguments: &VerifyArguments) -> Result<ExitCode, CannotCheck> {
    let directory = OfflineDirectory::open(&arguments.directory)?;
    let checked = verify(&directory, arguments.repair_to.as_deref())?;
    print!("{}", checked.report(&directory, arguments.format.into()));
    Ok(if checked.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}
