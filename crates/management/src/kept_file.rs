//! Files of the data directory that the HTTP API keeps beside the log.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The content of such a file; `None` without one.
///
/// # Errors
/// It can't be read, or is longer than `bytes_max`.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(found) if found.len() > bytes_max => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long".to_owned()))
        }
        Ok(_) => fs::read(path).map(Some),
    }
}

/// Puts a file into the place of an older one: after a power cut there is one of them, and what `fill` wrote is whole.
///
/// # Errors
/// The disk's.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    fill(&mut file)?;
    file.sync_all()?;
    fs::rename(&new, path)
}
