use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rustix::fs::sendfile;
use rustix::io::Errno;

/// Most files that are lent at a time: each keeps a descriptor, and its blocks on the disk, until the last client has its part.
const LENT_FILES_MAX: usize = 1024;

/// Files out of which connections send parts by themselves, each open once.
#[derive(Debug, Default)]
pub(super) struct LentFiles {
    open: Mutex<HashMap<String, Weak<File>>>,
    /// A device that takes everything; `None` if there is none.
    nowhere: OnceLock<Option<File>>,
}

impl LentFiles {
    /// The file with this name; `None` if too many are lent.
    pub(super) fn file(
        &self,
        name: &str,
        open: impl FnOnce() -> io::Result<Arc<File>>,
    ) -> io::Result<Option<Arc<File>>> {
        let mut lent = self.open.lock();
        if let Some(file) = lent.get(name).and_then(Weak::upgrade) {
            return Ok(Some(file));
        }
        if lent.len() >= LENT_FILES_MAX {
            lent.retain(|_, file| file.strong_count() > 0);
        }
        if lent.len() >= LENT_FILES_MAX {
            return Ok(None);
        }
        let file = open()?;
        lent.insert(name.to_owned(), Arc::downgrade(&file));
        Ok(Some(file))
    }

    /// Brings a part of a file into the page cache, so that the core that sends it doesn't wait for the disk. Sent to nowhere, its
    /// pages are read and nothing is copied. Returns `false` if that isn't possible here.
    pub(super) fn warm(&self, file: &File, mut offset: u64, mut length: u64) -> io::Result<bool> {
        let open = || OpenOptions::new().write(true).open("/dev/null").ok();
        let Some(nowhere) = self.nowhere.get_or_init(open) else { return Ok(false) };
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_lent_open_once_and_warmed_within_its_end() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 100_000]).expect("writes");
        let (file, lent) = (Arc::new(file), LentFiles::default());
        let first = lent.file("a", || Ok(file.clone())).expect("opens").expect("is lent");
        let second = lent.file("a", || Err(io::ErrorKind::NotFound.into())).expect("is open").expect("is lent");
        assert!(Arc::ptr_eq(&first, &second));
        assert!(lent.warm(&first, 5_000, 95_000).expect("reads"));
        assert_eq!(lent.warm(&first, 5_000, 95_001).expect_err("it is shorter").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn no_more_files_are_lent_than_descriptors_allow() {
        let (lent, open) = (LentFiles::default(), || tempfile::tempfile().map(Arc::new));
        let mut held = Vec::new();
        for name in 0..LENT_FILES_MAX {
            held.extend(lent.file(&name.to_string(), open).expect("opens"));
        }
        assert_eq!(held.len(), LENT_FILES_MAX);
        assert!(lent.file("more", open).expect("no error").is_none());
        held.pop();
        assert!(lent.file("more", open).expect("opens").is_some());
    }
}
