use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leveret_log::Disk;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::{Errno, pread, pwritev};
use tracing::error;

use super::handles::Handles;
use super::lent::LentFiles;
use super::share::FileShare;
use super::spares::{Spares, is_shortage};

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Pauses before the second and before later repetitions of a read.
const AGAIN_PAUSE: Duration = Duration::from_millis(10);
const AGAIN_PAUSE_MAX: Duration = Duration::from_millis(100);

/// A directory of the file system as the log's disk.
///
/// All calls block: they are for the disk threads, and for recovery before the node has any core.
///
/// No call fails for want of a descriptor as long as others keep to their share. A file is opened for each
/// call if it isn't open yet, so bodies and segments in use hold no descriptor between two calls.
#[derive(Debug)]
pub struct FsDisk {
    directory: PathBuf,
    /// The directory, open for its syncs; `None` if it is only read.
    itself: Option<Arc<File>>,
    handles: Handles,
    lent: LentFiles,
    spares: Spares,
    share: FileShare,
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
        let (itself, share) = (Arc::new(File::open(directory)?), FileShare::in_force());
        Ok(Self {
            directory: directory.to_owned(),
            handles: Handles::new(share.handles),
            lent: LentFiles::new(share.lent),
            spares: Spares::new(&itself, share.spares),
            itself: Some(itself),
            share,
            is_read_only: false,
        })
    }

    /// Opens an existing directory read-only; attempts to change it fail.
    #[must_use]
    pub fn open_for_reading(directory: &Path) -> Self {
        let share = FileShare::in_force();
        Self {
            directory: directory.to_owned(),
            handles: Handles::new(share.handles),
            lent: LentFiles::new(share.lent),
            spares: Spares::none(),
            itself: None,
            share,
            is_read_only: true,
        }
    }

    /// Largest number of descriptors that its files have at a time.
    pub(crate) fn descriptors_max(&self) -> usize {
        self.share.total()
    }

    /// Number of these descriptors that are in use now.
    pub(crate) fn descriptors(&self) -> usize {
        self.handles.count() + self.spares.count()
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
        self.handles.file(name, || self.open_file(&path))
    }

    fn open_file(&self, path: &Path) -> io::Result<File> {
        self.with_descriptor(|| OpenOptions::new().read(true).write(!self.is_read_only).open(path))
    }

    /// Calls `open`, for which a descriptor is freed if none is left.
    fn with_descriptor<T>(&self, open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.spares.open(|| self.handles.evict(), open)
    }

    /// Forgets a name after it was removed or given to another file. Before that, a reader could open the old file again.
    fn forget(&self, name: &str) {
        self.handles.forget(name);
        self.lent.forget(name);
    }
}

impl Disk for FsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.with_descriptor(|| std::fs::read_dir(&self.directory))? {
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
        self.forget(name);
        let create = || OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = self.with_descriptor(create)?;
        allocate(&file, length)?;
        self.handles.replace(name, file);
        Ok(())
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
        match &self.itself {
            Some(itself) => itself.sync_all(),
            None => self.with_descriptor(|| File::open(&self.directory))?.sync_all(),
        }
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
        read_up_to(&*self.file(name)?, offset, length)
    }

    fn read_again(&self, name: &str, offset: u64, length: usize, attempt: u32) -> io::Result<Vec<u8>> {
        match attempt {
            0 | 1 => {}
            2 => thread::sleep(AGAIN_PAUSE),
            _ => thread::sleep(AGAIN_PAUSE_MAX),
        }
        let path = self.path(name)?;
        let (kept, generation) = self.handles.look(name);
        let fresh = Arc::new(self.open_file(&path)?);
        if let Some(kept) = kept {
            let (old, new) = (identity(&kept)?, identity(&fresh)?);
            if old != new {
                error!(
                    "{} was open as inode {} of device {}, and its name belongs to inode {} of device {} now: somebody has \
                     replaced the file; it is read by its name from now on",
                    path.display(),
                    old.inode,
                    old.device,
                    new.inode,
                    new.device
                );
                self.handles.correct(name, fresh.clone(), generation);
                self.lent.forget(name);
            }
        }
        leave_page_cache(&fresh, offset, length);
        read_up_to(&fresh, offset, length)
    }

    fn lend(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Arc<dyn Any + Send + Sync>>> {
        let lent = match self.lent.file(name, || self.file(name)) {
            // The bytes can be read instead.
            Err(error) if is_shortage(&error) => None,
            lent => lent?,
        };
        let Some(file) = lent else { return Ok(None) };
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
        let removed = std::fs::remove_file(path);
        self.forget(name);
        removed
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (old, new) = (self.path_to_change(from)?, self.path_to_change(to)?);
        let renamed = std::fs::rename(old, new);
        self.forget(from);
        self.forget(to);
        renamed
    }
}

