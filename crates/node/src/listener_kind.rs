//! Kinds of listeners: what is said of a listener anywhere, is read from its row.

/// A kind of listener.
#[derive(Debug, PartialEq, Eq)]
pub struct ListenerKind {
    /// Its name in RabbitMQ's tools.
    pub protocol: &'static str,
    /// Other names that these tools take for it, in lower case.
    pub also_called: &'static [&'static str],
    /// Its purpose in the words of these tools. Where RabbitMQ has none, it is the name, as there.
    pub purpose: &'static str,
    /// The name of its port in `ports.json`.
    pub port_name: &'static str,
    /// Its line in the text that a starting node prints: a title of at most 11 letters, and how it is reached, in which `PORT` stands
    /// for the port.
    pub line: (&'static str, &'static str),
    /// The labels of the protocols that its clients may speak. None if it isn't served by the cores.
    pub labels: &'static [&'static str],
    /// The beginning of the keys that configure its TLS, if it has TLS.
    pub tls_options: Option<&'static str>,
    /// Whether it serves clients that publish and consume: maintenance closes it.
    pub is_for_clients: bool,
}

const AMQP_LABELS: &[&str] = &["amqp091", "amqp10"];

/// AMQP 0-9-1 and 1.0.
pub static AMQP: ListenerKind = ListenerKind {
    protocol: "amqp",
    also_called: &["amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1", "amqp10", "amqp1.0", "amqp1-0", "amqp1_0"],
    purpose: "AMQP 0-9-1 and AMQP 1.0",
    port_name: "amqp",
    line: ("AMQP", "(1.0, 0-9-1)"),
    labels: AMQP_LABELS,
    tls_options: None,
    is_for_clients: true,
};

/// AMQP 0-9-1 and 1.0 over TLS.
pub static AMQPS: ListenerKind = ListenerKind {
    protocol: "amqp/ssl",
    also_called: &["amqps"],
    purpose: "AMQP 0-9-1 and AMQP 1.0 over TLS",
    port_name: "amqps",
    line: ("AMQP, TLS", "(1.0, 0-9-1)"),
    tls_options: Some("ssl_options"),
    ..AMQP
};

/// The stream protocol.
pub static STREAM: ListenerKind = ListenerKind {
    protocol: "stream",
    also_called: &[],
    purpose: "stream",
    port_name: "stream",
    line: ("Streams", "(rabbitmq-stream://localhost:PORT)"),
    labels: &["stream"],
    tls_options: None,
    is_for_clients: true,
};

/// The stream protocol over TLS.
pub static STREAM_TLS: ListenerKind = ListenerKind {
    protocol: "stream/ssl",
    purpose: "stream/ssl",
    port_name: "stream_tls",
    line: ("Streams,TLS", "(rabbitmq-stream+tls://localhost:PORT)"),
    tls_options: Some("ssl_options"),
    ..STREAM
};

/// MQTT 3.1, 3.1.1 and 5.
pub static MQTT: ListenerKind = ListenerKind {
    protocol: "mqtt",
    also_called: &[],
    purpose: "MQTT",
    port_name: "mqtt",
    line: ("MQTT", "(mqtt://localhost:PORT)"),
    labels: &["mqtt310", "mqtt311", "mqtt50"],
    tls_options: None,
    is_for_clients: true,
};

/// MQTT over TLS.
pub static MQTT_TLS: ListenerKind = ListenerKind {
    protocol: "mqtt/ssl",
    also_called: &["mqtts"],
    purpose: "MQTT over TLS",
    port_name: "mqtt_tls",
    line: ("MQTT, TLS", "(mqtts://localhost:PORT)"),
    tls_options: Some("ssl_options"),
    ..MQTT
};

/// The links to other nodes.
pub static CLUSTER: ListenerKind = ListenerKind {
    protocol: "clustering",
    also_called: &[],
    purpose: "inter-node and CLI tool communication",
    port_name: "cluster",
    line: ("Cluster", "(other nodes)"),
    labels: &[],
    tls_options: None,
    is_for_clients: false,
};

