//! Aggregates several rounds of one load against one broker.

use std::fmt::Write;

use super::record::{Column, Record, Results};

/// The valid rounds of one load against one broker.
pub(super) struct RoundGroup<'r> {
    pub(super) scenario: &'r str,
    pub(super) column: Column<'r>,
    pub(super) rounds: Vec<&'r Record>,
}

/// The median of several rounds, with the lowest and the highest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` without values.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Some(Self { median, min, max })
    }
}

impl<'r> RoundGroup<'r> {
    /// A figure over the rounds; `None` if no round has it.
    pub(super) fn spread(&self, figure: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| figure(round)).collect())
    }

    /// The median of [`Self::spread`].
    pub(super) fn median(&self, figure: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// The round with the median rate, which is plotted.
    pub(super) fn middle(&self) -> &'r Record {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(|one, other| one.rate().unwrap_or(0.0).total_cmp(&other.rate().unwrap_or(0.0)));
        rounds[rounds.len() / 2]
    }
}

impl Results {
    /// The records of several runs, one after the other.
    pub(crate) fn merged(runs: impl IntoIterator<Item = Self>) -> Self {
        Self { rounds: runs.into_iter().flat_map(|run| run.rounds).collect() }
    }

    /// The names of the loads, in the order in which they first ran.
    pub(super) fn scenarios(&self) -> Vec<&str> {
        distinct(self.rounds.iter().map(|record| record.scenario.as_str()))
    }

    /// The valid rounds by load and broker, in the order in which they first ran.
    pub(super) fn groups(&self) -> Vec<RoundGroup<'_>> {
        let counting = || self.rounds.iter().filter(|record| record.void.is_none());
        let keys = distinct(counting().map(|record| (record.scenario.as_str(), record.column())));
        let of = |(scenario, column)| RoundGroup {
            scenario,
            column,
            rounds: counting()
                .filter(|record| (record.scenario.as_str(), record.column()) == (scenario, column))
                .collect(),
        };
        keys.into_iter().map(of).collect()
    }

    /// The ratio of a group's figure to that of the same load against the second broker.
    pub(super) fn ratio(
        groups: &[RoundGroup<'_>],
        group: &RoundGroup<'_>,
        figure: impl Fn(&Record) -> Option<f64>,
    ) -> Option<f64> {
        let seconds = || groups.iter().filter(|other| other.scenario == group.scenario && other.column.target == "B");
        // Most brokers have one durability; if both have several, equal ones are compared.
        let alike = seconds().find(|other| other.column.durability == group.column.durability);
        let second = alike.or_else(|| seconds().next()).filter(|_| group.column.target != "B")?;
        let (ours, theirs) = (group.median(&figure)?, second.median(&figure)?);
        (theirs > 0.0).then_some(ours / theirs)
    }

    /// Medians of each load and broker as lines of text, with the number of rounds.
    pub(crate) fn summary(&self) -> String {
        let mut out = String::from("\nmedians\n");
        let groups = self.groups();
        let per_cpu_second = |record: &Record| record.figures.messages_per_broker_cpu_second;
        for group in &groups {
            let _ = write!(out, "  {:<22} {:<40}", group.scenario, self.name_of(group.column));
            let _ = write!(out, " of {}", group.rounds.len());
            if let Some(rate) = group.median(Record::rate) {
                let _ = write!(out, " {rate:>10.0} /s");
            }
            if let Some(rate) = group.median(per_cpu_second) {
                let _ = write!(out, "  {rate:>10.0} per broker CPU-second");
            }
            if let Some(ratio) = Self::ratio(&groups, group, per_cpu_second) {
                let _ = write!(out, "  {ratio:>6.2} x B's");
            }
            out.push('\n');
        }
        out.pop();
        out
    }
}

/// Distinct values, in the order of their first occurrence.
pub(super) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::record::Figures;

    fn record(scenario: &str, target: &str, durability: &str, rate: f64) -> Record {
        Record {
            scenario: scenario.into(),
            target: target.into(),
            broker: Some("Some 1".into()),
            durability: Some(durability.into()),
            figures: Figures {
                received_per_second: Some(rate),
                messages_per_broker_cpu_second: Some(rate * 2.0),
                ..Figures::default()
            },
            ..Record::default()
        }
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_it() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(spread, Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn runs_are_merged_by_load_broker_and_durability_without_void() {
        let void = Record { void: Some("1 lost".into()), ..record("x", "A", "os", 1e9) };
        let first = Results { rounds: vec![record("x", "A", "synced", 10.0), record("x", "B", "", 4.0)] };
        let second = Results {
            rounds: vec![
                record("x", "A", "os", 20.0),
                record("x", "A", "synced", 30.0),
                void,
                record("y", "A", "os", 1.0),
            ],
        };
        let all = Results::merged([first, second]);
        assert_eq!(all.scenarios(), ["x", "y"]);
        let groups = all.groups();
        let told: Vec<_> = groups
            .iter()
            .map(|group| (group.scenario, all.name_of(group.column), group.median(Record::rate), group.rounds.len()))
            .collect();
        assert_eq!(
            told,
            [
                ("x", "A: Some 1, synced".into(), Some(20.0), 2),
                ("x", "B: Some 1".into(), Some(4.0), 1),
                ("x", "A: Some 1, os".into(), Some(20.0), 1),
                ("y", "A: Some 1, os".into(), Some(1.0), 1),
            ]
        );
        let ratios: Vec<_> = groups.iter().map(|group| Results::ratio(&groups, group, Record::rate)).collect();
        assert_eq!(ratios, [Some(5.0), None, Some(5.0), None]);
        assert!(all.summary().contains("5.00 x B's") && all.summary().contains(" of 1 "), "{}", all.summary());
        // Of two columns of the second broker, the one with the same durability is the reference.
        let alike = Results { rounds: vec![record("x", "B", "os", 2.0)] };
        let all = Results::merged([all, alike]);
        let groups = all.groups();
        let ratios: Vec<_> = groups.iter().map(|group| Results::ratio(&groups, group, Record::rate)).collect();
        assert_eq!(ratios, [Some(5.0), None, Some(10.0), None, None]);
    }

    #[test]
    fn the_round_in_the_middle_is_drawn() {
        let rounds: Vec<_> = [5.0, 1.0, 3.0].map(|rate| record("x", "A", "os", rate)).into();
        let results = Results { rounds };
        assert_eq!(results.groups()[0].middle().rate(), Some(3.0));
    }
}
