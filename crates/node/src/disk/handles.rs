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
    generation: Generation,
}

/// Counts the changes of names. A file that was opened before a change may not be the one that its name has since.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

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
        let (found, generation) = self.look(name);
        if let Some(file) = found {
            return Ok(file);
        }
        let file = Arc::new(open()?);
        Ok(self.open.lock().insert(name, file, generation, self.limit))
    }

    /// The file with this name if it is open, and the generation to which the answer belongs.
    pub(crate) fn look(&self, name: &str) -> (Option<Arc<File>>, Generation) {
        let mut open = self.open.lock();
        (open.find(name), open.generation)
    }

    /// Puts a file that was just created in the place of any other with its name.
    pub(crate) fn replace(&self, name: &str, file: File) {
        let mut open = self.open.lock();
        open.generation.0 += 1;
        open.put(name, Arc::new(file), self.limit);
    }

    /// As [`Handles::replace`], for a file that was opened in this generation. Does nothing if names have changed since.
    pub(crate) fn correct(&self, name: &str, file: Arc<File>, generation: Generation) {
        let mut open = self.open.lock();
        if open.generation == generation {
            open.generation.0 += 1;
            open.put(name, file, self.limit);
        }
    }

    /// Forgets a file that was removed or renamed. Threads that are using it keep it until they are done.
    pub(crate) fn forget(&self, name: &str) {
        let mut open = self.open.lock();
        open.generation.0 += 1;
        let gone = open.files.remove(name);
        drop(open);
        // The blocks of a removed file are freed here, which takes a moment if there are many.
        drop(gone);
    }

    /// Closes the file that was unused longest, out of those that nobody is using. Returns whether there was one.
    pub(crate) fn evict(&self) -> bool {
        let mut open = self.open.lock();
        let oldest = open.oldest(|handle| Arc::strong_count(&handle.file) == 1);
        let evicted = oldest.and_then(|name| open.files.remove(&name));
        drop(open);
        evicted.is_some()
    }

    /// Number of open files.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().files.len()
    }
}

impl Open {
    fn find(&mut self, name: &str) -> Option<Arc<File>> {
        self.clock += 1;
        let handle = self.files.get_mut(name)?;
        handle.used = self.clock;
        Some(handle.file.clone())
    }

    /// Inserts a file that was opened in this generation. If another thread was faster, returns that one's. If names have
    /// changed since, the file is used once and not kept.
    fn insert(&mut self, name: &str, file: Arc<File>, generation: Generation, limit: usize) -> Arc<File> {
        if let Some(file) = self.find(name) {
            return file;
        }
        if self.generation == generation {
            self.put(name, file.clone(), limit);
        }
        file
    }

    fn put(&mut self, name: &str, file: Arc<File>, limit: usize) {
        if self.files.len() >= limit
            && !self.files.contains_key(name)
            && let Some(oldest) = self.oldest(|_| true)
        {
            self.files.remove(&oldest);
        }
        self.clock += 1;
        self.files.insert(name.to_owned(), Handle { file, used: self.clock });
    }

    fn oldest(&self, is_candidate: impl Fn(&Handle) -> bool) -> Option<String> {
        let candidates = self.files.iter().filter(|(_, handle)| is_candidate(handle));
        candidates.min_by_key(|(_, handle)| handle.used).map(|(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

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

    /// A file with this content, whatever its name.
    fn file_of(content: &str) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(content.as_bytes(), 0).expect("writes");
        file
    }

    fn content(file: &File) -> String {
        let mut bytes = [0; 16];
        let count = file.read_at(&mut bytes, 0).expect("reads");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    fn kept(handles: &Handles, name: &str) -> Option<String> {
        handles.look(name).0.map(|file| content(&file))
    }

    #[test]
    fn a_created_file_replaces_one_that_was_opened_before() {
        let handles = Handles::new(4);
        // A reader opens the old file and keeps it just before the name becomes the new file's.
        handles.file("a", || Ok(file_of("old"))).expect("opens");
        handles.replace("a", file_of("new"));
        assert_eq!(kept(&handles, "a").as_deref(), Some("new"));
        // A reader that began before and comes back later finds the new one, too.
        let slow = || {
            handles.replace("b", file_of("new"));
            Ok(file_of("old"))
        };
        let read = handles.file("b", slow).expect("opens");
        assert_eq!((content(&read).as_str(), kept(&handles, "b").as_deref()), ("new", Some("new")));
    }

    #[test]
    fn a_file_opened_before_a_rename_or_removal_is_not_kept() {
        let handles = Handles::new(4);
        let slow = || {
            handles.forget("a");
            Ok(file_of("old"))
        };
        let read = handles.file("a", slow).expect("opens");
        assert_eq!((content(&read).as_str(), kept(&handles, "a")), ("old", None));
        handles.file("a", || Ok(file_of("new"))).expect("opens");
        assert_eq!(kept(&handles, "a").as_deref(), Some("new"));
    }

    #[test]
    fn a_correction_counts_only_if_no_name_has_changed() {
        let handles = Handles::new(4);
        handles.replace("a", file_of("old"));
        let (_, generation) = handles.look("a");
        handles.correct("a", Arc::new(file_of("new")), generation);
        assert_eq!(kept(&handles, "a").as_deref(), Some("new"));
        handles.correct("a", Arc::new(file_of("late")), generation);
        assert_eq!(kept(&handles, "a").as_deref(), Some("new"));
    }

    #[test]
    fn eviction_closes_the_oldest_file_that_nobody_uses() {
        let handles = Handles::new(4);
        let used = handles.file("used", || Ok(file_of("used"))).expect("opens");
        for name in ["old", "young"] {
            handles.file(name, || Ok(file_of(name))).expect("opens");
        }
        assert!(handles.evict());
        assert_eq!((kept(&handles, "old"), kept(&handles, "young").as_deref()), (None, Some("young")));
        assert!(handles.evict());
        assert!(!handles.evict(), "the last one is in use");
        assert_eq!((handles.count(), content(&used).as_str()), (1, "used"));
    }
}
