use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

/// Open files of the data directory, the least recently used closed first.
#[derive(Debug)]
pub(crate) struct Handles {
    open: Mutex<Open>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Open {
    files: HashMap<String, Handle>,
    clock: u64,
}

#[derive(Debug)]
struct Handle {
    file: Arc<File>,
    used: u64,
}

impl Handles {
    pub(crate) fn new(limit: usize) -> Self {
        assert!(limit > 0, "at least one file must be open to be used");
        Self { open: Mutex::default(), limit }
    }

    /// The open file with this name. If there is none, `open` is called without any lock held.
    pub(crate) fn file(&self, name: &str, open: impl FnOnce() -> io::Result<File>) -> io::Result<Arc<File>> {
        if let Some(file) = self.open.lock().find(name) {
            return Ok(file);
        }
        let file = Arc::new(open()?);
        Ok(self.open.lock().insert(name, file, self.limit))
    }

    /// Forgets a file that is removed or renamed. Threads that are using it keep it until they are done.
    pub(crate) fn forget(&self, name: &str) {
        self.open.lock().files.remove(name);
    }
}

impl Open {
    fn find(&mut self, name: &str) -> Option<Arc<File>> {
        self.clock += 1;
        let handle = self.files.get_mut(name)?;
        handle.used = self.clock;
        Some(handle.file.clone())
    }

    /// Inserts a file. If another thread was faster, returns that one's.
    fn insert(&mut self, name: &str, file: Arc<File>, limit: usize) -> Arc<File> {
        if let Some(file) = self.find(name) {
            return file;
        }
        if self.files.len() >= limit {
            let oldest = self.files.iter().min_by_key(|(_, handle)| handle.used).map(|(name, _)| name.clone());
            oldest.map(|name| self.files.remove(&name));
        }
        self.files.insert(name.to_owned(), Handle { file: file.clone(), used: self.clock });
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_was_unused_longest_is_closed_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let opened = std::cell::RefCell::new(Vec::new());
        let handles = Handles::new(2);
        let touch = |name: &str| {
            let path = directory.path().join(name);
            let open = || {
                opened.borrow_mut().push(name.to_owned());
                File::options().write(true).create(true).truncate(false).open(path)
            };
            handles.file(name, open).expect("opens");
        };
        for name in ["a", "b", "a", "c", "a", "b"] {
            touch(name);
        }
        assert_eq!(*opened.borrow(), ["a", "b", "c", "b"], "c pushed out b, and b then c");
    }

    #[test]
    fn a_failed_open_leaves_nothing_behind() {
        let handles = Handles::new(1);
        let missing = || Err(io::ErrorKind::NotFound.into());
        assert!(handles.file("x", missing).is_err());
        assert!(handles.open.lock().files.is_empty());
    }
}
