//! Tasks of this repository: `cargo xtask tidy`, `cargo xtask circles`, `cargo xtask passwords DIR`, `cargo xtask instructions`,
//! `cargo xtask census FILE`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use xtask::instructions::{Figures, Finding, STORED};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["circles"] => circles(),
        ["passwords", directory] => passwords(Path::new(directory)),
        ["census", file] => census(Path::new(file)),
        ["instructions"] => instructions(false),
        ["instructions", "renew"] => instructions(true),
        _ => {
            eprintln!("usage: cargo xtask tidy | circles | passwords DIR | instructions [renew] | census FILE");
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

/// Prints the circular imports between modules, with the names imported by each link.
fn circles() -> ExitCode {
    match xtask::tidy::Repository::read(&xtask::root()) {
        Ok(repository) => {
            xtask::tidy::describe_circles(&repository).iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("circles: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Searches the logs of the tests for passwords used in them.
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

/// Compares the table of RabbitMQ's features with a census of them, Markdown tables whose first cell is the id.
fn census(file: &Path) -> ExitCode {
    use xtask::compatibility::{TABLE, parse, strangers};
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let compared = read(file).and_then(|census| {
        let table = read(&xtask::root().join(TABLE))?;
        let sections = parse(&table).map_err(|error| error.to_string())?;
        Ok(strangers(&sections, &census))
    });
    match compared {
        Ok(strangers) => {
            strangers.iter().for_each(|line| println!("{line}"));
            println!("census: {} differences", strangers.len());
            if strangers.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("census: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the instruction counts of hot functions with the stored figures. With `renew` the figures are stored.
fn instructions(renew: bool) -> ExitCode {
    match compare_instructions(renew) {
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            let failures = findings.iter().filter(|finding| finding.is_failure()).count();
            println!("instructions: {failures} failures, {} to renew", findings.len() - failures);
            if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare_instructions(renew: bool) -> io::Result<Vec<Finding>> {
    let root = xtask::root();
    let counted = xtask::instructions::count(&root, |name, figure| println!("{name}: {figure:.1}"))?;
    let stored = root.join(STORED);
    if renew {
        fs::write(&stored, counted.to_string())?;
    }
    let stored = Figures::parse(&fs::read_to_string(stored)?).map_err(io::Error::other)?;
    Ok(stored.compare(&counted))
}
