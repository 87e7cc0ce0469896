//! The `leveret` binary: it reads the configuration, builds a node and waits for signals; and it looks into data
//! directories that no node uses.

mod banner;
mod listeners;
mod log;
mod server;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Server(server::ServerArguments),
    /// Check a data directory without changing it
    Verify(verify::VerifyArguments),
    /// Look into the log of a data directory
    Log(log::LogArguments),
    /// Measure a broker with a verified load
    Bench(leveret_bench::BenchArgs),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Log(arguments) => log::run(arguments),
        Command::Bench(arguments) => leveret_bench::run(arguments),
    }
}
