//! The listeners of a configuration, beside AMQP's: those of MQTT, of the stream protocol, and of links between nodes.

use core::net::IpAddr;

use crate::cluster::{CLUSTER_PORT, ClusterListener, DiscoveryBackend};
use crate::config::Config;
use crate::listener::Listener;

/// The port of MQTT.
const MQTT_PORT: u16 = 1883;
/// The port of the stream protocol.
const STREAM_PORT: u16 = 5552;

impl Config {
    /// The listeners for MQTT without TLS. If none is set and all listeners for AMQP take a free port, so does this one, at the same
    /// address: such a node is one of several on its machine.
    pub fn mqtt_tcp_listeners(&self) -> Vec<Listener> {
        if let Some(listeners) = &self.mqtt.tcp_listeners {
            return listeners.values().cloned().collect();
        }
        let amqp = [self.tcp_listeners(), self.ssl_listeners()].concat();
        match amqp.first().filter(|_| amqp.iter().all(|listener| listener.port == 0)) {
            Some(free) => vec![free.clone()],
            None => vec![Listener { host: None, port: MQTT_PORT }],
        }
    }

    /// The listeners for MQTT with TLS.
    pub fn mqtt_ssl_listeners(&self) -> Vec<Listener> {
        self.mqtt.ssl_listeners.values().cloned().collect()
    }

    /// Whether a key or a file of plugins asks for MQTT. If not, its listener is left out when another program has its port.
    pub fn asks_for_mqtt(&self) -> bool {
        self.mqtt.tcp_listeners.is_some() || self.plugins.are_listed()
    }

    /// The listeners for the stream protocol without TLS. If none is set and all listeners for AMQP take a free port, so does this one,
    /// at the same address: such a node is one of several on its machine.
    pub fn stream_tcp_listeners(&self) -> Vec<Listener> {
        if let Some(listeners) = &self.stream.tcp_listeners {
            return listeners.values().cloned().collect();
        }
        let amqp = [self.tcp_listeners(), self.ssl_listeners()].concat();
        match amqp.first().filter(|_| amqp.iter().all(|listener| listener.port == 0)) {
            Some(free) => vec![free.clone()],
            None => vec![Listener { host: None, port: STREAM_PORT }],
        }
    }

    /// The listeners for the stream protocol with TLS.
    pub fn stream_ssl_listeners(&self) -> Vec<Listener> {
        self.stream.ssl_listeners.values().cloned().collect()
    }

    /// Whether anything is configured by which the node has others beside it: without, it opens no listener for them. A pod has others if
    /// more than one is wanted; operators also name the way to find them for a single one.
    #[must_use]
    pub fn asks_for_cluster(&self) -> bool {
        let cluster = &self.cluster;
        cluster.listener != ClusterListener::Unset
            || cluster.port.is_some()
            || !cluster.classic_nodes.is_empty()
            || match cluster.backend {
                DiscoveryBackend::ClassicConfig => false,
                DiscoveryBackend::Dns => true,
                DiscoveryBackend::K8s => self.target_cluster_size > 1,
            }
    }

    /// The listener of links between nodes; `None` if it is switched off.
    ///
    /// By default it has port 25672, or a free one if all of AMQP's listeners have: such a node is one of several on its machine. It is
    /// at the address of AMQP's listeners if that is a free port's or this machine's own: a node that no other machine may reach
    /// opens no port to them.
    #[must_use]
    pub fn cluster_listener(&self) -> Option<Listener> {
        match &self.cluster.listener {
            ClusterListener::Off => return None,
            ClusterListener::At(listener) => return Some(listener.clone()),
            ClusterListener::Unset => {}
        }
        let amqp = [self.tcp_listeners(), self.ssl_listeners()].concat();
        let is_free = !amqp.is_empty() && amqp.iter().all(|listener| listener.port == 0);
        let host = amqp.first().and_then(|first| first.host.clone());
        let is_own = host.as_deref().is_some_and(is_loopback) && amqp.iter().all(|other| other.host == host);
        let port = self.cluster.port.unwrap_or(if is_free { 0 } else { CLUSTER_PORT });
        Some(Listener { host: host.filter(|_| is_free || is_own), port })
    }

    /// The port at which other nodes are looked for: that of this node's own listener if it is a fixed one, since nodes of a cluster
    /// are configured alike.
    #[must_use]
    pub fn peer_port(&self) -> u16 {
        self.cluster_listener().map(|listener| listener.port).filter(|port| *port != 0).unwrap_or(CLUSTER_PORT)
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        let mut config = Config::default();
        config.read("file", text).expect("is right");
        config
    }

