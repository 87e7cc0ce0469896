//! The load generator behind `leveret bench`: scenarios, measurement, report.
//!
//! Each publisher and each consumer has a thread and a socket. Many frames go into one write, every read is as
//! large as the kernel gives, and the protocol runs through the strict client, so that a broker that breaks a rule
//! of AMQP doesn't get a figure. Every message carries its sequence number and a checksum; a lost, duplicated or
//! reordered message voids the run.
//!
//! What this crate must not know: anything of the broker's inside. It measures what a socket, `/proc` and a
//! metrics endpoint show, so that any broker of AMQP 0-9-1 or 1.0 can be measured alike.

mod amqp091;
mod amqp10;
mod args;
mod connection;
mod error;
mod idle;
mod measured;
mod message;
mod metrics_endpoint;
mod pace;
mod process;
mod report;
mod round;
mod scenario;
mod stream;
mod tally;
mod tls;
mod uri;

use std::process::ExitCode;

pub use args::BenchArgs;
pub use error::BenchError;
pub use scenario::Scenario;

use round::Target;

/// Runs what `args` ask for and prints the report. Exit code 0 if every round counts, 1 if one was void or
/// couldn't run.
#[must_use]
pub fn run(args: BenchArgs) -> ExitCode {
    match measure(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leveret bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What [`run`] does, with the first error instead of an exit code.
///
/// # Errors
/// If a broker can't be reached, refuses something, breaks a rule of the protocol, or if messages were lost,
/// duplicated, reordered or changed.
pub fn measure(args: &BenchArgs) -> Result<(), BenchError> {
    let targets = Target::all(args)?;
    let machine = report::Machine::here();
    if !args.json {
        println!("{machine}");
    }
    let (mut results, mut idle_rounds) = (Vec::new(), Vec::new());
    for scenario in &args.scenarios {
        // The brokers take turns, so that a machine that slows down slows both.
        for round in 1..=args.rounds {
            for target in &targets {
                if let Some(protocol) = scenario.idle() {
                    let outcome = idle::run(protocol, args, target)?;
                    if !args.json {
                        println!("{}", outcome.text(round));
                    }
                    idle_rounds.push(outcome.json(round));
                    continue;
                }
                for outcome in round::run(&scenario.settings(args), target)? {
                    if !args.json {
                        println!("{}", outcome.text(round));
                    }
                    results.push((round, outcome));
                }
            }
        }
    }
    if args.json {
        println!("{}", report::json(&machine, &results, idle_rounds));
    } else if args.rounds > 1 || targets.len() > 1 {
        println!("{}", report::summary(&results));
    }
    Ok(())
}
