//! Tests that can't be run here. The test harness can't be told while a test runs, and counts it as passed: so it is written down, and
//! `.ci/test` shows it at its end.

use std::env;
use std::fs::File;
use std::io::Write;
use std::thread;

/// The variable that names the file.
const FILE: &str = "LEVERET_TESTS_NOT_RUN";

/// Notes that the test of this thread isn't run, and why. The test returns after that.
///
/// # Panics
/// If the file that `LEVERET_TESTS_NOT_RUN` names can't be written.
pub fn not_run(reason: &str) {
    eprintln!("not run: {reason}");
    if let Some(path) = env::var_os(FILE) {
        let line = format!("{}: {reason}\n", thread::current().name().unwrap_or("a test"));
        // Tests of several processes append at once: a short line is written whole.
        let file = File::options().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("LEVERET_TESTS_NOT_RUN names a file");
    }
}
