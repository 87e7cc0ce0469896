//! The rules of the repository, each a function that returns complaints.

mod directions;
mod documents;
mod english;
mod fields;
mod manifest;
mod modules;
mod names;
mod not_there_yet;
mod paths;
mod repository;
mod size;
mod traces;
mod unsafe_code;

use std::io;
use std::path::Path;

pub use self::modules::describe as describe_circles;
pub use self::repository::{File, Repository};

/// Every complaint about the repository at `root`.
///
/// # Errors
/// A file can't be read, or git can't be asked for the list of files.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let repository = Repository::read(root)?;
    let rules = [
        directions::check,
        documents::check,
        english::check,
        fields::check,
        modules::check,
        names::check,
        not_there_yet::check,
        paths::check,
        size::check,
        traces::check,
        unsafe_code::check,
    ];
    Ok(rules.iter().flat_map(|rule| rule(&repository)).collect())
}
