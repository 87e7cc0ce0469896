use std::collections::BTreeMap;
use std::fmt;

use super::{NEAR_PERCENT, RENEW, STORED, TOLERANCE_PERCENT};

const HEAD: &str = "benchmark\tinstructions per message";

/// Instructions per message by benchmark.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures(BTreeMap<String, f64>);

/// A finding of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// It takes more instructions than tolerated.
    Rise(Change),
    /// It takes nearly as many more as tolerated: the next small change, or another machine's libc, takes it over that.
    Near(Change),
    /// It takes so much less that a rise back to the stored figure would go unnoticed.
    Fall(Change),
    /// The benchmark has no stored figure.
    New(String),
    /// A stored figure has no benchmark.
    Gone(String),
}

/// Two figures of a benchmark, in instructions per message.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The benchmark.
    pub name: String,
    /// The stored figure.
    pub stored: f64,
    /// The new figure.
    pub counted: f64,
}

impl Figures {
    /// Parses the output of [`Display`](fmt::Display).
    ///
    /// # Errors
    /// A line isn't a name and a figure.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("{STORED} doesn't begin with '{HEAD}'"));
        }
        let figure = |line: &str| {
            let (name, figure) = line.split_once('\t')?;
            Some((name.to_owned(), figure.parse().ok().filter(|figure: &f64| figure.is_finite() && *figure > 0.0)?))
        };
        let line = |line: &str| figure(line).ok_or_else(|| format!("{STORED}: '{line}' is no name and figure"));
        lines.map(line).collect::<Result<_, _>>().map(Self)
    }

    /// Adds a figure.
    pub fn insert(&mut self, name: String, figure: f64) {
        self.0.insert(name, figure);
    }

    /// Number of figures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Differences of `counted` from these beyond the tolerance.
    #[must_use]
    pub fn compare(&self, counted: &Figures) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, &counted) in &counted.0 {
            let name = name.clone();
            match self.0.get(&name) {
                None => findings.push(Finding::New(name)),
                Some(&stored) => {
                    let change = Change { name, stored, counted };
                    let percent = change.percent();
                    if percent > TOLERANCE_PERCENT {
                        findings.push(Finding::Rise(change));
                    } else if percent > NEAR_PERCENT {
                        findings.push(Finding::Near(change));
                    } else if percent < -TOLERANCE_PERCENT {
                        findings.push(Finding::Fall(change));
                    }
                }
            }
        }
        let gone = self.0.keys().filter(|name| !counted.0.contains_key(*name));
        findings.extend(gone.map(|name| Finding::Gone(name.clone())));
        findings
    }
}

impl Change {
    /// The difference in percent of the stored figure.
    fn percent(&self) -> f64 {
        (self.counted - self.stored) / self.stored * 100.0
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, stored, counted } = self;
        let percent = self.percent();
        let direction = if percent > 0.0 { "more" } else { "fewer" };
        write!(
            f,
            "{name}: {counted:.1} instructions per message are {:.1} % {direction} than the {stored:.1} in {STORED}",
            percent.abs()
        )
    }
}

impl Finding {
    /// Whether it fails the run. A fall, and a rise within the tolerance, only ask for renewal.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Fall(_) | Self::Near(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rise(change) => write!(
                f,
                "{change}, and {TOLERANCE_PERCENT} % are allowed. Make it cheaper; if it has to be so, renew the figure by \
                 `{RENEW}` and say in the commit what for"
            ),
            Self::Near(change) => write!(
                f,
                "{change}, near the {TOLERANCE_PERCENT} % that are allowed: look what for, make it cheaper, or renew the figure by \
                 `{RENEW}`"
            ),
            Self::Fall(change) => write!(f, "{change}: keep the gain by `{RENEW}`"),
            Self::New(name) => write!(f, "{name}: {STORED} has no figure; add it by `{RENEW}`"),
            Self::Gone(name) => write!(f, "{name}: {STORED} has a figure, but nothing has that name; `{RENEW}`"),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.0.iter().try_for_each(|(name, figure)| writeln!(f, "{name}\t{figure:.1}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(figures: &[(&str, f64)]) -> Figures {
        Figures(figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect())
    }

    /// A change from 100.
    fn change(name: &str, counted: f64) -> Change {
        Change { name: name.into(), stored: 100.0, counted }
    }

    #[test]
    fn a_table_comes_back() {
        let some = figures(&[("route", 120.0), ("take", 3.5)]);
        assert_eq!(Figures::parse(&some.to_string()), Ok(some));
    }

    #[test]
    fn a_table_with_something_else_in_it_is_refused() {
        for line in ["take", "take\t", "take\tfew", "take\t0", "take\tNaN", "take\t-1", "take 1"] {
            let refused = Figures::parse(&format!("{HEAD}\n{line}\n")).expect_err(line);
            assert!(refused.contains(&format!("'{line}'")), "{refused}");
        }
        assert!(Figures::parse("take\t1\n").is_err(), "without its head");
    }

    #[test]
    fn a_rise_over_the_tolerance_fails_and_says_by_how_much() {
        let stored = figures(&[("take", 100.0), ("route", 100.0)]);
        let findings = stored.compare(&figures(&[("take", 110.1), ("route", 110.0)]));
        assert_eq!(findings, [Finding::Near(change("route", 110.0)), Finding::Rise(change("take", 110.1))]);
        let findings = &findings[1..];
        assert!(findings[0].is_failure());
        let told = findings[0].to_string();
        assert!(told.starts_with("take: 110.1 ") && told.contains("10.1 % more") && told.contains(RENEW), "{told}");
    }

    #[test]
    fn a_rise_near_the_tolerance_is_told() {
        let stored = figures(&[("take", 100.0), ("route", 100.0)]);
        let findings = stored.compare(&figures(&[("take", 107.1), ("route", 106.9)]));
        assert_eq!(findings, [Finding::Near(change("take", 107.1))]);
        assert!(!findings[0].is_failure());
        let told = findings[0].to_string();
        assert!(told.contains("7.1 % more") && told.contains("near the 10 %") && told.contains(RENEW), "{told}");
    }

    #[test]
    fn a_fall_over_the_tolerance_only_asks_for_renewal() {
        let stored = figures(&[("take", 100.0), ("route", 100.0)]);
        let findings = stored.compare(&figures(&[("take", 89.9), ("route", 90.0)]));
        assert_eq!(findings, [Finding::Fall(change("take", 89.9))]);
        assert!(!findings[0].is_failure());
        assert!(findings[0].to_string().contains("10.1 % fewer"), "{}", findings[0]);
    }

    #[test]
    fn a_name_on_one_side_only_fails() {
        let findings = figures(&[("old", 1.0)]).compare(&figures(&[("new", 1.0)]));
        assert_eq!(findings, [Finding::New("new".into()), Finding::Gone("old".into())]);
        assert!(findings.iter().all(Finding::is_failure));
    }
}
