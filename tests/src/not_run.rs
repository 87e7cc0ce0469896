//! Tests that can't be run here. The test harness can't be told while a test runs, and counts it as passed: so it is written down, and
//! `.ci/test` counts it as ignored (`.ci/not-run.awk`) and shows it at its end.

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::Path;
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
        let program = env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let thread = thread::current();
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("{program}\t{}\t{reason}\n", thread.name().unwrap_or("a test"));
        // Tests of several processes append at once: a short line is written whole.
        let file = File::options().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("LEVERET_TESTS_NOT_RUN names a file");
    }
}