    fn listener(text: &str) -> Option<(Option<String>, u16)> {
        read(text).cluster_listener().map(|listener| (listener.host, listener.port))
    }

    #[test]
    fn the_listener_follows_those_of_amqp() {
        let at = |host: &str, port| Some((Some(host.to_owned()), port));
        assert_eq!(listener(""), Some((None, 25672)));
        assert_eq!(listener("listeners.tcp.default = 0"), Some((None, 0)));
        assert_eq!(listener("listeners.tcp.default = 127.0.0.2:0"), at("127.0.0.2", 0));
        assert_eq!(listener("listeners.tcp.default = 127.0.0.2:5672"), at("127.0.0.2", 25672));
        assert_eq!(listener("listeners.tcp.1 = ::1:5672"), at("::1", 25672));
        assert_eq!(listener("listeners.tcp.1 = 127.0.0.1:5672\nlisteners.ssl.1 = 5671"), Some((None, 25672)));
        assert_eq!(listener("listeners.tcp.1 = 10.0.0.1:5672"), Some((None, 25672)));
        assert_eq!(listener("listeners.tcp = none"), Some((None, 25672)));
        assert_eq!(listener("listeners.tcp.1 = 0\ncluster.listeners.tcp.default = 10.0.0.1:7"), at("10.0.0.1", 7));
        assert_eq!(listener("cluster.listeners.tcp = none"), None);
        let mut config = read("listeners.tcp.1 = 127.0.0.1:5672");
        config.cluster.port = Some(7);
        assert_eq!(config.cluster_listener(), Some(Listener { host: Some("127.0.0.1".to_owned()), port: 7 }));
    }

    #[test]
    fn others_are_looked_for_at_the_own_fixed_port() {
        assert_eq!(read("").peer_port(), 25672);
        assert_eq!(read("cluster.listeners.tcp.default = 7").peer_port(), 7);
        assert_eq!(read("listeners.tcp.default = 0").peer_port(), 25672);
        assert_eq!(read("cluster.listeners.tcp = none").peer_port(), 25672);
    }

    fn mqtt_ports(text: &str) -> Vec<u16> {
        read(text).mqtt_tcp_listeners().iter().map(|listener| listener.port).collect()
    }

    #[test]
    fn a_node_with_free_ports_takes_one_for_mqtt_too() {
        assert_eq!(mqtt_ports(""), [1883]);
        assert_eq!(mqtt_ports("listeners.tcp.default = 127.0.0.1:0"), [0]);
        assert_eq!(mqtt_ports("listeners.tcp.1 = 0\nlisteners.tcp.2 = 5672"), [1883]);
        assert_eq!(mqtt_ports("listeners.tcp.default = 0\nmqtt.listeners.tcp.1 = 1884"), [1884]);
        assert_eq!(mqtt_ports("mqtt.listeners.tcp = none"), [0; 0]);
    }

    #[test]
    fn keys_or_plugins_ask_for_mqtt() {
        assert!(!read("mqtt.vhost = /").asks_for_mqtt());
        assert!(read("mqtt.listeners.tcp.default = 1883").asks_for_mqtt());
        let mut listed = Config::default();
        listed.read_plugins("plugins", "[rabbitmq_mqtt].").expect("is right");
        assert!(listed.asks_for_mqtt());
    }

    fn stream_ports(text: &str) -> Vec<u16> {
        read(text).stream_tcp_listeners().iter().map(|listener| listener.port).collect()
    }

    #[test]
    fn a_node_with_free_ports_takes_one_for_streams_too() {
        assert_eq!(stream_ports(""), [5552]);
        assert_eq!(stream_ports("listeners.tcp.default = 127.0.0.1:0"), [0]);
        assert_eq!(stream_ports("listeners.tcp.1 = 0\nlisteners.tcp.2 = 5672"), [5552]);
        assert_eq!(stream_ports("listeners.tcp = none\nlisteners.ssl.1 = 0"), [0]);
        assert_eq!(stream_ports("listeners.tcp = none"), [5552]);
        assert_eq!(stream_ports("listeners.tcp.default = 0\nstream.listeners.tcp.1 = 5553"), [5553]);
        assert_eq!(stream_ports("stream.listeners.tcp = none"), [0; 0]);
    }
}
