//! Python packages whose own tests run against the broker, from their sources, by pytest.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Output};

use crate::cell;
use crate::go_suite::SuiteRun;

/// pytest's verdicts after a name.
const VERDICTS: [(&str, bool); 6] = [
    (" PASSED", true),
    (" FAILED", false),
    (" ERROR", false),
    (" SKIPPED", false),
    (" XFAIL", false),
    (" XPASS", false),
];

/// Runs a file or folder of tests of the package in `.installed/python-suites/PACKAGE`, but for tests left out by name.
///
/// # Panics
/// When there is no Python.
pub fn run(package: &str, tests: &str, left_out: &[&str], broker: SocketAddr) -> (SuiteRun, Output) {
    let installed = cell::clients().join(".installed");
    let output = Command::new(installed.join("venv/bin/python"))
        .args(["-m", "pytest", "-v", "--color=no", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore"])
        // The suites mark tests to be repeated when they fail. None has to be.
        .args(["-p", "no:rerunfailures", tests])
        .args(left_out.iter().map(|name| format!("--deselect={name}")))
        .current_dir(installed.join("python-suites").join(package))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // So that lines aren't truncated.
        .env("COLUMNS", "400")
        .env("RABBITMQ_HOST", broker.ip().to_string())
        .env("RABBITMQ_5672_TCP", broker.port().to_string())
        // There is no listener for TLS.
        .env("RABBITMQ_5671_TCP", "1")
        .output()
        .expect("python: run `make -C tests/clients install`");
    (parse(&String::from_utf8_lossy(&output.stdout)), output)
}

/// Parses the output of `pytest -v`. A test that passes and then fails in its teardown counts as failed.
fn parse(text: &str) -> SuiteRun {
    let mut passed = BTreeMap::new();
    for line in text.lines() {
        // Names may contain spaces.
        let found = VERDICTS.iter().find_map(|(word, passed)| Some((line.split_once(word)?.0, *passed)));
        if let Some((name, verdict)) = found.filter(|(name, _)| name.contains("::")) {
            *passed.entry(name.to_owned()).or_insert(true) &= verdict;
        }
    }
    let mut run = SuiteRun::default();
    for (name, passed) in passed {
        if passed { &mut run.passed } else { &mut run.failed }.push(name);
    }
    // pytest's details of failures follow after all names.
    let details = text.split_once("= FAILURES =").map_or("", |(_, details)| details);
    run.output = run.failed.iter().map(|name| (name.clone(), details.to_owned())).collect();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_passes_when_nothing_of_it_fails() {
        let run = parse(
            "t/a.py::one PASSED   [ 1%]\nt/a.py::two[x y] PASSED [ 2%]\nt/a.py::two[x y] ERROR [ 2%]\nt/a.py::three SKIPPED (no)\n\
             ==== FAILURES ====\nwhy\nFAILED t/a.py::four - x\n",
        );
        assert_eq!(run.passed, ["t/a.py::one"]);
        assert_eq!(run.failed, ["t/a.py::three", "t/a.py::two[x y]"]);
    }
}
