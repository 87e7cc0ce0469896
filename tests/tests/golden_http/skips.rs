//! Permanent differences, each with its reason: `ANSWER PATH: REASON`. `* KEY: Erlang's ...` covers a key and
//! everything below it in every response, for Erlang's internals only.

use leveret_tests::allow;

use crate::compare::Difference;

/// Required prefix of the reason of a pattern.
const ERLANGS: &str = "Erlang's ";

struct Skip {
    answer: String,
    path: String,
    used: bool,
}

impl Skip {
    fn covers(&self, difference: &Difference) -> bool {
        match self.answer.as_str() {
            "*" => difference.path.split('.').any(|step| step.trim_end_matches("[]") == self.path),
            answer => answer == difference.answer && self.path == difference.path,
        }
    }
}

/// The permanent differences.
pub(crate) struct Skips(Vec<Skip>);

impl Skips {
    /// Parses the list.
    ///
    /// # Panics
    /// If a line is malformed, or a pattern covers anything but Erlang's internals.
    pub(crate) fn parse(text: &str) -> Self {
        let skip = |(what, reason): (&String, &String)| {
            let (answer, path) = what.split_once(' ').unwrap_or_else(|| panic!("'{what}' isn't an answer and a path"));
            assert!(answer != "*" || reason.starts_with(ERLANGS), "{what}: a pattern is for Erlang's internals");
            Skip { answer: answer.to_owned(), path: path.to_owned(), used: false }
        };
        Self(allow::parse(text).iter().map(skip).collect())
    }

    /// Whether a line covers this difference; that line is then used.
    pub(crate) fn cover(&mut self, difference: &Difference) -> bool {
        let mut is_covered = false;
        for skip in self.0.iter_mut().filter(|skip| skip.covers(difference)) {
            skip.used = true;
            is_covered = true;
        }
        is_covered
    }

    /// Complaints about lines that covered nothing.
    pub(crate) fn unused(&self) -> impl Iterator<Item = String> {
        let unused = self.0.iter().filter(|skip| !skip.used);
        unused.map(|skip| format!("{} {} is no difference: remove it from the list", skip.answer, skip.path))
    }
}

#[test]
fn a_line_covers_one_path_and_a_pattern_a_key_everywhere() {
    let mut skips = Skips::parse("queue .memory: counted otherwise\n* gc: Erlang's heap\nnode .uptime: not yet\n");
    let mut cover = |answer: &'static str, path: &str| {
        skips.cover(&Difference { answer, path: path.to_owned(), what: String::new() })
    };
    assert!(cover("queue", ".memory"));
    assert!(!cover("queue", ".memory.total"));
    assert!(!cover("queues", ".memory"));
    assert!(cover("queues", "[].gc[].runs"));
    assert!(!cover("queues", "[].gc_runs"));
    assert_eq!(skips.unused().collect::<Vec<_>>(), ["node .uptime is no difference: remove it from the list"]);
}
