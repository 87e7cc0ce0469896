//! The secret of a cluster, `.erlang.cookie` in the home of the node's user. A node alone has no use for it; it is kept so
//! that tools and scripts that look for the file find it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: &str = ".erlang.cookie";

/// Writes the secret, for its owner alone.
///
/// # Errors
/// The system's error.
pub(crate) fn write(home: &Path, secret: &str) -> io::Result<()> {
    let path = home.join(FILE);
    if fs::read_to_string(&path).is_ok_and(|known| known.trim_end() == secret) {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    // An existing file keeps its mode when it is opened.
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    file.write_all(secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_for_its_owner_alone_and_is_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(FILE);
        fs::write(&path, "old").expect("is written");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("is set");
        write(home.path(), "new").expect("is written");
        let mode = fs::metadata(&path).expect("is there").permissions().mode() & 0o777;
        assert_eq!((fs::read_to_string(&path).expect("is there").as_str(), mode), ("new", 0o600));
        fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("is set");
        write(home.path(), "new").expect("is the same");
    }
}
