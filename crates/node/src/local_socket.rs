use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The directory in the data directory that only its owner may enter.
const DIRECTORY: &str = "control";

/// The socket's name in it.
const SOCKET: &str = "socket";

/// The longest path that an address of a Unix socket holds (unix(7)), without the terminating zero.
const PATH_BYTES_MAX: usize = 107;

/// The socket through which commands on this machine reach the node: `control/socket` in the data directory. Only the
/// user that the node runs as, or root, can open it; no password is needed. It is removed when this is dropped.
#[derive(Debug)]
pub struct LocalSocket {
    path: PathBuf,
}

/// Why there is no local socket.
#[derive(Debug, thiserror::Error)]
pub enum LocalSocketError {
    /// The path is too long for the system.
    #[error(
        "the path of the local socket has {bytes} bytes, and the system takes {PATH_BYTES_MAX}: {path}. Start the node with \
         a shorter --data-dir, such as a relative one"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The directory or the socket can't be created.
    #[error("cannot make the local socket {path}: {source}")]
    Unusable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl LocalSocket {
    /// Opens the socket, replacing one that a killed node has left.
    ///
    /// # Errors
    /// Its path is too long, or it can't be created.
    pub(crate) fn open(data_directory: &Path) -> Result<(Self, UnixListener), LocalSocketError> {
        let directory = data_directory.join(DIRECTORY);
        let path = directory.join(SOCKET);
        let bytes = path.as_os_str().len();
        if bytes > PATH_BYTES_MAX {
            return Err(LocalSocketError::TooLong { path, bytes });
        }
        match listen(&directory, &path) {
            Ok(listener) => Ok((Self { path }, listener)),
            Err(source) => Err(LocalSocketError::Unusable { path, source }),
        }
    }
}

/// Creates the socket. The directory is closed to others before the socket is in it, so there is no moment at which
/// they may enter.
fn listen(directory: &Path, path: &Path) -> io::Result<UnixListener> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    std::fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // A socket that is left behind is replaced at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).expect("is there").permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_enter_and_drop_removes_the_socket() {
        let parent = tempfile::tempdir().expect("a directory");
        // An existing directory may be open to all, and have a socket of a killed node.
        let directory = parent.path().join(DIRECTORY);
        std::fs::create_dir(&directory).expect("is made");
        std::fs::set_permissions(&directory, Permissions::from_mode(0o777)).expect("is opened");
        drop(UnixListener::bind(directory.join(SOCKET)).expect("is made"));
        let (socket, _listener) = LocalSocket::open(parent.path()).expect("opens");
        assert_eq!((mode(&directory), mode(&socket.path)), (0o700, 0o600));
        let path = socket.path.clone();
        UnixStream::connect(&path).expect("somebody listens");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_told() {
        let parent = tempfile::tempdir().expect("a directory");
        let refused = LocalSocket::open(&parent.path().join("a".repeat(120))).expect_err("too long").to_string();
        assert!(refused.contains("and the system takes 107: "), "{refused}");
    }
}
