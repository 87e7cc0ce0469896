use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leveret_log::Disk;
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, pread, pwritev};

use super::handles::Handles;
use super::lent::LentFiles;

/// Largest number of files that are kept open. The log uses few: unretired WAL files and segments being read.
const OPEN_FILES_MAX: usize = 256;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A directory of the file system as the log's disk.
///
/// All calls block: they are for the disk threads, and for recovery before the node has any core.
#[derive(Debug)]
pub struct FsDisk {
    directory: PathBuf,
    handles: Handles,
    lent: LentFiles,
    is_read_only: bool,
}

impl FsDisk {
    /// Opens `directory`, which is created durably if it doesn't exist.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn open(directory: &Path) -> io::Result<Self> {
        if !directory.is_dir() {
            std::fs::create_dir_all(directory)?;
            for made in directory.ancestors().skip(1).take(2).filter(|p| !p.as_os_str().is_empty()) {
                File::open(made)?.sync_all()?;
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            handles: Handles::new(OPEN_FILES_MAX),
            lent: LentFiles::default(),
            is_read_only: false,
        })
    }

    /// Opens an existing directory read-only; attempts to change it fail.
    #[must_use]
    pub fn open_for_reading(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            handles: Handles::new(OPEN_FILES_MAX),
            lent: LentFiles::default(),
            is_read_only: true,
        }
    }

    fn path_to_change(&self, name: &str) -> io::Result<PathBuf> {
        if self.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.path(name)
    }

    /// Joins a name of the log's. Names are flat; anything else is a bug of ours, which must not reach a file outside
    /// of the directory.
    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a flat file name")));
        }
        Ok(self.directory.join(name))
    }

    fn file(&self, name: &str) -> io::Result<Arc<File>> {
        let path = self.path(name)?;
        self.handles.file(name, || OpenOptions::new().read(true).write(!self.is_read_only).open(path))
    }
}

