//! Checks of the repository beyond those of compiler and linter.

pub mod compatibility;
pub mod instructions;
pub mod passwords;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
