//! A named load: a scenario with its options, or two measured in one round.

use std::iter;

use crate::args::{BenchArgs, LoadArgs};
use crate::other_queues::OtherQueues;
use crate::report::{Machine, Record};
use crate::scenario::Scenario;
use crate::settings::{Course, Durability, Rate, Settings};
use crate::target::TargetBroker;
use crate::{BenchError, idle, round, rows};

/// Duration of the measurement of the full rate, of which half is then requested.
const FULL_RATE_SECONDS: u64 = 3;

/// A scenario with its options and the name of its results.
#[derive(Debug)]
pub(crate) struct Load {
    name: String,
    scenario: Scenario,
    pub(crate) options: LoadArgs,
    /// The name of each round's second half, if a load that only publishes was requested together with one that only
    /// consumes. Both do the same work, and each would measure one half.
    consuming: Option<String>,
}

/// The requested loads, in order.
///
/// # Errors
/// [`BenchError::Usage`] if a requested row doesn't exist.
pub(crate) fn loads(args: &BenchArgs) -> Result<Vec<Load>, BenchError> {
    let labelled = |name: String| args.label.as_ref().map_or(name.clone(), |label| format!("{name} {label}"));
    if !args.rows.is_empty() {
        let rows = rows::picked(&args.rows).map_err(BenchError::Usage)?.into_iter();
        let load = |row: rows::Row| Load {
            name: labelled(row.name),
            scenario: row.scenario,
            options: args.load.or(&row.load),
            consuming: None,
        };
        return Ok(joined(rows.map(load)));
    }
    let classic = ["classic".parse().expect("it is in the table")];
    let scenarios = if args.scenarios.is_empty() { &classic[..] } else { &args.scenarios };
    let load = |scenario: &Scenario| Load {
        name: labelled(scenario.to_string()),
        scenario: *scenario,
        options: args.load.clone(),
        consuming: None,
    };
    Ok(joined(scenarios.iter().map(load)))
}

/// Merges loads that only consume with those that publish the same messages.
fn joined(loads: impl Iterator<Item = Load>) -> Vec<Load> {
    let mut joined: Vec<Load> = Vec::new();
    for load in loads {
        match joined.iter_mut().find(|first| first.is_first_half_of(&load)) {
            Some(first) => first.consuming = Some(load.name),
            None => joined.push(load),
        }
    }
    joined
}

impl Load {
    fn is_first_half_of(&self, other: &Load) -> bool {
        let of = |load: &Load| (!load.scenario.is_idle()).then(|| load.scenario.settings(&load.options));
        let Some((publishing, consuming)) = of(self).zip(of(other)) else {
            return false;
        };
        self.consuming.is_none()
            && (publishing.course, consuming.course) == (Course::PublishOnly, Course::ConsumeOnly)
            && self.options == other.options
            && publishing == Settings { name: publishing.name.clone(), course: Course::PublishOnly, ..consuming }
    }

    /// The names of its results.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        iter::once(&self.name).chain(&self.consuming).map(String::as_str)
    }

    /// The requested durability for this turn.
    pub(crate) fn durability(&self, turn: usize) -> Option<Durability> {
        self.options.durability.get(turn).copied().filter(|_| self.takes_durability())
    }

    /// Whether its queues can be declared with another durability than the default one.
    pub(crate) fn takes_durability(&self) -> bool {
        let settings = || self.scenario.settings(&self.options);
        !self.scenario.is_idle() && settings().durable && !settings().is_quorum
    }

    /// Creates the additional queues.
    ///
    /// # Errors
    /// See [`OtherQueues::make`].
    pub(crate) fn make_others(&self, target: &TargetBroker) -> Result<OtherQueues, BenchError> {
        if self.scenario.is_idle() {
            return Ok(OtherQueues::default());
        }
        OtherQueues::make(&self.settings(&self.options, 0, target), target)
    }

    /// The settings for these options, this turn and this broker.
    fn settings(&self, options: &LoadArgs, turn: usize, target: &TargetBroker) -> Settings {
        let settings = self.scenario.settings(options);
        Settings {
            name: self.name.clone(),
            durability: self.durability(turn),
            course: if self.consuming.is_some() { Course::InThenOut } else { settings.course },
            other_queues: target.other_queues.unwrap_or(settings.other_queues),
            ..settings
        }
    }

    /// Runs once, in one of the requested durabilities.
    ///
    /// # Errors
    /// See [`crate::measure`].
    pub(crate) fn run(
        &self,
        round: u32,
        turn: usize,
        target: &TargetBroker,
        machine: &Machine,
    ) -> Result<Vec<Record>, BenchError> {
        if self.scenario.is_idle() {
            let outcome = idle::run(&self.name, self.scenario, &self.options, target)?;
            return Ok(vec![outcome.record(round, machine)]);
        }
        let settings = |options: &LoadArgs| self.settings(options, turn, target);
        let mut options = self.options.clone();
        if options.rate == Some(Rate::Half) {
            let most = LoadArgs { messages: None, seconds: Some(FULL_RATE_SECONDS), ..options.clone() };
            options.rate = Some(Rate::Fixed((round::highest_rate(&settings(&most), target)? / 2.0).round().max(1.0)));
        }
        let mut outcomes = round::run(&settings(&options), target)?;
        if self.consuming.is_some() {
            for (outcome, name) in outcomes.iter_mut().zip(self.names()) {
                name.clone_into(&mut outcome.name);
            }
        }
        Ok(outcomes.iter().map(|outcome| Record::of(outcome, round, machine)).collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn names(words: &str) -> Vec<Vec<String>> {
        let Words { args } = Words::parse_from(["bench"].into_iter().chain(words.split(' ')));
        let loads = loads(&args).expect("there are such");
        loads.iter().map(|load| load.names().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn publish_only_and_consume_only_share_a_round() {
        assert_eq!(
            names("--rows publish-only-*,consume-only-*,direct-amqp10"),
            [
                vec!["publish-only-amqp091", "consume-only-amqp091"],
                vec!["publish-only-amqp10", "consume-only-amqp10"],
                vec!["direct-amqp10"],
            ]
        );
        assert_eq!(
            names("publish-only consume-only-amqp10 consume-only --label x"),
            [vec!["publish-only x", "consume-only x"], vec!["consume-only-amqp10 x"]]
        );
        assert_eq!(names("--rows consume-only-amqp091"), [["consume-only-amqp091"]]);
        assert_eq!(names("consume-only publish-only idle").len(), 3, "in the order in which they are said");
    }
}