impl Disk for FsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // The log has no names that aren't UTF-8.
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        let path = self.path_to_change(name)?;
        self.handles.forget(name);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        allocate(&file, length)?;
        self.handles.file(name, || Ok(file)).map(drop)
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        let file = self.file(name)?;
        let mut slices: Vec<IoSlice<'_>> =
            slices.iter().filter(|slice| !slice.is_empty()).map(|slice| IoSlice::new(slice)).collect();
        let (mut rest, mut offset) = (&mut slices[..], offset);
        while !rest.is_empty() {
            match pwritev(&*file, rest, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file(name)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn read_new(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.file(name)?;
        let mut buffer = Vec::with_capacity(length);
        while buffer.len() < length {
            let at = offset + buffer.len() as u64;
            match pread(&*file, spare_capacity(&mut buffer), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The allocator may have provided more room than requested.
        buffer.truncate(length);
        Ok(buffer)
    }

    fn lend(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Arc<dyn Any + Send + Sync>>> {
        let Some(file) = self.lent.file(name, || self.file(name))? else { return Ok(None) };
        match self.lent.warm(&file, offset, length)? {
            true => Ok(Some(file)),
            false => Ok(None),
        }
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.metadata()?.len())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path_to_change(name)?;
        self.handles.forget(name);
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (old, new) = (self.path_to_change(from)?, self.path_to_change(to)?);
        std::fs::rename(old, new)?;
        self.handles.forget(from);
        self.handles.forget(to);
        Ok(())
    }
}

/// Allocates the blocks of a new file, so that a later write can't fail for want of space and a sync of it changes no
/// length.
fn allocate(file: &File, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        // Some file systems can't; zeros do the same, slowly.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let mut offset = 0;
            while offset < length {
                let count = ZEROS.len().min(usize::try_from(length - offset).unwrap_or(usize::MAX));
                file.write_all_at(&ZEROS[..count], offset)?;
                offset += count as u64;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, FsDisk) {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = FsDisk::open(&directory.path().join("new/log")).expect("opens");
        (directory, disk)
    }

    #[test]
    fn new_memory_holds_what_was_read_and_no_more() {
        let (_directory, disk) = disk();
        disk.create("a", 100_000).expect("is made");
        disk.write_at("a", 50_000, &[&[7; 50_000]]).expect("is written");
        let bytes = disk.read_new("a", 40_000, 20_000).expect("reads");
        assert_eq!((bytes.len(), &bytes[9_999..10_001]), (20_000, &[0, 7][..]));
        assert_eq!(disk.read_new("a", 99_990, 100).expect("reads"), [7; 10], "the file ends there");
        assert!(disk.read_new("a", 100_000, 100).expect("reads").is_empty());
        assert!(disk.read_new("b", 0, 100).is_err());
    }

    fn read(disk: &FsDisk, name: &str, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0xEE; length];
        let read = disk.read_at(name, offset, &mut buffer).expect("reads");
        buffer.truncate(read);
        buffer
    }

    #[test]
    fn a_new_file_has_its_length_its_blocks_and_zeros() {
        use std::os::unix::fs::MetadataExt;
        let (_directory, disk) = disk();
        disk.create("a", 300_000).expect("creates");
        assert_eq!(disk.len("a").expect("is there"), 300_000);
        assert!(disk.file("a").expect("open").metadata().expect("is there").blocks() * 512 >= 300_000);
        assert!(read(&disk, "a", 0, 400_000).iter().all(|byte| *byte == 0));
        disk.write_at("a", 0, &[b"old"]).expect("writes");
        disk.create("a", 8).expect("empties");
        assert_eq!(read(&disk, "a", 0, 100), [0; 8]);
    }

    #[test]
    fn slices_are_written_one_after_the_other_and_the_file_grows() {
        let (_directory, disk) = disk();
        disk.create("a", 4).expect("creates");
        let many: Vec<Vec<u8>> = (0..1000u32).map(|n| n.to_le_bytes().to_vec()).collect();
        let slices: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        disk.write_at("a", 2, &slices).expect("writes");
        disk.write_at("a", 4002, &[b"", b"x", b"", b"yz"]).expect("writes");
        disk.sync("a").expect("syncs");
        disk.sync_directory().expect("syncs");
        assert_eq!(disk.len("a").expect("is there"), 4005);
        assert_eq!(read(&disk, "a", 2, 4000), many.concat());
        assert_eq!(read(&disk, "a", 4000, 100), [0, 0, b'x', b'y', b'z'], "only the end of the file is short");
    }

    #[test]
    fn renamed_and_removed_files_are_not_served_from_old_handles() {
        let (_directory, disk) = disk();
        for name in ["a", "b"] {
            disk.create(name, 0).expect("creates");
            disk.write_at(name, 0, &[name.as_bytes()]).expect("writes");
        }
        disk.rename("a", "b").expect("renames");
        assert_eq!(read(&disk, "b", 0, 9), b"a");
        assert_eq!(disk.len("a").expect_err("is gone").kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.list().expect("lists"), ["b"]);
        disk.remove("b").expect("removes");
        assert_eq!(disk.sync("b").expect_err("is gone").kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.list().expect("lists"), [""; 0]);
    }

    #[test]
    fn a_directory_opened_for_reading_is_not_changed() {
        let (directory, disk) = disk();
        disk.create("a", 4).expect("creates");
        let reader = FsDisk::open_for_reading(&directory.path().join("new/log"));
        assert_eq!(read(&reader, "a", 0, 9), [0; 4]);
        assert!(reader.write_at("a", 0, &[b"x"]).is_err());
        for refused in [reader.create("b", 1), reader.remove("a"), reader.rename("a", "b")] {
            assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(disk.list().expect("lists"), ["a"]);
    }

    #[test]
    fn a_name_that_leaves_the_directory_is_refused() {
        let (_directory, disk) = disk();
        for name in ["", ".", "..", "../a", "a/b", "/etc/passwd", "a\0b"] {
            let error = disk.create(name, 0).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
