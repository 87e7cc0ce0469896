//! Memory: the process's own, and its limit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Turns off huge pages for this process, whatever the system's setting is.
///
/// With them an idle node uses twice the memory: each separate area of a few kilobytes takes 2 MiB. Memory that was
/// returned in pieces is also filled up again by khugepaged, unnoticed by the allocator. See docs/performance.md.
pub fn refuse_huge_pages() {
    // A kernel built without huge pages fails here, and has none to turn off.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// The process's numbers of pages (proc_pid_statm(5)). It stays open: without a descriptor for it, nobody would notice that
/// memory runs out.
static STATM: OnceLock<File> = OnceLock::new();

/// Bytes of resident memory of this process; `None` if /proc doesn't provide it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let statm = match STATM.get() {
        Some(statm) => statm,
        None => {
            let opened = File::open("/proc/self/statm").ok()?;
            STATM.get_or_init(|| opened)
        }
    };
    let mut text = [0; 256];
    let length = statm.read_at(&mut text, 0).ok()?;
    // Resident pages are the second number.
    let pages: u64 = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes of memory that this process may use: the machine's, or the limit of its cgroup or a parent of it if that is
/// less.
#[must_use]
pub fn allowed_memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = system.totalram as u64 * u64::from(system.mem_unit);
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroup_limit(&own, Path::new(CGROUPS)).map_or(machine, |limit| limit.min(machine))
}

/// The smallest limit of the memory cgroups that `own`, in the form of /proc/self/cgroup, names.
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
            // No limit is given as the word `max`, or as a number larger than any memory.
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
        // A kernel that doesn't answer has no huge pages.
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(true));
    }

    #[test]
    fn the_system_answers() {
        let before = resident_bytes().expect("is known");
        assert!(before > 100_000);
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(resident_bytes().expect("is known") > before + (touched.len() as u64) / 2, "it is measured each time");
        assert!(allowed_memory_bytes() > 1 << 20);
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
