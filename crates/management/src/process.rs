//! The system's figures about this process.

use std::path::Path;

/// Resident memory in bytes; 0 if /proc doesn't provide it.
pub(crate) fn resident_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: Option<u64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Number of open descriptors; 0 if /proc doesn't provide it.
pub(crate) fn open_descriptors() -> u64 {
    // Reading the directory takes a descriptor of its own.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| (entries.count() as u64).saturating_sub(1))
}

/// Free disk space in bytes on the volume of `directory`; 0 if unknown.
pub(crate) fn disk_free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Number of voluntary and involuntary context switches; 0 if /proc doesn't provide it.
pub(crate) fn context_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_provides_the_figures() {
        assert!(resident_memory_bytes() > 100_000);
        assert!(open_descriptors() >= 3);
        assert!(disk_free_bytes(Path::new("/")) > 0);
    }
}
