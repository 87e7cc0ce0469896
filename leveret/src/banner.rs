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
        if let Some(port) = self.ports.amqp {
            writeln!(f, "  AMQP        {port} (1.0, 0-9-1)")?;
        }
        if let Some(port) = self.ports.amqps {
            writeln!(f, "  AMQP, TLS   {port} (1.0, 0-9-1)")?;
        }
        if let Some(port) = self.ports.stream {
            writeln!(f, "  Streams     {port} (rabbitmq-stream://localhost:{port})")?;
        }
        if let Some(port) = self.ports.stream_tls {
            writeln!(f, "  Streams,TLS {port} (rabbitmq-stream+tls://localhost:{port})")?;
        }
        for (port, scheme) in [(self.ports.http, "http"), (self.ports.https, "https")] {
            if let Some(port) = port {
                writeln!(f, "  HTTP        {port} ({scheme}://localhost:{port}/api/)")?;
            }
        }
        for (port, scheme) in [(self.ports.prometheus, "http"), (self.ports.prometheus_tls, "https")] {
            if let Some(port) = port {
                writeln!(f, "  Prometheus  {port} ({scheme}://localhost:{port}/metrics)")?;
            }
        }
        writeln!(f, "  Data        {}", self.data_directory.display())?;
        writeln!(f, "  Durability  {}", self.durability)?;
        writeln!(f, "  Cores       {}", self.cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_has_a_line() {
        let ports = Ports {
            amqp: Some(41),
            amqps: Some(42),
            stream: Some(43),
            stream_tls: Some(44),
            http: Some(45),
            https: Some(46),
            prometheus: Some(47),
            prometheus_tls: Some(48),
        };
        let banner = Banner { ports, data_directory: Path::new("data"), durability: "flushed", cores: 2 }.to_string();
        for (name, port) in ports.named() {
            assert!(banner.lines().any(|line| line.contains(&format!(" {port} ("))), "{name} in {banner}");
        }
    }

    #[test]
    fn the_banner_has_version_ports_directory_and_durability() {
        let ports = Ports { amqp: Some(5672), http: Some(15672), https: Some(15671), ..Ports::default() };
        let data_directory = Path::new("data");
        let banner = Banner { ports, data_directory, durability: "flushed", cores: 2 }.to_string();
        for part in [
            env!("CARGO_PKG_VERSION"),
            "5672 (1.0, 0-9-1)",
            "http://localhost:15672/",
            "https://localhost:15671/",
            "Data        data",
            "flushed",
        ] {
            assert!(banner.contains(part), "{part} in {banner}");
        }
        assert!(!banner.contains("Prometheus"), "it isn't open");
    }
}
