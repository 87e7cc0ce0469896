use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The lock file's name in the data directory.
pub(crate) const LOCK_FILE: &str = "lock";

/// The lock of the data directory: no other node may use it while this lives.
///
/// The locks are the kernel's and are released with the process, however it ends. There are two: one on the directory
/// itself, which can't be mistaken for a stale file and removed, and one on the file `lock`, which stays and names the
/// process.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: PathBuf,
    _file: File,
    _itself: Option<File>,
}

/// The reason why the data directory can't be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another node runs on it.
    #[error("data directory {directory} is in use by process {process}")]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process id that the other node wrote to the lock file.
        process: String,
    },
    /// The directory can't be created or written.
    #[error("cannot use {path} as data directory: {source}")]
    Unusable {
        /// The path that failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl DirectoryLock {
    /// Creates the directory if it doesn't exist, and locks it.
    ///
    /// # Errors
    /// Another node has locked it, or it can't be created or written.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_FILE);
        let unusable = |source| LockError::Unusable { path: path.clone(), source };
        std::fs::create_dir_all(directory)
            .map_err(|source| LockError::Unusable { path: directory.to_owned(), source })?;
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
        let in_use = || LockError::InUse { directory: directory.to_owned(), process: process_on(directory) };
        let itself = lock_itself(directory, File::try_lock).ok_or_else(in_use)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        write_process(&mut file).map_err(unusable)?;
        Ok(Self { directory: directory.to_owned(), _file: file, _itself: itself })
    }

    /// The locked directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Locks a directory itself; none if it is locked already. Some network file systems have no locks on directories:
/// there the lock on the file has to suffice.
pub(crate) fn lock_itself(
    directory: &Path,
    lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Option<Option<File>> {
    let Ok(itself) = File::open(directory) else { return Some(None) };
    match lock(&itself) {
        Ok(()) => Some(Some(itself)),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(None),
    }
}

/// The process that a node wrote to the lock file, or to `ports.json` if that was removed.
pub(crate) fn process_on(directory: &Path) -> String {
    let number = |text: &str| {
        let mut words = text.split_ascii_whitespace();
        let digits: String = words.next()?.chars().take_while(char::is_ascii_digit).collect();
        let elsewhere = words.next().filter(|host| *host != host_name()).map(|host| format!(" on {host}"));
        (!digits.is_empty()).then(|| digits + &elsewhere.unwrap_or_default())
    };
    let read = |name: &str| {
        let mut text = String::new();
        File::open(directory.join(name)).ok()?.take(PROCESS_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let of_lock = || number(&read(LOCK_FILE)?);
    let of_ports = || number(read("ports.json")?.split_once("\"pid\":")?.1);
    of_lock().or_else(of_ports).unwrap_or_else(|| "unknown".to_owned())
}

/// Most bytes that are read of a file that names a process.
const PROCESS_BYTES_MAX: u64 = 4096;

fn write_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}\n{}", std::process::id(), host_name())
}

/// The name of this machine, or of this container: there every node is process 1.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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
    fn a_node_of_another_host_is_named_with_its_host() {
        let directory = tempfile::tempdir().expect("a directory");
        let of = |text: &str| {
            std::fs::write(directory.path().join(LOCK_FILE), text).expect("is written");
            process_on(directory.path())
        };
        assert_eq!(of("1\nbroker-0\n"), "1 on broker-0");
        assert_eq!(of(&format!("17\n{}\n", host_name())), "17");
        assert_eq!((of("17\n"), of(""), of("x y")), ("17".to_owned(), "unknown".to_owned(), "unknown".to_owned()));
    }

    #[test]
    fn a_directory_stays_locked_without_its_lock_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = DirectoryLock::acquire(directory.path()).expect("free");
        std::fs::write(directory.path().join("ports.json"), "{\"amqp\":1,\"pid\":4711}\n").expect("writes");
        for _ in 0..2 {
            std::fs::remove_file(directory.path().join(LOCK_FILE)).expect("is removed");
            let refused = DirectoryLock::acquire(directory.path()).expect_err("taken").to_string();
            assert!(refused.ends_with("is in use by process 4711"), "{refused}");
        }
        drop(first);
        DirectoryLock::acquire(directory.path()).expect("free again");
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
