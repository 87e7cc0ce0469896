//! The `leveret` binary: it reads the configuration, builds a node and waits for signals. Its tools read data
//! directories that no node uses.

mod arguments;
mod banner;
mod conf_files;
mod configuration;
mod container;
mod detached;
mod doctor;
mod listeners;
mod log;
mod manual;
mod notify;
mod pid_file;
mod reload;
mod secret_files;
mod server;
mod unwinding;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::ServerArguments;
use clap::{Args, Parser, Subcommand};
use container::entry_point;
use leveret_ctl::Tool;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A message broker that speaks RabbitMQ's protocols
#[derive(Debug, Parser)]
#[command(name = "leveret", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a node
    Server(ServerArguments),
    /// Look at what a node would find: data, volume, free space, time of a flush, limits, clock
    Doctor(ServerArguments),
    /// Check a data directory without changing it
    Verify(verify::VerifyArguments),
    /// Look into the log of a data directory
    Log(log::LogArguments),
    /// Measure a broker with a verified load
    Bench(Box<leveret_bench::BenchArgs>),
    /// Command a node on this machine, as rabbitmqctl does
    #[command(disable_help_flag = true)]
    Ctl(ToolArguments),
    /// Look at a node on this machine, as rabbitmq-diagnostics does
    #[command(disable_help_flag = true)]
    Diagnostics(ToolArguments),
    /// Command a node on this machine, as rabbitmq-plugins does
    #[command(disable_help_flag = true)]
    Plugins(ToolArguments),
    /// Command a node on this machine, as rabbitmq-upgrade does
    #[command(disable_help_flag = true)]
    Upgrade(ToolArguments),
    /// Command a node on this machine, as rabbitmq-queues does
    #[command(disable_help_flag = true)]
    Queues(ToolArguments),
    /// Command a node on this machine, as rabbitmq-streams does
    #[command(disable_help_flag = true)]
    Streams(ToolArguments),
    /// Check a configuration, or show an example of one
    Config(configuration::ConfigArguments),
    /// Print what a shell reads to complete command lines
    Completion(manual::CompletionArguments),
    /// Print a manual page
    Man(manual::ManualArguments),
    /// Exit with 0 if a panic unwinds
    #[command(hide = true)]
    CheckUnwinding,
}

/// The arguments after the name of a tool, which parses them itself.
#[derive(Debug, Args)]
struct ToolArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = PathBuf::from(words.next().unwrap_or_default());
    if let Some(tool) = Tool::called_as(&program) {
        return leveret_ctl::run(tool, words);
    }
    if entry_point::is_called(&program) {
        return entry_point::run(words);
    }
    if program.file_name().is_some_and(|name| name == "rabbitmq-server") {
        let words: Vec<OsString> = std::env::args_os().collect();
        if let Some(words) = detached::asked(&words) {
            return detached::start(&words);
        }
        detached::begin();
        return server::run(&ServerArguments::installed(words));
    }
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Log(arguments) => log::run(arguments),
        Command::Bench(arguments) => leveret_bench::run(*arguments),
        Command::Ctl(arguments) => leveret_ctl::run(Tool::Ctl, arguments.words),
        Command::Diagnostics(arguments) => leveret_ctl::run(Tool::Diagnostics, arguments.words),
        Command::Plugins(arguments) => leveret_ctl::run(Tool::Plugins, arguments.words),
        Command::Upgrade(arguments) => leveret_ctl::run(Tool::Upgrade, arguments.words),
        Command::Queues(arguments) => leveret_ctl::run(Tool::Queues, arguments.words),
        Command::Streams(arguments) => leveret_ctl::run(Tool::Streams, arguments.words),
        Command::Config(arguments) => configuration::run(&arguments),
        Command::Completion(arguments) => manual::complete(&arguments),
        Command::Man(arguments) => manual::manual(&arguments),
        Command::CheckUnwinding => unwinding::check(),
    }
}
