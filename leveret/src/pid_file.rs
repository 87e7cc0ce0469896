//! The file with the node's process id, which start scripts wait for (`RABBITMQ_PID_FILE`).

use std::io;
use std::path::{Path, PathBuf};

use crate::arguments::Start;

/// The file, removed when dropped unless it is to be kept.
pub(crate) struct PidFile {
    path: PathBuf,
    is_kept: bool,
}

/// The file can't be written.
#[derive(Debug)]
pub(crate) struct PidFileError {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for PidFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write the pid file {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for PidFileError {}

impl PidFile {
    /// Writes the file if one is configured; its directory is created if it doesn't exist.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn write(start: &Start) -> Result<Option<Self>, PidFileError> {
        let Some(path) = start.pid_file.clone() else { return Ok(None) };
        match write(&path) {
            Ok(()) => Ok(Some(PidFile { path, is_kept: start.keeps_pid_file })),
            Err(source) => Err(PidFileError { path, source }),
        }
    }
}

/// Writes the file atomically: readers see all of it or nothing.
fn write(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    std::fs::write(&fresh, format!("{}\n", std::process::id()))?;
    std::fs::rename(&fresh, path)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A file that is left behind is replaced at the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
