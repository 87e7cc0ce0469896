//! Tasks of this repository: `cargo xtask tidy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
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
