//! A file system of a few MiB in memory, mounted for one test, and a file that fills it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::not_run::not_run;

/// Name of the file that fills the disk.
const BALLAST: &str = "ballast-of-the-test";

/// A disk mounted on a directory until dropped.
#[derive(Debug)]
pub struct SmallDisk {
    directory: PathBuf,
}

impl SmallDisk {
    /// Mounts it. Returns `None` if that isn't possible (it takes root); the test then says so and does nothing.
    pub fn mount(directory: &Path, bytes: u64) -> Option<Self> {
        let options = format!("size={bytes},mode=0755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { directory: directory.to_owned() }),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                not_run(&format!("no file system can be mounted: {}", why.trim()));
                None
            }
            Err(error) => {
                not_run(&format!("mount can't be run: {error}"));
                None
            }
        }
    }

    /// Fills the disk except for about this many bytes.
    ///
    /// # Panics
    /// On any error other than missing space.
    pub fn fill(&self, but: u64) {
        let mut ballast = self.open();
        let free = self.free_bytes();
        if free < but {
            let length = ballast.metadata().expect("the ballast").len();
            return ballast.set_len(length.saturating_sub(but - free)).expect("the ballast shrinks");
        }
        // Never more than that, even temporarily: a node checking at that moment would find no space at all.
        let piece = vec![0xba; 1 << 20];
        loop {
            let more = self.free_bytes().saturating_sub(but).min(piece.len() as u64);
            match ballast.write(&piece[..more as usize]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("the ballast: {error}"),
            }
        }
    }

    /// Frees the space again.
    ///
    /// # Panics
    /// When the file can't be removed.
    pub fn empty(&self) {
        fs::remove_file(self.directory.join(BALLAST)).expect("the ballast goes");
    }

    /// Free bytes.
    ///
    /// # Panics
    /// If the system doesn't provide it.
    pub fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.directory).expect("is mounted");
        found.f_bavail * found.f_frsize
    }

    fn open(&self) -> File {
        let path = self.directory.join(BALLAST);
        OpenOptions::new().create(true).append(true).open(path).expect("the ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that was just killed may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}
