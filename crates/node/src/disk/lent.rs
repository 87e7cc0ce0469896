use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::sendfile;
use rustix::io::Errno;

/// Files out of which connections send parts by themselves, each open once. A lent file keeps a descriptor, and its blocks on the
/// disk, until the last client has its part.
#[derive(Debug)]
pub(super) struct LentFiles {
    /// Largest number of files that are lent at a time.
    limit: usize,
    lent: Mutex<Lent>,
    /// A device that takes everything; `None` if there is none. It is opened before clients could take all descriptors.
    nowhere: Option<File>,
}

#[derive(Debug, Default)]
struct Lent {
    by_name: HashMap<String, Weak<File>>,
    /// Files whose names were removed or given to others. Some may still be lent.
    nameless: Vec<Weak<File>>,
}

impl LentFiles {
    pub(super) fn new(limit: usize) -> Self {
        let nowhere = OpenOptions::new().write(true).open("/dev/null").ok();
        Self { limit, lent: Mutex::default(), nowhere }
    }

    /// The file with this name; `None` if too many are lent.
    pub(super) fn file(
        &self,
        name: &str,
        open: impl FnOnce() -> io::Result<Arc<File>>,
    ) -> io::Result<Option<Arc<File>>> {
        let mut lent = self.lent.lock();
        if let Some(file) = lent.by_name.get(name).and_then(Weak::upgrade) {
            return Ok(Some(file));
        }
        if lent.count() >= self.limit {
            lent.by_name.retain(|_, file| file.strong_count() > 0);
            lent.nameless.retain(|file| file.strong_count() > 0);
        }
        if lent.count() >= self.limit {
            return Ok(None);
        }
        let file = open()?;
        lent.by_name.insert(name.to_owned(), Arc::downgrade(&file));
        Ok(Some(file))
    }

    /// Forgets the name of a file that was removed, renamed or replaced. It counts as lent until the last client has its part.
    pub(super) fn forget(&self, name: &str) {
        let mut lent = self.lent.lock();
        let gone = lent.by_name.remove(name);
        lent.nameless.extend(gone.filter(|file| file.strong_count() > 0));
    }

    /// Brings a part of a file into the page cache, so that the core that sends it doesn't wait for the disk. Sent to nowhere, its
    /// pages are read and nothing is copied. Returns `false` if that isn't possible here.
    pub(super) fn warm(&self, file: &File, mut offset: u64, mut length: u64) -> io::Result<bool> {
        let Some(nowhere) = &self.nowhere else { return Ok(false) };
        while length > 0 {
            match sendfile(nowhere, file, Some(&mut offset), usize::try_from(length).unwrap_or(usize::MAX)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(sent) => length -= sent as u64,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

impl Lent {
    fn count(&self) -> usize {
        self.by_name.len() + self.nameless.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_lent_open_once_and_warmed_within_its_end() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 100_000]).expect("writes");
        let (file, lent) = (Arc::new(file), LentFiles::new(4));
        let first = lent.file("a", || Ok(file.clone())).expect("opens").expect("is lent");
        let second = lent.file("a", || Err(io::ErrorKind::NotFound.into())).expect("is open").expect("is lent");
        assert!(Arc::ptr_eq(&first, &second));
        assert!(lent.warm(&first, 5_000, 95_000).expect("reads"));
        assert_eq!(lent.warm(&first, 5_000, 95_001).expect_err("it is shorter").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn no_more_files_are_lent_than_descriptors_allow() {
        let (lent, open) = (LentFiles::new(8), || tempfile::tempfile().map(Arc::new));
        let mut held = Vec::new();
        for name in 0..8 {
            held.extend(lent.file(&name.to_string(), open).expect("opens"));
        }
        assert_eq!(held.len(), 8);
        assert!(lent.file("more", open).expect("no error").is_none());
        held.pop();
        assert!(lent.file("more", open).expect("opens").is_some());
    }

    #[test]
    fn a_removed_file_counts_until_its_last_client_is_done() {
        let (lent, open) = (LentFiles::new(1), || tempfile::tempfile().map(Arc::new));
        let old = lent.file("a", open).expect("opens").expect("is lent");
        lent.forget("a");
        assert!(lent.file("a", open).expect("no error").is_none(), "a client still has the old one");
        drop(old);
        assert!(lent.file("a", open).expect("opens").is_some());
    }
}