/// Reads `length` bytes from `offset` on into new memory; fewer at the end of the file.
fn read_up_to(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(length);
    while buffer.len() < length {
        let at = offset + buffer.len() as u64;
        match pread(file, spare_capacity(&mut buffer), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocator may have provided more room than requested.
    buffer.truncate(length);
    Ok(buffer)
}

/// The file that a descriptor or name belongs to.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

fn identity(file: &File) -> io::Result<FileIdentity> {
    let metadata = file.metadata()?;
    Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
}

/// Asks the system to drop its copy of these bytes, so that the next read comes from the device. Pages that weren't written
/// yet stay.
fn leave_page_cache(file: &File, offset: u64, length: usize) {
    let page = rustix::param::page_size() as u64;
    let begin = offset / page * page;
    let end = offset.saturating_add(length as u64).div_ceil(page).saturating_mul(page);
    // Without a length the advice would hold for the rest of the file.
    if let Some(bytes) = NonZeroU64::new(end.saturating_sub(begin)) {
        // It is advice: a file system that doesn't take it reads as it did before.
        let _ = fadvise(file, begin, Some(bytes), Advice::DontNeed);
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
    fn open_files_and_spares_count_as_descriptors_of_the_disk() {
        let (_directory, disk) = disk();
        let spares = disk.descriptors();
        assert!(spares > 0);
        for name in ["a", "b", "a"] {
            disk.create(name, 0).expect("creates");
        }
        assert_eq!(disk.descriptors(), spares + 2);
        for number in 0..disk.descriptors_max() {
            disk.create(&format!("file-{number}"), 0).expect("creates");
        }
        assert!(disk.descriptors() < disk.descriptors_max(), "the oldest are closed");
    }

    #[test]
    fn a_file_replaced_under_its_name_is_noticed_by_a_second_look() {
        let (directory, disk) = disk();
        let path = directory.path().join("new/log/a");
        disk.create("a", 0).expect("creates");
        disk.write_at("a", 0, &[&[1; 10_000]]).expect("writes");
        std::fs::write(path.with_file_name("b"), [2u8; 10_000]).expect("writes");
        std::fs::rename(path.with_file_name("b"), &path).expect("renames");
        assert_eq!(read(&disk, "a", 5_000, 10), [1; 10], "the old file is still open");
        assert_eq!(disk.read_again("a", 5_000, 10, 1).expect("reads"), [2; 10]);
        assert_eq!(read(&disk, "a", 5_000, 10), [2; 10], "the new file is used from then on");
    }

    #[test]
    fn a_second_look_reads_what_the_first_one_read() {
        let (_directory, disk) = disk();
        disk.create("a", 0).expect("creates");
        let content: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
        disk.write_at("a", 0, &[&content]).expect("writes");
        let kept = disk.file("a").expect("is open");
        for (offset, length) in [(0, 20_000), (4_097, 1), (4_000, 200), (19_990, 100), (30_000, 5), (0, 0)] {
            let bytes = disk.read_again("a", offset, length, 1).expect("reads");
            let (begin, end) = (content.len().min(offset as usize), content.len().min(offset as usize + length));
            assert_eq!(bytes, content[begin..end], "{length} bytes at {offset}");
        }
        for attempt in 2..4 {
            assert_eq!(disk.read_again("a", 100, 50, attempt).expect("reads"), content[100..150]);
        }
        assert!(Arc::ptr_eq(&kept, &disk.file("a").expect("is open")), "the same file stays open");
        assert_eq!(disk.read_again("b", 0, 1, 1).expect_err("isn't there").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_made_again_under_its_name_is_not_lent_as_the_old_one() {
        let (_directory, disk) = disk();
        let make = |content: &[u8]| {
            disk.create("a", 0).expect("creates");
            disk.write_at("a", 0, &[content]).expect("writes");
        };
        let lend = || {
            let lent = disk.lend("a", 0, 3).expect("reads").expect("is lent");
            let mut bytes = [0; 3];
            let file = lent.downcast::<File>().expect("a file");
            file.read_exact_at(&mut bytes, 0).expect("reads");
            (file, bytes)
        };
        make(b"old");
        let old = lend();
        disk.remove("a").expect("removes");
        make(b"new");
        assert_eq!((old.1, lend().1), (*b"old", *b"new"));
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
