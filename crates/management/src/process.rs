//! What the system says of this process.

use std::path::Path;

/// Bytes of resident memory; 0 where /proc doesn't say.
pub(crate) fn resident_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: Option<u64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// How many descriptors are open; 0 where /proc doesn't say.
pub(crate) fn open_descriptors() -> u64 {
    // The directory that is being read has one of its own.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| (entries.count() as u64).saturating_sub(1))
}

/// Bytes that we may still write where `directory` lies; 0 if it can't be asked.
pub(crate) fn disk_free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// How often this process gave up a processor, willingly or not; 0 where /proc doesn't say.
pub(crate) fn context_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        assert!(resident_memory_bytes() > 100_000);
        assert!(open_descriptors() >= 3);
        assert!(disk_free_bytes(Path::new("/")) > 0);
    }
}
