//! Counts the instructions of hot functions per message with valgrind, and compares them with the figures stored in
//! the repository.

mod figures;
mod valgrind;

use std::io;
use std::path::Path;

pub use figures::{Change, Figures, Finding};

/// Path of the stored figures, from the root.
pub const STORED: &str = "benches/instructions.tsv";
/// Tolerated difference from the stored figure, in percent.
pub const TOLERANCE_PERCENT: f64 = 10.0;
/// Rise that is told, in percent of the stored figure.
pub const NEAR_PERCENT: f64 = 7.0;
/// Command that renews the figures.
pub const RENEW: &str = "make instructions";

/// Counts all benchmarks of `leveret-instructions`, which is built first. Each figure is passed to `tell` once it is
/// known.
///
/// # Errors
/// It doesn't build or run, or valgrind isn't installed.
pub fn count(root: &Path, mut tell: impl FnMut(&str, f64)) -> io::Result<Figures> {
    let program = valgrind::build(root)?;
    let mut counted = Figures::default();
    for name in valgrind::names(&program)? {
        let figure = valgrind::count(&program, &name)?;
        tell(&name, figure);
        counted.insert(name, figure);
    }
    Ok(counted)
}