/// The HTTP API.
pub static HTTP: ListenerKind = ListenerKind {
    protocol: "http",
    also_called: &["http1", "http1.1", "http_api", "management", "management_ui", "ui"],
    purpose: "HTTP API",
    port_name: "http",
    line: ("HTTP", "(http://localhost:PORT/api/)"),
    labels: &[],
    tls_options: None,
    is_for_clients: false,
};

/// The HTTP API over TLS.
pub static HTTPS: ListenerKind = ListenerKind {
    protocol: "https",
    also_called: &[],
    purpose: "HTTP API over TLS (HTTPS)",
    port_name: "https",
    line: ("HTTP", "(https://localhost:PORT/api/)"),
    tls_options: Some("management.ssl"),
    ..HTTP
};

/// Metrics in Prometheus' format.
pub static PROMETHEUS: ListenerKind = ListenerKind {
    protocol: "http/prometheus",
    also_called: &[],
    purpose: "Prometheus exporter API over HTTP",
    port_name: "prometheus",
    line: ("Prometheus", "(http://localhost:PORT/metrics)"),
    ..HTTP
};

/// Metrics in Prometheus' format, over TLS.
pub static PROMETHEUS_TLS: ListenerKind = ListenerKind {
    protocol: "https/prometheus",
    purpose: "Prometheus exporter API over TLS (HTTPS)",
    port_name: "prometheus_tls",
    line: ("Prometheus", "(https://localhost:PORT/metrics)"),
    tls_options: Some("prometheus.ssl"),
    ..PROMETHEUS
};

/// All kinds that a node can open.
pub static ALL: [&ListenerKind; 11] =
    [&AMQP, &AMQPS, &STREAM, &STREAM_TLS, &MQTT, &MQTT_TLS, &CLUSTER, &HTTP, &HTTPS, &PROMETHEUS, &PROMETHEUS_TLS];

impl ListenerKind {
    /// Whether its connections use TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.tls_options.is_some()
    }

    /// The name of the kind that RabbitMQ's tools call so, in lower case. AMQP 1.0 shares the listener of 0-9-1. A name that no kind has
    /// is its own.
    #[must_use]
    pub fn name_of(asked: &str) -> &str {
        let known = ALL.iter().find(|kind| kind.also_called.contains(&asked));
        known.map_or(asked, |kind| kind.protocol)
    }

    /// The line in the text that a starting node prints.
    #[must_use]
    pub fn line_for(&self, port: u16) -> String {
        let (title, reached) = self.line;
        format!("{title:<11} {port} {}", reached.replace("PORT", &port.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_kinds_have_a_name_in_common() {
        let names = |of: fn(&&'static ListenerKind) -> &'static str| ALL.iter().map(of).collect::<HashSet<_>>().len();
        assert_eq!([names(|kind| kind.protocol), names(|kind| kind.port_name)], [ALL.len(); 2]);
        let also = ALL.iter().flat_map(|kind| kind.also_called).chain(ALL.iter().map(|kind| &kind.protocol));
        let mut seen = HashSet::new();
        also.for_each(|name| assert!(seen.insert(name), "{name}"));
    }

    #[test]
    fn a_row_says_whether_a_listener_has_tls_and_is_for_clients() {
        let said = |kind: &ListenerKind| (kind.protocol, kind.has_tls(), kind.is_for_clients);
        let expected = [
            ("amqp", false, true),
            ("amqp/ssl", true, true),
            ("stream", false, true),
            ("stream/ssl", true, true),
            ("mqtt", false, true),
            ("mqtt/ssl", true, true),
            ("clustering", false, false),
            ("http", false, false),
            ("https", true, false),
            ("http/prometheus", false, false),
            ("https/prometheus", true, false),
        ];
        assert_eq!(ALL.map(said), expected);
    }

    #[test]
    fn tools_names_are_understood() {
        let named = ["amqp1.0", "amqps", "management", "stream", "nothing"].map(ListenerKind::name_of);
        assert_eq!(named, ["amqp", "amqp/ssl", "http", "stream", "nothing"]);
    }
}
