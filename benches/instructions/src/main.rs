//! Hot functions, for `cargo xtask instructions` to count by valgrind.
//!
//! `leveret-instructions` lists the benchmarks; `leveret-instructions NAME` runs one and prints its number of
//! messages. Preparation and checks aren't counted.

use std::process::ExitCode;

use leveret_instructions::BENCHMARKS;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        BENCHMARKS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    match BENCHMARKS.iter().find(|(known, _)| *known == name) {
        Some((_, run)) => {
            println!("{}", run());
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("there is no benchmark {name}; without an argument they are listed");
            ExitCode::from(64)
        }
    }
}
