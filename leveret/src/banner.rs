use std::fmt;
use std::path::Path;

use leveret_node::Ports;

/// The text that a starting node prints on standard output.
pub(crate) struct Banner<'a> {
    pub(crate) ports: Ports,
    pub(crate) data_directory: &'a Path,
    pub(crate) durability: &'a str,
    pub(crate) cores: usize,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n  Leveret {}\n", env!("CARGO_PKG_VERSION"))?;
        for (kind, port) in self.ports.all() {
            writeln!(f, "  {}", kind.line_for(port))?;
        }
        writeln!(f, "  Data        {}", self.data_directory.display())?;
        writeln!(f, "  Durability  {}", self.durability)?;
        writeln!(f, "  Cores       {}", self.cores)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use leveret_node::listener_kind::{ALL, AMQP, HTTP, HTTPS};
    use leveret_node::{ListenerKind, Listening};

    use super::*;

    /// Listeners of these kinds, with the ports 41, 42 and so on.
    fn ports(kinds: &[&'static ListenerKind]) -> Ports {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Ports::of((41..).zip(kinds).map(|(port, kind)| Listening { kind, address: address(port) }))
    }

    #[test]
    fn every_listener_has_a_line() {
        let ports = ports(&ALL.map(|kind| kind));
        let banner = Banner { ports, data_directory: Path::new("data"), durability: "flushed", cores: 2 }.to_string();
        for at in 1..=ALL.len() {
            assert!(banner.lines().any(|line| line.contains(&format!(" {} (", 40 + at))), "{at} in {banner}");
        }
    }

    #[test]
    fn the_banner_has_version_ports_directory_and_durability() {
        let ports = ports(&[&AMQP, &HTTP, &HTTPS]);
        let data_directory = Path::new("data");
        let banner = Banner { ports, data_directory, durability: "flushed", cores: 2 }.to_string();
        for part in [
            env!("CARGO_PKG_VERSION"),
            "AMQP        41 (1.0, 0-9-1)",
            "http://localhost:42/api/",
            "https://localhost:43/api/",
            "Data        data",
            "flushed",
        ] {
            assert!(banner.contains(part), "{part} in {banner}");
        }
        assert!(!banner.contains("Prometheus"), "it isn't open");
    }
}
