//! The storage of the data folder, by the mounts of this process (proc_pid_mountinfo(5)).
//!
//! A volume that is mounted beside the data folder instead of above it stays empty, and the data is gone with the
//! container. Nothing fails until then, so the start says so.

use std::path::{Path, PathBuf};

/// File systems whose content ends with the container or the machine.
const PASSING: [&str; 5] = ["tmpfs", "ramfs", "overlay", "aufs", "fuse.fuse-overlayfs"];

/// A part of the path under which Kubernetes keeps an emptyDir. Its content ends with the pod.
const EMPTY_DIR: &str = "/kubernetes.io~empty-dir/";

/// File systems that hold no files of a user.
const OF_THE_SYSTEM: [&str; 11] =
    ["proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs", "debugfs", "tracefs", "securityfs", "bpf"];

/// A mounted file system.
#[derive(Debug)]
struct Mount {
    /// The path of the mounted folder in its file system.
    root: String,
    point: PathBuf,
    kind: String,
    is_writable: bool,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Mount {
            root: unescaped(root),
            point: unescaped(point).into(),
            kind: after.split(' ').next()?.to_owned(),
            is_writable: options.split(',').any(|option| option == "rw"),
        })
    }

    /// The event that ends this storage; `None` if it lasts.
    fn end(&self) -> Option<&'static str> {
        match () {
            () if self.root.contains(EMPTY_DIR) => Some("an emptyDir, which is deleted with its pod"),
            () if self.kind == "tmpfs" || self.kind == "ramfs" => Some("a file system in memory"),
            () if PASSING.contains(&&*self.kind) => Some("the container's own file system, which is deleted with it"),
            () => None,
        }
    }

    /// Whether an operator could have meant this mount for the data.
    fn is_volume(&self) -> bool {
        self.is_writable
            && self.end().is_none()
            && !OF_THE_SYSTEM.contains(&&*self.kind)
            && self.point != Path::new("/")
    }
}

/// The warning about a data folder on storage that doesn't last; `None` if it lasts.
///
/// `mounts` is the text of `/proc/self/mountinfo`, `is_empty` whether a path is a folder without files.
fn warning(data_folder: &Path, mounts: &str, is_empty: impl Fn(&Path) -> bool) -> Option<String> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    // Of mounts at one place the last one hides the others.
    let above = mounts.iter().filter(|mount| data_folder.starts_with(&mount.point));
    let end = above.max_by_key(|mount| mount.point.components().count())?.end()?;
    let unused: Vec<String> = mounts
        .iter()
        .filter(|mount| mount.is_volume() && is_empty(&mount.point))
        .map(|mount| mount.point.display().to_string())
        .collect();
    let what = format!("WILL LOSE DATA: the data folder {} is on {end}", data_folder.display());
    Some(match unused.as_slice() {
        [] => format!("{what}. Mount a volume at {}, or set RABBITMQ_MNESIA_BASE to a folder on one", super::HOME),
        _ => format!(
            "{what}, while the volume at {} is empty. Mount it at {}, or set RABBITMQ_MNESIA_BASE to a folder on it",
            unused.join(", "),
            super::HOME
        ),
    })
}

/// [`warning`] for the mounts of this process.
pub(crate) fn warning_of(data_folder: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    warning(&resolved(data_folder), &mounts, is_empty_folder)
}

/// The path without links, also of a folder that isn't there yet.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
    found.map_or_else(|| path.clone(), |(above, rest)| above.join(rest))
}

/// Whether a path is a folder without files; a new file system on a disk of its own has `lost+found`.
fn is_empty_folder(path: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(path) else { return false };
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lost+found"))
}

/// A path as the kernel writes it: blanks and backslashes are octal numbers behind a backslash.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match number {
            Some(byte) => plain.extend([char::from(byte)].into_iter().chain(part[3..].chars())),
            None => plain.push_str(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTAINER: &str = "\
        600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l\n\
        601 600 0:51 / /proc rw - proc proc rw\n\
        602 600 0:52 / /dev rw - tmpfs tmpfs rw\n\
        603 600 8:1 /c/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n";

    fn of(more: &str, empty: &[&str]) -> Option<String> {
        let mounts = format!("{CONTAINER}{more}");
        warning(Path::new("/var/lib/rabbitmq/mnesia/leveret"), &mounts, |path| {
            empty.iter().any(|one| Path::new(one) == path)
        })
    }

    #[test]
    fn a_volume_above_the_data_gives_no_warning() {
        assert_eq!(of("604 600 8:1 /v /var/lib/rabbitmq rw - ext4 /dev/sda1 rw\n", &[]), None);
        assert_eq!(
            of("604 600 8:1 /v /var/lib/rabbitmq/mnesia rw - xfs /dev/sdb rw\n", &["/var/lib/rabbitmq/mnesia"]),
            None
        );
        assert_eq!(of("604 600 0:60 / /var/lib/rabbitmq rw - nfs4 host:/v rw\n", &[]), None);
    }

    #[test]
    fn a_folder_of_the_container_itself_is_warned_of() {
        let told = of("", &[]).expect("a warning");
        assert!(told.contains("the container's own file system") && told.contains("Mount a volume at"), "{told}");
        let told = of("604 600 0:70 / /var/lib/rabbitmq rw - tmpfs tmpfs rw\n", &[]).expect("a warning");
        assert!(told.contains("a file system in memory"), "{told}");
    }

    #[test]
    fn an_empty_dir_beside_an_empty_claim_names_the_claim() {
        let pod = "604 600 8:1 /kubelet/pods/u/volumes/kubernetes.io~empty-dir/cookie /var/lib/rabbitmq rw - ext4 /dev/sda1 rw\n\
                   605 600 8:16 / /bitnami/rabbit\\040mq rw - ext4 /dev/sdb rw\n\
                   606 600 8:16 / /full rw - ext4 /dev/sdb rw\n\
                   607 600 8:16 / /read-only ro - ext4 /dev/sdb rw\n";
        let told = of(pod, &["/bitnami/rabbit mq", "/read-only", "/proc", "/dev"]).expect("a warning");
        assert!(told.contains("an emptyDir, which is deleted with its pod"), "{told}");
        assert!(told.contains("the volume at /bitnami/rabbit mq is empty"), "{told}");
        let claim = format!("{pod}608 604 8:32 / /var/lib/rabbitmq/mnesia rw - ext4 /dev/sdc rw\n");
        assert_eq!(of(&claim, &["/bitnami/rabbit mq"]), None, "the operator's claim is above the data");
    }

    #[test]
    fn an_empty_folder_may_have_lost_and_found() {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(folder.path().join("lost+found")).expect("is made");
        assert!(is_empty_folder(folder.path()));
        std::fs::write(folder.path().join("file"), "").expect("is written");
        assert!(!is_empty_folder(folder.path()) && !is_empty_folder(&folder.path().join("file")));
        let below = folder.path().join("new/data");
        assert_eq!(resolved(&below), folder.path().canonicalize().expect("is there").join("new/data"));
    }
}
