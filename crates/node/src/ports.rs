use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::listener_kind::ListenerKind;

/// The file's name before it is complete.
const FRESH: &str = "ports.json.new";

/// A socket that clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// Its kind.
    pub kind: &'static ListenerKind,
    /// The address it listens on.
    pub address: SocketAddr,
}

impl Listening {
    /// The address in RabbitMQ's form: IPv6 in brackets.
    #[must_use]
    pub fn interface(&self) -> String {
        match self.address.ip() {
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        }
    }
}

/// The ports that the node listens on, as written to `ports.json` in its data directory once it accepts connections. A
/// clean stop removes the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports(Vec<(&'static ListenerKind, u16)>);

impl Ports {
    /// The ports of these listeners: of each kind that of the first.
    pub fn of(listening: impl IntoIterator<Item = Listening>) -> Self {
        let mut ports = Self::default();
        for Listening { kind, address } in listening {
            if ports.get(kind).is_none() {
                ports.0.push((kind, address.port()));
            }
        }
        ports
    }

    /// The port of this kind of listener, if one is open.
    #[must_use]
    pub fn get(&self, kind: &ListenerKind) -> Option<u16> {
        self.0.iter().find(|(open, _)| *open == kind).map(|(_, port)| *port)
    }

    /// The open ports, each with its kind.
    pub fn all(&self) -> impl Iterator<Item = (&'static ListenerKind, u16)> {
        self.0.iter().copied()
    }
}

/// `ports.json` on disk, removed when dropped.
#[derive(Debug)]
pub(crate) struct PortsFile {
    path: PathBuf,
}

impl PortsFile {
    /// Removes the file of a killed node, so that it isn't mistaken for this node's.
    pub(crate) fn remove_stale(directory: &Path) -> io::Result<()> {
        match std::fs::remove_file(directory.join("ports.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Allocates the space that [`PortsFile::write`] needs, before a start on a full disk gives it to other files. If
    /// that fails, the space may still be free later.
    pub(crate) fn reserve(directory: &Path) {
        let _ = std::fs::write(directory.join(FRESH), [b' '; 4096]);
    }

    /// Writes the file atomically: readers see all of it or nothing.
    pub(crate) fn write(directory: &Path, ports: &Ports) -> io::Result<Self> {
        let path = directory.join("ports.json");
        let fresh = directory.join(FRESH);
        let mut text = serde_json::Map::new();
        for (kind, port) in ports.all() {
            text.insert(kind.port_name.to_owned(), port.into());
        }
        text.insert("pid".to_owned(), std::process::id().into());
        let text = format!("{}\n", serde_json::Value::Object(text));
        // It isn't truncated before it is written: on a full disk its space would be lost.
        let mut file = File::options().write(true).create(true).truncate(false).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        drop(file);
        std::fs::rename(&fresh, &path)?;
        Ok(Self { path })
    }
}

impl Drop for PortsFile {
    fn drop(&mut self) {
        // A file that is left behind is replaced at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener_kind::{AMQP, HTTP, PROMETHEUS};

    fn ports(open: &[(&'static ListenerKind, u16)]) -> Ports {
        Ports::of(
            open.iter().map(|(kind, port)| Listening { kind, address: SocketAddr::from(([127, 0, 0, 1], *port)) }),
        )
    }

    #[test]
    fn of_several_listeners_of_a_kind_the_first_one_counts() {
        let ports = ports(&[(&AMQP, 1), (&HTTP, 2), (&AMQP, 3)]);
        assert_eq!([&AMQP, &HTTP, &PROMETHEUS].map(|kind| ports.get(kind)), [Some(1), Some(2), None]);
    }

    #[test]
    fn the_file_names_ports_and_process_and_goes_when_dropped() {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = ports(&[(&AMQP, 5672), (&HTTP, 15672), (&PROMETHEUS, 15692)]);
        let file = PortsFile::write(directory.path(), &ports).expect("writes");
        let text = std::fs::read_to_string(directory.path().join("ports.json")).expect("is there");
        let read: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
        let expected = serde_json::json!({"amqp": 5672, "http": 15672, "prometheus": 15692, "pid": std::process::id()});
        assert_eq!(read, expected);
        drop(file);
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn a_port_that_is_not_open_is_not_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let _file = PortsFile::write(directory.path(), &ports(&[(&AMQP, 1)])).expect("writes");
        let text = std::fs::read_to_string(directory.path().join("ports.json")).expect("is there");
        assert!(!text.contains("http") && text.contains("\"amqp\":1"), "{text}");
    }

    #[test]
    fn a_killed_nodes_file_is_removed_and_its_absence_is_no_error() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ports.json"), "{}").expect("writes");
        PortsFile::remove_stale(directory.path()).expect("removes");
        PortsFile::remove_stale(directory.path()).expect("nothing to do");
        assert!(!directory.path().join("ports.json").exists());
    }
}
