use super::Key;
use super::working::key;
use crate::quotas::UNLIMITED;
use crate::units::integer;

/// The kind of value of these keys.
const COUNT: &str = "integer or infinity";

/// The keys that limit numbers of objects.
pub(super) const KEYS: &[Key] = &[
    key("connection_max_per_vhost", COUNT, "100000", "connections of a vhost", |config, _, value| {
        config.quotas.connections.vhost = count(value)?;
        Ok(())
    }),
    key("connection_max_per_user", COUNT, "100000", "connections of a user", |config, _, value| {
        config.quotas.connections.user = count(value)?;
        Ok(())
    }),
    key("channel_max_per_node", COUNT, "1000000", "channels and AMQP 1.0 sessions of the node", |config, _, value| {
        config.quotas.channels.node = count(value)?;
        Ok(())
    }),
    key("channel_max_per_vhost", COUNT, "500000", "channels and AMQP 1.0 sessions of a vhost", |config, _, value| {
        config.quotas.channels.vhost = count(value)?;
        Ok(())
    }),
    key("channel_max_per_user", COUNT, "500000", "channels and AMQP 1.0 sessions of a user", |config, _, value| {
        config.quotas.channels.user = count(value)?;
        Ok(())
    }),
    key("link_max_per_node", COUNT, "2000000", "AMQP 1.0 links of the node", |config, _, value| {
        config.quotas.links.node = count(value)?;
        Ok(())
    }),
    key("link_max_per_vhost", COUNT, "1000000", "AMQP 1.0 links of a vhost", |config, _, value| {
        config.quotas.links.vhost = count(value)?;
        Ok(())
    }),
    key("link_max_per_user", COUNT, "1000000", "AMQP 1.0 links of a user", |config, _, value| {
        config.quotas.links.user = count(value)?;
        Ok(())
    }),
    key("consumer_max_per_channel", COUNT, "65536", "consumers of an AMQP 0-9-1 channel", |config, _, value| {
        config.quotas.consumers_per_channel = count(value)?;
        Ok(())
    }),
    key(
        "consumer_max_per_node",
        COUNT,
        "2000000",
        "consumers of the node, receiving links included",
        |config, _, value| {
            config.quotas.consumers.node = count(value)?;
            Ok(())
        },
    ),
    key(
        "consumer_max_per_vhost",
        COUNT,
        "1000000",
        "consumers of a vhost, receiving links included",
        |config, _, value| {
            config.quotas.consumers.vhost = count(value)?;
            Ok(())
        },
    ),
    key(
        "consumer_max_per_user",
        COUNT,
        "1000000",
        "consumers of a user, receiving links included",
        |config, _, value| {
            config.quotas.consumers.user = count(value)?;
            Ok(())
        },
    ),
    key(
        "unsettled_max_per_node",
        COUNT,
        "20000000",
        "deliveries that clients of the node may leave unsettled; above it each channel and session may still have 256",
        |config, _, value| {
            config.quotas.unsettled.node = count(value)?;
            Ok(())
        },
    ),
    key("unsettled_max_per_vhost", COUNT, "10000000", "the same of a vhost", |config, _, value| {
        config.quotas.unsettled.vhost = count(value)?;
        Ok(())
    }),
    key("unsettled_max_per_user", COUNT, "10000000", "the same of a user", |config, _, value| {
        config.quotas.unsettled.user = count(value)?;
        Ok(())
    }),
    key("vhost_max", COUNT, "10000", "vhosts", |config, _, value| {
        config.quotas.vhosts = count(value)?;
        Ok(())
    }),
    key("cluster_queue_limit", COUNT, "4000000", "queues of all vhosts", |config, _, value| {
        config.quotas.queues = count(value)?;
        Ok(())
    }),
    key("queue_max_per_vhost", COUNT, "2000000", "queues of a vhost", |config, _, value| {
        config.quotas.queues_per_vhost = count(value)?;
        Ok(())
    }),
    key(
        "exclusive_queue_max_per_connection",
        COUNT,
        "65536",
        "exclusive queues of a connection",
        |config, _, value| {
            config.quotas.exclusive_queues_per_connection = count(value)?;
            Ok(())
        },
    ),
    key(
        "cluster_exchange_limit",
        COUNT,
        "1000000",
        "exchanges of all vhosts, predeclared ones included",
        |config, _, value| {
            config.quotas.exchanges = count(value)?;
            Ok(())
        },
    ),
    key(
        "exchange_max_per_vhost",
        COUNT,
        "500000",
        "exchanges of a vhost, predeclared ones included",
        |config, _, value| {
            config.quotas.exchanges_per_vhost = count(value)?;
            Ok(())
        },
    ),
    key("binding_max_per_node", COUNT, "20000000", "bindings of all vhosts", |config, _, value| {
        config.quotas.bindings = count(value)?;
        Ok(())
    }),
    key("binding_max_per_vhost", COUNT, "10000000", "bindings of a vhost", |config, _, value| {
        config.quotas.bindings_per_vhost = count(value)?;
        Ok(())
    }),
    key(
        "unsettled_max_per_channel",
        "integer",
        "262144",
        "deliveries that the client of an AMQP 0-9-1 channel may leave unacknowledged; its consumers wait then",
        |config, _, value| {
            config.quotas.unsettled_per_channel = integer(value, 1, 1 << 24)? as u32;
            Ok(())
        },
    ),
];

fn count(value: &str) -> Result<u64, String> {
    match value {
        "infinity" => Ok(UNLIMITED),
        _ => integer(value, 0, u64::from(u32::MAX)).map_err(|error| format!("{error}; infinity for no limit")),
    }
}
