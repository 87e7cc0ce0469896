//! Counts what hot functions cost in instructions per message, by valgrind, and compares with the figures that are kept in
//! the repository.

mod figures;
mod valgrind;

use std::io;
use std::path::Path;

pub use figures::{Change, Figures, Finding};

/// Where the figures are kept, from the root.
pub const STORED: &str = "benches/instructions.tsv";
/// A figure may differ by this much from the stored one, in percent.
pub const TOLERANCE_PERCENT: f64 = 10.0;
/// How the figures are renewed.
pub const RENEW: &str = "make instructions";

/// Counts all of `leveret-instructions`, which is built first. `tell` gets each figure as it is there.
///
/// # Errors
/// It doesn't build or run, or valgrind isn't there.
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
