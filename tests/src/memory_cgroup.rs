//! A memory cgroup for one process, for a node that gets little more memory than it is configured to use.

use std::fs;
use std::path::{Path, PathBuf};

const VERSION_1: &str = "/sys/fs/cgroup/memory";
const VERSION_2: &str = "/sys/fs/cgroup";

/// Removed when dropped, which must be after its process has ended.
#[derive(Debug)]
pub struct MemoryCgroup {
    directory: PathBuf,
    /// The file with its peak usage.
    peak: PathBuf,
}

impl MemoryCgroup {
    /// Creates one with this limit and puts the process in it. `None` if that isn't possible (it takes root), which
    /// the test then reports.
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

    /// Its peak usage in bytes, including file pages.
    pub fn bytes_max(&self) -> Option<u64> {
        fs::read_to_string(&self.peak).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}
