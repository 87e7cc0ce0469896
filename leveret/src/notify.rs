//! Notifications to systemd from a unit with `Type=notify` (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Notifies the service manager, if there is one: `READY=1` when clients may connect, `STOPPING=1` when they no longer
/// may.
pub(crate) fn manager(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(reason) = send(&socket, state) {
        warn!("cannot tell the service manager {state}: {reason}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    // An at sign stands for the zero byte of an abstract address.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut text = [0; 64];
        let count = socket.recv(&mut text).expect("a datagram");
        String::from_utf8_lossy(&text[..count]).into_owned()
    }

    #[test]
    fn sockets_have_paths_or_abstract_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("binds");
        send(path.as_os_str(), "READY=1").expect("is sent");
        assert_eq!(received(&socket), "READY=1");

        let name = format!("leveret-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("binds");
        send(OsStr::new(&format!("@{name}")), "STOPPING=1").expect("is sent");
        assert_eq!(received(&socket), "STOPPING=1");
        assert!(send(OsStr::new("/no/such/socket"), "READY=1").is_err());
    }
}
