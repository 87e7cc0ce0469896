//! Tasks of this repository: `cargo xtask tidy`, `cargo xtask passwords DIR`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["passwords", directory] => passwords(Path::new(directory)),
        _ => {
            eprintln!("usage: cargo xtask tidy | passwords DIR");
            ExitCode::from(64)
        }
    }
}

fn tidy() -> ExitCode {
    let complaints = match xtask::tidy::check(&xtask::root()) {
        Ok(complaints) => complaints,
        Err(error) => vec![format!("cannot read the repository: {error}")],
    };
    complaints.iter().for_each(|complaint| println!("{complaint}"));
    println!("tidy: {} complaints", complaints.len());
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a log of the tests holds a password of theirs.
fn passwords(directory: &Path) -> ExitCode {
    match xtask::passwords::search(directory, &xtask::root().join("tests/allow/passwords.txt")) {
        Ok(report) => {
            report.found.iter().for_each(|found| println!("{found}"));
            println!(
                "passwords: {} in {} lines of {} logs, {} found",
                report.passwords,
                report.lines,
                report.logs,
                report.found.len()
            );
            if report.found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("passwords: {error}");
            ExitCode::FAILURE
        }
    }
}
