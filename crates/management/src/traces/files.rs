//! The files of traces: a directory of plain files, which are named and never reached by a path.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of a file: what is traced beyond it is left out.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most files in the directory: with more of them no trace is started.
const FILES_MAX: usize = 100;
/// Most bytes of a trace's name.
const NAME_BYTES_MAX: usize = 100;
const EXTENSION: &str = ".log";

/// Whether this is the name of a file and nothing else: no path, nothing hidden, no control characters.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |character: char| !matches!(character, '/' | '\\') && !character.is_control();
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX + EXTENSION.len()
        && !name.starts_with('.')
        && name.chars().all(is_plain)
}

/// The directory of the files.
#[derive(Debug, Clone)]
pub(super) struct TraceFiles(PathBuf);

impl TraceFiles {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// Opens the file of a trace to append to it, and returns it with its length.
    ///
    /// # Errors
    /// The name isn't one, there are too many files, or the system refuses.
    pub(super) fn open(&self, trace: &str) -> io::Result<(File, u64)> {
        let path = self.path(&format!("{trace}{EXTENSION}"))?;
        fs::create_dir_all(&self.0)?;
        if !path.exists() && self.list()?.len() >= FILES_MAX {
            return Err(io::Error::other(format!("there are {FILES_MAX} trace files; delete some")));
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// The files with their lengths, by name.
    ///
    /// # Errors
    /// The directory can't be read; there are none if it doesn't exist.
    pub(super) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            let about = entry.metadata()?;
            if let Ok(name) = entry.file_name().into_string()
                && about.is_file()
                && is_name(&name)
            {
                files.push((name, about.len()));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Opens a file to read it; `None` if there is no such file.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<File>> {
        match self.plain_file(name) {
            Some(path) => File::open(path).map(Some),
            None => Ok(None),
        }
    }

    /// Deletes a file. False if there is no such file.
    ///
    /// # Errors
    /// It can't be deleted.
    pub(super) fn delete(&self, name: &str) -> io::Result<bool> {
        match self.plain_file(name) {
            Some(path) => fs::remove_file(path).map(|()| true),
            None => Ok(false),
        }
    }

    /// The path of a file that exists; links aren't followed.
    fn plain_file(&self, name: &str) -> Option<PathBuf> {
        let path = self.path(name).ok()?;
        path.symlink_metadata().is_ok_and(|about| about.is_file()).then_some(path)
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        match is_name(name) {
            true => Ok(Path::new(&self.0).join(name)),
            false => Err(io::Error::other(format!("'{}' is no name of a file", name.escape_default()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn paths_and_hidden_names_are_no_names() {
        for wrong in ["", ".", "..", "../up", "a/b", "a\\b", "a\0b", "a\nb", ".hidden", &"x".repeat(200)] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
        assert!(is_name("a b.log") && is_name("ä"));
    }

    #[test]
    fn files_are_listed_read_and_deleted_by_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = TraceFiles::new(directory.path().join("traces"));
        assert!(files.list().expect("none yet").is_empty());
        let (mut file, length) = files.open("t").expect("is opened");
        assert_eq!(length, 0);
        file.write_all(b"12345").expect("is written");
        assert_eq!(files.open("t").expect("again").1, 5);
        assert_eq!(files.list().expect("one"), [("t.log".to_owned(), 5)]);
        fs::write(directory.path().join("secret"), "s").expect("is written");
        assert!(files.read("../secret").expect("no such file").is_none() && files.open("../up").is_err());
        std::os::unix::fs::symlink(directory.path().join("secret"), directory.path().join("traces/link"))
            .expect("a link");
        assert!(files.read("link").expect("no plain file").is_none());
        assert!(files.read("t.log").expect("is read").is_some());
        assert!(files.delete("t.log").expect("is deleted") && !files.delete("t.log").expect("is gone"));
    }

    #[test]
    fn there_is_a_limit_of_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = TraceFiles::new(directory.path().to_owned());
        (0..FILES_MAX).for_each(|number| drop(files.open(&number.to_string()).expect("is opened")));
        assert!(files.open("more").expect_err("too many").to_string().contains("100 trace files"));
        assert!(files.open("7").is_ok(), "it is there already");
    }
}
