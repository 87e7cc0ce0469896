//! The operator's settings of the stream protocol.

use leveret_broker::peer::Peer;

/// Limits, and the address that clients are told. Defaults are RabbitMQ's.
#[derive(Debug, Clone)]
pub struct StreamSettings {
    /// Maximum number of open connections (`stream.max_connections`); `None` for no limit but the node's.
    pub max_connections: Option<usize>,
    /// Largest frame in bytes that either side may send, but for chunks (`stream.frame_max`); 0 is no limit.
    pub frame_max: u32,
    /// Largest frame in bytes before the connection is open (`stream.initial_frame_max`).
    pub initial_frame_max: u32,
    /// Proposed heartbeat interval in seconds (`stream.heartbeat`); 0 switches it off.
    pub heartbeat_s: u32,
    /// Longest sub-batch in bytes when it is decompressed (`stream.max_uncompressed_sub_entry_batch_size`).
    pub uncompressed_max: u32,
    /// Largest number of partitions of a super stream (`stream.max_super_stream_partitions`).
    pub partitions_max: usize,
    /// The address that clients without TLS are told (`stream.advertised_host`, `stream.advertised_port`).
    pub advertised: Advertised,
    /// The same for clients with TLS (`stream.advertised_tls_host`, `stream.advertised_tls_port`).
    pub advertised_tls: Advertised,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            max_connections: None,
            frame_max: 1 << 20,
            initial_frame_max: 73_728,
            heartbeat_s: 60,
            uncompressed_max: 64 << 20,
            partitions_max: leveret_model::super_stream::PARTITIONS_MAX,
            advertised: Advertised::default(),
            advertised_tls: Advertised::default(),
        }
    }
}

/// An address that clients are told instead of the one that they came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advertised {
    /// Host name or address.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
}

impl StreamSettings {
    /// The host and port at which a client finds this node again: those that are set, else those that it used already. A client behind
    /// a load balancer or outside of a container knows another name of this machine than the machine itself, so that is never told: but
    /// in a cluster, where other members have to tell the same address, it is the `host` in the node's name, as in RabbitMQ.
    pub(crate) fn address_for(&self, peer: &Peer, host: Option<&str>) -> (String, u16) {
        let set = if peer.encryption.is_some() { &self.advertised_tls } else { &self.advertised };
        let server_name = || peer.encryption.as_ref().and_then(|encryption| encryption.server_name.clone());
        let host = set.host.clone().or_else(|| host.map(str::to_owned)).or_else(server_name);
        let host = host.unwrap_or_else(|| peer.local.ip().to_canonical().to_string());
        (host, set.port.unwrap_or(peer.local.port()))
    }
}

#[cfg(test)]
mod tests {
    use leveret_broker::encryption::Encryption;

    use super::*;

    fn peer(local: &str, server_name: Option<&str>) -> Peer {
        let mut peer = Peer::new("10.0.0.9:4000".parse().unwrap(), local.parse().unwrap());
        peer.encryption = server_name.map(|name| Encryption {
            version: 0x0304,
            suite: 0x1301,
            certificate: None,
            server_name: Some(name.to_owned()),
        });
        peer
    }

    #[test]
    fn a_client_is_told_the_address_that_it_used() {
        let mut settings = StreamSettings::default();
        assert_eq!(settings.address_for(&peer("192.0.2.7:5552", None), None), ("192.0.2.7".to_owned(), 5552));
        assert_eq!(settings.address_for(&peer("[::ffff:192.0.2.7]:9", None), None), ("192.0.2.7".to_owned(), 9));
        assert_eq!(
            settings.address_for(&peer("[2001:db8::1]:5551", Some("b.example")), None),
            ("b.example".to_owned(), 5551)
        );
        let in_cluster = settings.address_for(&peer("[2001:db8::1]:5551", Some("b.example")), Some("c.example"));
        assert_eq!(in_cluster, ("c.example".to_owned(), 5551), "the name that the other members tell");
        settings.advertised = Advertised { host: Some("outside".to_owned()), port: None };
        settings.advertised_tls = Advertised { host: None, port: Some(443) };
        assert_eq!(settings.address_for(&peer("192.0.2.7:5552", None), None), ("outside".to_owned(), 5552));
        assert_eq!(
            settings.address_for(&peer("192.0.2.7:5551", Some("b.example")), None),
            ("b.example".to_owned(), 443)
        );
    }
}
