//! A memory cgroup for one process: what happens to a node that is given little more memory than it was told to use.

use std::fs;
use std::path::{Path, PathBuf};

const VERSION_1: &str = "/sys/fs/cgroup/memory";
const VERSION_2: &str = "/sys/fs/cgroup";

/// Goes when it is dropped, which must be after its process has ended.
#[derive(Debug)]
pub struct MemoryCgroup {
    directory: PathBuf,
    /// The file of the most that it ever used.
    peak: PathBuf,
}

impl MemoryCgroup {
    /// Makes one of so many bytes and puts the process in. None where that isn't possible, which takes root: the test
    /// then says so.
    pub fn limit(pid: u32, bytes: u64) -> Option<Self> {
        let name = format!("leveret-test-{pid}");
        let (directory, limit, peak) = if Path::new(VERSION_1).is_dir() {
            (Path::new(VERSION_1).join(name), "memory.limit_in_bytes", "memory.max_usage_in_bytes")
        } else {
            (Path::new(VERSION_2).join(name), "memory.max", "memory.peak")
        };
        let made = fs::create_dir(&directory)
            .and_then(|()| fs::write(directory.join(limit), bytes.to_string()))
            .and_then(|()| fs::write(directory.join("cgroup.procs"), pid.to_string()));
        if let Err(error) = made {
            eprintln!("without a memory cgroup: {}: {error}", directory.display());
            let _ = fs::remove_dir(&directory);
            return None;
        }
        let peak = directory.join(peak);
        Some(Self { directory, peak })
    }

    /// The most that it ever used, in bytes, pages of files included.
    pub fn bytes_max(&self) -> Option<u64> {
        fs::read_to_string(&self.peak).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}
