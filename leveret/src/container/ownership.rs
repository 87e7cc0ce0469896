//! The files of a volume for the user of the node.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

/// The user and the group `rabbitmq`, as in the image "rabbitmq".
pub(crate) const USER: u32 = 999;
pub(crate) const GROUP: u32 = 999;

/// Gives a folder and all that is in it to the node's user. What belongs to it already isn't touched, links aren't
/// followed. A group that may write stays, since OpenShift and `fsGroup` choose it.
///
/// # Errors
/// The first error, after the rest was done. Some file systems, such as CIFS, have no owners.
pub(crate) fn hand_over(path: &Path) -> io::Result<()> {
    give(path, USER, Some(GROUP))
}

fn give(path: &Path, user: u32, group: Option<u32>) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let mut outcome = match found.uid() == user {
        true => Ok(()),
        false => lchown(path, Some(user), group.filter(|_| found.mode() & 0o020 == 0)),
    };
    if found.is_dir() {
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries {
                    let done = entry.and_then(|entry| match give(&entry.path(), user, group) {
                        // A file that a running process has just removed.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                        done => done,
                    });
                    outcome = outcome.and(done);
                }
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_of_others_are_given_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a directory");
        let outside = tempfile::NamedTempFile::new().expect("a file");
        fs::create_dir(folder.path().join("store")).expect("is made");
        fs::write(folder.path().join("store/wal"), "").expect("is written");
        symlink(outside.path(), folder.path().join("link")).expect("is made");
        let own = fs::metadata(folder.path()).expect("is there").uid();
        give(folder.path(), own, None).expect("nothing is to be done");
        let given = give(folder.path(), own + 1, None);
        if own != 0 {
            // Only root may give files away.
            assert_eq!(given.expect_err("isn't allowed").kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        given.expect("root may");
        let owner = |name: &str| fs::symlink_metadata(folder.path().join(name)).expect("is there").uid();
        assert_eq!((owner("store"), owner("store/wal"), owner("link")), (1, 1, 1));
        assert_eq!(fs::metadata(outside.path()).expect("is there").uid(), 0);
    }
}
