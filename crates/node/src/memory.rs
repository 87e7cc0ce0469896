//! Memory: what the process has, and what it may use.

use std::path::{Path, PathBuf};

const CGROUPS: &str = "/sys/fs/cgroup";

/// Has the kernel give this process no huge pages, whatever the system's setting is.
///
/// With them an idle node has twice the memory: each of a few kilobytes in a place of its own takes 2 MiB. And what was
/// given back in pieces is filled up again behind the allocator's back, by khugepaged. See docs/performance.md.
pub fn refuse_huge_pages() {
    // A kernel that was built without them has none to give.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Bytes of resident memory of this process; `None` where /proc doesn't say.
pub(crate) fn resident_bytes() -> Option<u64> {
    // Resident pages are the second number (proc_pid_statm(5)).
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes of memory that this process may use: the machine's, or less where its cgroup or one above it says so.
pub(crate) fn total_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = system.totalram as u64 * u64::from(system.mem_unit);
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroup_limit(&own, Path::new(CGROUPS)).map_or(machine, |limit| limit.min(machine))
}

/// The least limit of the memory cgroups that `own`, in the form of /proc/self/cgroup, names.
fn cgroup_limit(own: &str, root: &Path) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in own.lines() {
        // `hierarchy:controllers:path`; version 2 has one hierarchy, 0, without names of controllers.
        let mut parts = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (base, file) = match (hierarchy, controllers) {
            ("0", "") => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut folder: PathBuf = base.join(path.trim_start_matches('/'));
        while folder.starts_with(&base) {
            // No limit is the word `max`, or a number that is larger than any memory.
            let limit = std::fs::read_to_string(folder.join(file)).ok().and_then(|text| text.trim().parse().ok());
            least = least.into_iter().chain(limit).min();
            if !folder.pop() {
                break;
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_refused() {
        refuse_huge_pages();
        // Without the answer the kernel has none.
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(true));
    }

    #[test]
    fn the_system_answers() {
        assert!(resident_bytes().expect("is known") > 100_000);
        assert!(total_bytes() > 1 << 20);
    }

    #[test]
    fn the_least_limit_on_the_way_to_the_root_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let inner = root.path().join("outer/inner");
        std::fs::create_dir_all(&inner).expect("is made");
        std::fs::write(inner.join("memory.max"), "max\n").expect("is written");
        std::fs::write(root.path().join("outer/memory.max"), "1000000\n").expect("is written");
        assert_eq!(cgroup_limit("0::/outer/inner\n", root.path()), Some(1_000_000));
        std::fs::write(inner.join("memory.max"), "5000\n").expect("is written");
        assert_eq!(cgroup_limit("0::/outer/inner\n", root.path()), Some(5_000));
        assert_eq!(cgroup_limit("0::/elsewhere\n", root.path()), None);
    }

    #[test]
    fn the_older_hierarchies_are_understood() {
        let root = tempfile::tempdir().expect("a directory");
        let folder = root.path().join("memory/box");
        std::fs::create_dir_all(&folder).expect("is made");
        std::fs::write(folder.join("memory.limit_in_bytes"), "2000\n").expect("is written");
        let own = "5:cpu,cpuacct:/box\n4:memory:/box\n";
        assert_eq!(cgroup_limit(own, root.path()), Some(2_000));
    }
}
