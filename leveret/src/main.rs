//! The `leveret` binary: it reads the configuration, builds a node and waits for signals.

mod banner;
mod server;

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
    /// Measure a broker with a verified load
    Bench(leveret_bench::BenchArgs),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Bench(arguments) => leveret_bench::run(arguments),
    }
}
