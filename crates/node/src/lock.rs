use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Its name in the data directory.
pub(crate) const LOCK_FILE: &str = "lock";

/// Holds the data directory: no second node may use it while this lives.
///
/// The lock is the kernel's and goes with the process, however that ends; the file stays.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: PathBuf,
    _file: File,
}

/// Why the data directory can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another node runs on it.
    #[error("data directory {directory} is in use by process {process}")]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process id that the other node has left in the lock file.
        process: String,
    },
    /// The directory can't be made or written.
    #[error("cannot use {path} as data directory: {source}")]
    Unusable {
        /// The path that refused.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DirectoryLock {
    /// Makes the directory if it isn't there, and locks it.
    ///
    /// # Errors
    /// Another node has it, or it can't be made or written.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_FILE);
        let unusable = |source| LockError::Unusable { path: path.clone(), source };
        std::fs::create_dir_all(directory)
            .map_err(|source| LockError::Unusable { path: directory.to_owned(), source })?;
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                let read = file.take(32).read_to_string(&mut process);
                let process = match process.trim() {
                    "" => "unknown".to_owned(),
                    known if read.is_ok() => known.to_owned(),
                    _ => "unknown".to_owned(),
                };
                return Err(LockError::InUse { directory: directory.to_owned(), process });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        write_process(&mut file).map_err(unusable)?;
        Ok(Self { directory: directory.to_owned(), _file: file })
    }

    /// The directory that it holds.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

fn write_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_node_is_refused_by_name_until_the_first_is_gone() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("new/data");
        let first = DirectoryLock::acquire(&directory).expect("free");
        let refused = DirectoryLock::acquire(&directory).expect_err("taken").to_string();
        let expected = format!("data directory {} is in use by process {}", directory.display(), std::process::id());
        assert_eq!(refused, expected);
        drop(first);
        DirectoryLock::acquire(&directory).expect("free again");
    }

    #[test]
    fn a_path_that_is_a_file_is_refused_with_its_name() {
        let parent = tempfile::tempdir().expect("a directory");
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("writes");
        let refused = DirectoryLock::acquire(&file).expect_err("not a directory").to_string();
        assert!(refused.starts_with(&format!("cannot use {} as data directory: ", file.display())), "{refused}");
    }
}
