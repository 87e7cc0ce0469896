use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The file's name before it is complete.
const FRESH: &str = "ports.json.new";

/// A kind of listener.
struct Kind {
    /// Its name in RabbitMQ's tools.
    protocol: &'static str,
    /// Its purpose in the words of these tools. Where RabbitMQ has none, it is the name, as there.
    purpose: &'static str,
    has_tls: bool,
    /// Whether it serves clients that publish and consume: maintenance closes it.
    is_for_clients: bool,
}

/// All kinds of listeners: what is said of a listener anywhere is read here.
const KINDS: [Kind; 8] = [
    kind("amqp", "AMQP 0-9-1 and AMQP 1.0", false, true),
    kind("amqp/ssl", "AMQP 0-9-1 and AMQP 1.0 over TLS", true, true),
    kind("stream", "stream", false, true),
    kind("stream/ssl", "stream/ssl", true, true),
    kind("http", "HTTP API", false, false),
    kind("https", "HTTP API over TLS (HTTPS)", true, false),
    kind("http/prometheus", "Prometheus exporter API over HTTP", false, false),
    kind("https/prometheus", "Prometheus exporter API over TLS (HTTPS)", true, false),
];

const fn kind(protocol: &'static str, purpose: &'static str, has_tls: bool, is_for_clients: bool) -> Kind {
    Kind { protocol, purpose, has_tls, is_for_clients }
}

/// A socket that clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// The protocol, by its name in RabbitMQ's tools: `amqp`, `amqp/ssl`, `stream`, `stream/ssl`, `http`, `https`, `http/prometheus` or
    /// `https/prometheus`.
    pub protocol: &'static str,
    /// The address it listens on.
    pub address: SocketAddr,
}

impl Listening {
    fn kind(&self) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.protocol == self.protocol)
    }

    /// Its purpose in the words of RabbitMQ's tools; the protocol's name if they have none.
    #[must_use]
    pub fn purpose(&self) -> &'static str {
        self.kind().map_or(self.protocol, |kind| kind.purpose)
    }

    /// Whether its connections use TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.kind().is_some_and(|kind| kind.has_tls)
    }

    /// Whether it serves clients that publish and consume. Maintenance closes these listeners.
    #[must_use]
    pub fn is_for_clients(&self) -> bool {
        self.kind().is_some_and(|kind| kind.is_for_clients)
    }

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ports {
    /// AMQP without TLS.
    pub amqp: Option<u16>,
    /// AMQP with TLS.
    pub amqps: Option<u16>,
    /// The stream protocol without TLS.
    pub stream: Option<u16>,
    /// The stream protocol with TLS.
    pub stream_tls: Option<u16>,
    /// The HTTP API.
    pub http: Option<u16>,
    /// The HTTP API with TLS.
    pub https: Option<u16>,
    /// Metrics in Prometheus' format.
    pub prometheus: Option<u16>,
    /// Metrics in Prometheus' format with TLS.
    pub prometheus_tls: Option<u16>,
}

impl Ports {
    /// The open ports, with their names in `ports.json`.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u16)> {
        let all = [
            ("amqp", self.amqp),
            ("amqps", self.amqps),
            ("stream", self.stream),
            ("stream_tls", self.stream_tls),
            ("http", self.http),
            ("https", self.https),
            ("prometheus", self.prometheus),
            ("prometheus_tls", self.prometheus_tls),
        ];
        all.into_iter().filter_map(|(name, port)| Some((name, port?)))
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
    pub(crate) fn write(directory: &Path, ports: Ports) -> io::Result<Self> {
        let path = directory.join("ports.json");
        let fresh = directory.join(FRESH);
        let mut text = serde_json::Map::new();
        for (name, port) in ports.named() {
            text.insert(name.to_owned(), port.into());
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

    #[test]
    fn a_listener_says_whether_it_has_tls_and_serves_clients() {
        let said = |protocol| {
            let listening = Listening { protocol, address: SocketAddr::from(([127, 0, 0, 1], 1)) };
            (listening.has_tls(), listening.is_for_clients())
        };
        assert_eq!(["amqp", "stream"].map(said), [(false, true); 2]);
        assert_eq!(["amqp/ssl", "stream/ssl"].map(said), [(true, true); 2]);
        assert_eq!(["http", "http/prometheus"].map(said), [(false, false); 2]);
        assert_eq!(["https", "https/prometheus"].map(said), [(true, false); 2]);
    }

    #[test]
    fn the_file_names_ports_and_process_and_goes_when_dropped() {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = Ports { amqp: Some(5672), http: Some(15672), prometheus: Some(15692), ..Ports::default() };
        let file = PortsFile::write(directory.path(), ports).expect("writes");
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
        let _file = PortsFile::write(directory.path(), Ports { amqp: Some(1), ..Ports::default() }).expect("writes");
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
