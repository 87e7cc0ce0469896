//! The load generator without a broker around it: `cargo run --release -p leveret-bench --example bench -- --help`.

use std::process::ExitCode;

use clap::Parser;
use leveret_bench::BenchArgs;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    leveret_bench::run(Cli::parse().bench)
}
