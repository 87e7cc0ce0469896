//! The keys of the stream protocol.

use super::Key;
use super::working::{connections, in_bytes, key, listener, none, port};
use crate::units::{boolean, integer};

/// Every key that takes effect.
pub(super) const KEYS: &[Key] = &[
    key("stream.listeners.tcp", "none", "", "no listener for streams without TLS", |config, _, value| {
        config.stream.tcp_listeners = Some(none(value)?);
        Ok(())
    }),
    key(
        "stream.listeners.tcp.$name",
        "[address:]port",
        "5552",
        "a listener for the stream protocol; by default a free port if all of AMQP's are",
        |config, name, value| {
            let listener = listener(value)?;
            config.stream.tcp_listeners.get_or_insert_default().insert(name.to_owned(), listener);
            Ok(())
        },
    ),
    key("stream.listeners.ssl", "none", "", "no listener for streams with TLS", |config, _, value| {
        none::<()>(value)?;
        config.stream.ssl_listeners.clear();
        Ok(())
    }),
    key(
        "stream.listeners.ssl.$name",
        "[address:]port",
        "",
        "a listener for the stream protocol with TLS, by ssl_options",
        |config, name, value| {
            let listener = listener(value)?;
            config.stream.ssl_listeners.insert(name.to_owned(), listener);
            Ok(())
        },
    ),
    key(
        "stream.proxy_protocol",
        "boolean",
        "false",
        "whether every stream connection begins with the header of a proxy, as proxy_protocol",
        |config, _, value| {
            config.stream.proxy_protocol = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "stream.max_connections",
        "integer or infinity",
        "infinity",
        "connections of the stream protocol; max_connections counts them as well",
        |config, _, value| {
            config.stream.max_connections = connections(value)?;
            Ok(())
        },
    ),
    key(
        "stream.frame_max",
        "bytes",
        "1048576",
        "largest frame of the stream protocol, but for chunks; 0 for no limit",
        |config, _, value| {
            config.stream.frame_max = in_bytes(value, 0, u64::from(u32::MAX))? as u32;
            Ok(())
        },
    ),
    key(
        "stream.initial_frame_max",
        "bytes",
        "73728",
        "largest frame of a stream connection that isn't open",
        |config, _, value| {
            config.stream.initial_frame_max = in_bytes(value, 1024, 1 << 20)? as u32;
            Ok(())
        },
    ),
    key(
        "stream.heartbeat",
        "seconds",
        "60",
        "proposed interval of heartbeats of stream connections; 0 switches them off",
        |config, _, value| {
            config.stream.heartbeat_s = integer(value, 0, 65_535)? as u32;
            Ok(())
        },
    ),
    key(
        "stream.max_uncompressed_sub_entry_batch_size",
        "bytes",
        "67108864",
        "longest sub-batch of messages when it is decompressed",
        |config, _, value| {
            config.stream.uncompressed_max = in_bytes(value, 1, 64 << 20)? as u32;
            Ok(())
        },
    ),
    key(
        "stream.max_super_stream_partitions",
        "integer",
        "1000",
        "most partitions of a super stream that is made over the stream protocol",
        |config, _, value| {
            config.stream.partitions_max = integer(value, 1, 1000)? as u32;
            Ok(())
        },
    ),
    key(
        "stream.advertised_host",
        "host",
        "the address that the client used, in a cluster the host in the node's name",
        "the host that stream clients without TLS are told",
        |config, _, value| {
            config.stream.advertised_host = Some(value.to_owned());
            Ok(())
        },
    ),
    key(
        "stream.advertised_port",
        "port",
        "the port that the client used",
        "the port that stream clients without TLS are told",
        |config, _, value| {
            config.stream.advertised_port = Some(port(value)?);
            Ok(())
        },
    ),
    key(
        "stream.advertised_tls_host",
        "host",
        "the name or address that the client used, in a cluster the host in the node's name",
        "the host that stream clients with TLS are told",
        |config, _, value| {
            config.stream.advertised_tls_host = Some(value.to_owned());
            Ok(())
        },
    ),
    key(
        "stream.advertised_tls_port",
        "port",
        "the port that the client used",
        "the port that stream clients with TLS are told",
        |config, _, value| {
            config.stream.advertised_tls_port = Some(port(value)?);
            Ok(())
        },
    ),
];
