//! The data folder of a node in the image.
//!
//! A container gets a new host name each time it is replaced, so the folder's name doesn't have the host in it, as
//! RabbitMQ's has. A folder with another name is used if an earlier start made it: a node that starts beside its own
//! data comes up empty.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The name of the data folder, below the base and of the packages below the home.
const NAME: &str = "leveret";

/// A file that every data folder of ours has once its node has started.
const IDENTITY: &str = "store/identity";

/// Names in a data folder of RabbitMQ. One of them suffices.
const OF_RABBITMQ: [&str; 5] = ["coordination", "msg_stores", "quorum", "cluster_nodes.config", "schema.DAT"];

/// The data folder, and remarks for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DataFolder {
    pub(crate) path: PathBuf,
    pub(crate) remarks: Vec<String>,
}

/// Finds the data folder: `leveret` in `base`, else the folder of an earlier start in `base` or `home`, else a new one.
///
/// `base` is `RABBITMQ_MNESIA_BASE`. `home` is the home of the node's user, in which packages keep their folder.
pub(crate) fn find(home: &Path, base: &Path) -> DataFolder {
    let fixed = base.join(NAME);
    let below = folders_in(base);
    let mut remarks: Vec<String> =
        below.iter().filter(|folder| is_of_rabbitmq(folder)).map(|f| of_rabbitmq(f)).collect();
    let mut ours: Vec<PathBuf> = below.into_iter().chain([home.join(NAME)]).filter(|folder| is_ours(folder)).collect();
    ours.sort_by_key(|folder| (*folder == fixed, last_use(folder)));
    ours.dedup();
    let path = ours.pop().unwrap_or_else(|| fixed.clone());
    if path != fixed {
        remarks.push(format!("the data is in {}, where an earlier start put it", path.display()));
    }
    remarks.extend(ours.iter().map(|other| {
        format!(
            "{} has the data of another node, or of an earlier start. It isn't read, since {} is used; to use it, set \
             RABBITMQ_MNESIA_DIR to it",
            other.display(),
            path.display()
        )
    }));
    DataFolder { path, remarks }
}

/// The folders in a folder, by name; none if it can't be read.
fn folders_in(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Whether a folder has data of ours. A folder that can't be entered counts, if it has our name or that of a node: to begin
/// beside it would be worse than the error of the attempt to use it.
fn is_ours(folder: &Path) -> bool {
    match folder.join(IDENTITY).try_exists() {
        Ok(has_identity) => has_identity,
        Err(_) => folder.file_name().is_some_and(|name| name == NAME || name.as_encoded_bytes().contains(&b'@')),
    }
}

fn is_of_rabbitmq(folder: &Path) -> bool {
    OF_RABBITMQ.iter().any(|name| folder.join(name).exists()) && !is_ours(folder)
}

fn of_rabbitmq(folder: &Path) -> String {
    format!(
        "{} has data of RabbitMQ, which isn't read and stays as it is; move queues and users with \
         'rabbitmqctl export_definitions' and 'import_definitions'",
        folder.display()
    )
}

/// The last start on a folder, by the file that each start writes.
fn last_use(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join("lock")).and_then(|lock| lock.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;
    use tempfile::TempDir;

    struct Volume(TempDir);

    impl Volume {
        fn new() -> Self {
            let volume = Self(tempfile::tempdir().expect("a directory"));
            fs::create_dir(volume.path("mnesia")).expect("is made");
            volume
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// A folder of ours that was last used this many seconds ago.
        fn node(&self, name: &str, seconds_ago: u64) {
            fs::create_dir_all(self.path(name).join("store")).expect("is made");
            fs::write(self.path(name).join(IDENTITY), "").expect("is written");
            let lock = File::create(self.path(name).join("lock")).expect("is made");
            lock.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago)).expect("is set");
        }

        fn find(&self) -> (PathBuf, Vec<String>) {
            let found = find(self.0.path(), &self.path("mnesia"));
            (found.path, found.remarks)
        }
    }

    #[test]
    fn a_new_volume_gets_the_fixed_name_without_a_remark() {
        let volume = Volume::new();
        assert_eq!(volume.find(), (volume.path("mnesia/leveret"), Vec::new()));
        fs::remove_dir(volume.path("mnesia")).expect("is removed");
        assert_eq!(volume.find(), (volume.path("mnesia/leveret"), Vec::new()));
    }

    #[test]
    fn a_folder_named_by_an_earlier_host_is_found() {
        let volume = Volume::new();
        volume.node("mnesia/rabbit@old-host", 60);
        let (path, remarks) = volume.find();
        assert_eq!(path, volume.path("mnesia/rabbit@old-host"));
        assert!(remarks.len() == 1 && remarks[0].contains("an earlier start"), "{remarks:?}");
    }

    #[test]
    fn a_folder_made_by_a_package_is_found() {
        let volume = Volume::new();
        volume.node("leveret", 60);
        assert_eq!(volume.find().0, volume.path("leveret"));
    }

    #[test]
    fn of_several_folders_the_fixed_name_wins_else_the_last_use() {
        let volume = Volume::new();
        volume.node("leveret", 30);
        volume.node("mnesia/rabbit@a", 10);
        volume.node("mnesia/rabbit@b", 20);
        let (path, remarks) = volume.find();
        assert_eq!(path, volume.path("mnesia/rabbit@a"));
        let others = remarks.iter().filter(|remark| remark.contains("It isn't read")).count();
        assert_eq!(others, 2, "{remarks:?}");
        volume.node("mnesia/leveret", 99);
        let (path, remarks) = volume.find();
        assert_eq!(path, volume.path("mnesia/leveret"));
        assert_eq!(remarks.len(), 3, "{remarks:?}");
    }

    #[test]
    fn data_of_rabbitmq_is_named_and_not_used() {
        let volume = Volume::new();
        fs::create_dir_all(volume.path("mnesia/rabbit@host/msg_stores")).expect("is made");
        fs::create_dir_all(volume.path("mnesia/rabbit@host-plugins-expand")).expect("is made");
        let (path, remarks) = volume.find();
        assert_eq!(path, volume.path("mnesia/leveret"));
        assert!(remarks.len() == 1 && remarks[0].contains("rabbit@host has data of RabbitMQ"), "{remarks:?}");
    }

    #[test]
    fn a_folder_that_a_start_left_before_its_first_data_is_not_ours() {
        let volume = Volume::new();
        fs::create_dir_all(volume.path("mnesia/rabbit@host")).expect("is made");
        File::create(volume.path("mnesia/rabbit@host/lock")).expect("is made");
        assert_eq!(volume.find(), (volume.path("mnesia/leveret"), Vec::new()));
    }
}
