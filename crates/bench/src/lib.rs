//! The load generator behind `leveret bench`: scenarios, measurement, report.
//!
//! Each publisher and each consumer has a thread and a socket. Many frames are written at once, every read is as
//! large as the kernel allows, and the protocol goes through the strict client, so that a broker that violates AMQP
//! gets no result. Every message carries its sequence number and a checksum; a lost, duplicated or reordered message
//! voids the run.
//!
//! This crate must not know the internals of any broker. It measures a socket, `/proc` and a metrics endpoint, so
//! that any broker of AMQP 0-9-1 or 1.0 is measured in the same way.

mod amqp091;
mod amqp10;
mod args;
mod at_once;
mod connection;
mod error;
mod http;
mod idle;
mod latencies;
mod load;
mod measured;
mod message;
mod message_properties;
mod metrics_endpoint;
mod opening;
mod other_queues;
mod outcome;
mod pace;
mod perf;
mod process;
mod report;
mod round;
mod route;
mod rows;
mod scenario;
mod series;
mod settings;
mod slots;
mod stream;
mod stream_protocol;
mod tally;
mod target;
mod tls;
mod uri;

use std::process::ExitCode;

pub use args::{BenchArgs, LoadArgs};
pub use error::BenchError;
pub use message_properties::MessageProperties;
pub use scenario::Scenario;
pub use settings::{Durability, Rate};

use load::{Load, loads};
use other_queues::OtherQueues;
use report::{Files, Machine, Record, Results};
use target::TargetBroker;

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

/// As [`run`], with the first error instead of an exit code.
///
/// # Errors
/// If a broker can't be reached, refuses something, breaks a rule of the protocol, or if messages were lost,
/// duplicated, reordered or changed. The other rounds run all the same.
pub fn measure(args: &BenchArgs) -> Result<(), BenchError> {
    if args.list {
        println!("{}", rows::list());
        return Ok(());
    }
    let files = Files::open(args)?;
    let (results, first_error) = if args.from_json.is_empty() {
        run_all(args, &files)?
    } else {
        let runs: Result<Vec<Results>, BenchError> = args.from_json.iter().map(|path| Results::read(path)).collect();
        (Results::merged(runs?), None)
    };
    files.write(&results)?;
    if args.json {
        println!("{}", results.json());
    } else if args.rounds > 1 || args.vs.is_some() || !args.from_json.is_empty() {
        println!("{}", results.summary());
    }
    first_error.map_or(Ok(()), Err)
}

/// Runs every round. Also returns the first error of void rounds.
fn run_all(args: &BenchArgs, files: &Files<'_>) -> Result<(Results, Option<BenchError>), BenchError> {
    let (loads, targets) = (loads(args)?, TargetBroker::all(args)?);
    if !args.json {
        println!("{}", Machine::here());
    }
    let mut run = BenchRun { is_quiet: args.json, of_two: targets.len() > 1, ..BenchRun::default() };
    for load in &loads {
        // Once for all rounds: a broker that has just created or deleted thousands of queues still has background
        // work.
        let mut others: Vec<Option<OtherQueues>> =
            targets.iter().map(|target| run.take(load, 1, 0, target, |_| load.make_others(target))).collect();
        // The brokers alternate, so that a machine that slows down affects both.
        for round in 1..=args.rounds {
            for (target, _) in targets.iter().zip(&others).filter(|(_, others)| others.is_some()) {
                for turn in 0..load.options.durability.len().max(1) {
                    if turn > 0 && !(load.takes_durability() && run.may_be_leveret(target)) {
                        continue;
                    }
                    let records = run.take(load, round, turn, target, |machine| load.run(round, turn, target, machine));
                    run.add(records.unwrap_or_default());
                }
            }
        }
        for (target, others) in targets.iter().zip(&mut others) {
            if let Some(others) = others.take() {
                run.take(load, args.rounds, 0, target, |_| others.delete(target));
            }
        }
        files.write_json(&run.results)?;
    }
    Ok((run.results, run.first_error))
}

/// The results so far.
#[derive(Default)]
struct BenchRun {
    results: Results,
    first_error: Option<BenchError>,
    /// Whether nothing is printed before the end.
    is_quiet: bool,
    /// Whether there is a second broker.
    of_two: bool,
}

impl BenchRun {
    /// Runs an action; its failure is a void round.
    fn take<T>(
        &mut self,
        load: &Load,
        round: u32,
        turn: usize,
        target: &TargetBroker,
        what: impl FnOnce(&Machine) -> Result<T, BenchError>,
    ) -> Option<T> {
        let machine = Machine::here();
        match what(&machine) {
            Ok(done) => Some(done),
            Err(error) => {
                let (label, _) = report::target_and_broker(target.label);
                let (broker, durability) = (self.results.broker(&label), load.durability(turn));
                let void = load.names().map(|name| Record {
                    broker: broker.clone(),
                    durability: durability.map(|durability| durability.to_string()),
                    ..Record::void(name, round, label.clone(), error.to_string(), &machine)
                });
                self.add(void.collect());
                self.first_error.get_or_insert(error);
                None
            }
        }
    }

    fn add(&mut self, records: Vec<Record>) {
        if !self.is_quiet {
            records.iter().for_each(|record| println!("{}", record.text(self.of_two)));
        }
        self.results.rounds.extend(records);
    }

    /// A broker that hasn't identified itself yet because its first round was void may be Leveret.
    fn may_be_leveret(&self, target: &TargetBroker) -> bool {
        let (label, _) = report::target_and_broker(target.label);
        self.results.broker(&label).is_none_or(|broker| outcome::is_leveret(&broker))
    }
}
