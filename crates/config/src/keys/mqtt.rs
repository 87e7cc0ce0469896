//! The keys of MQTT.

use super::Key;
use super::working::{connections, in_bytes, key, listener, none};
use crate::units::{boolean, integer};

/// Largest packet of the protocol, in bytes.
const PACKET_MAX: u64 = 268_435_455;

/// Every key that takes effect.
pub(super) const KEYS: &[Key] = &[
    key("mqtt.listeners.tcp", "none", "", "no listener for MQTT without TLS", |config, _, value| {
        config.mqtt.tcp_listeners = Some(none(value)?);
        Ok(())
    }),
    key(
        "mqtt.listeners.tcp.$name",
        "[address:]port",
        "1883",
        "a listener for MQTT; by default a free port if all of AMQP's are",
        |config, name, value| {
            let listener = listener(value)?;
            config.mqtt.tcp_listeners.get_or_insert_default().insert(name.to_owned(), listener);
            Ok(())
        },
    ),
    key("mqtt.listeners.ssl", "none", "", "no listener for MQTT with TLS", |config, _, value| {
        none::<()>(value)?;
        config.mqtt.ssl_listeners.clear();
        Ok(())
    }),
    key(
        "mqtt.listeners.ssl.$name",
        "[address:]port",
        "",
        "a listener for MQTT with TLS, by ssl_options",
        |config, name, value| {
            let listener = listener(value)?;
            config.mqtt.ssl_listeners.insert(name.to_owned(), listener);
            Ok(())
        },
    ),
    key(
        "mqtt.proxy_protocol",
        "boolean",
        "false",
        "whether every MQTT connection begins with the header of a proxy, as proxy_protocol",
        |config, _, value| {
            config.mqtt.proxy_protocol = boolean(value)?;
            Ok(())
        },
    ),
    key("mqtt.exchange", "text", "amq.topic", "the topic exchange of MQTT's topics", |config, _, value| {
        config.mqtt.exchange = value.to_owned();
        Ok(())
    }),
    key("mqtt.vhost", "text", "/", "the vhost of MQTT clients that name none", |config, _, value| {
        config.mqtt.vhost = value.to_owned();
        Ok(())
    }),
    key(
        "mqtt.allow_anonymous",
        "boolean",
        "true",
        "whether MQTT clients without credentials log in as anonymous_login_user",
        |config, _, value| {
            config.mqtt.allow_anonymous = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "mqtt.max_session_expiry_interval_seconds",
        "integer or infinity",
        "86400",
        "longest time for which an MQTT session outlives its connection; that of sessions of MQTT 3 that aren't clean",
        |config, _, value| {
            config.mqtt.session_expiry_max_s = match value {
                "infinity" => None,
                seconds => Some(integer(seconds, 0, u64::from(u32::MAX) - 1)? as u32),
            };
            Ok(())
        },
    ),
    key(
        "mqtt.prefetch",
        "integer",
        "10",
        "messages of QoS 1 and 2 that an MQTT client may leave unacknowledged",
        |config, _, value| {
            config.mqtt.prefetch = integer(value, 1, 65_535)? as u16;
            Ok(())
        },
    ),
    key(
        "mqtt.max_packet_size_unauthenticated",
        "bytes",
        "65536",
        "largest packet of an MQTT client that hasn't logged in",
        |config, _, value| {
            config.mqtt.packet_max_unauthenticated = in_bytes(value, 1, PACKET_MAX)? as u32;
            Ok(())
        },
    ),
    key(
        "mqtt.max_packet_size_authenticated",
        "bytes",
        "16777216",
        "largest packet of an MQTT client",
        |config, _, value| {
            config.mqtt.packet_max = in_bytes(value, 1, PACKET_MAX)? as u32;
            Ok(())
        },
    ),
    key(
        "mqtt.topic_alias_maximum",
        "integer",
        "16",
        "topic aliases of an MQTT client; 0 for none",
        |config, _, value| {
            config.mqtt.topic_alias_max = integer(value, 0, 65_535)? as u16;
            Ok(())
        },
    ),
    key(
        "mqtt.disconnect_on_unauthorized",
        "boolean",
        "true",
        "whether an MQTT client that may not publish or subscribe is disconnected; if not, it is answered so",
        |config, _, value| {
            config.mqtt.disconnects_unauthorized = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "mqtt.max_connections",
        "integer or infinity",
        "infinity",
        "connections of MQTT; max_connections counts them as well",
        |config, _, value| {
            config.mqtt.max_connections = connections(value)?;
            Ok(())
        },
    ),
    key(
        "mqtt.durable_queue_type",
        "classic or quorum",
        "classic",
        "type of the queues of MQTT sessions that outlive their connections",
        |config, _, value| {
            config.mqtt.quorum_queues = match value {
                "classic" => false,
                "quorum" => true,
                _ => return Err(format!("expected classic or quorum, got '{value}'")),
            };
            Ok(())
        },
    ),
    key(
        "mqtt.mailbox_soft_limit",
        "integer",
        "200",
        "50 times as many messages of QoS 0 wait for an MQTT client that doesn't read; older ones are dropped",
        |config, _, value| {
            config.mqtt.mailbox_soft_limit = integer(value, 1, 1_000_000)? as u32;
            Ok(())
        },
    ),
    key(
        "mqtt.max_subscriptions_per_client",
        "integer",
        "10000",
        "subscriptions of an MQTT client",
        |config, _, value| {
            config.mqtt.subscriptions_max = integer(value, 1, 1_000_000)? as u32;
            Ok(())
        },
    ),
    key(
        "mqtt.retained_message_store",
        "rabbit_mqtt_retained_msg_store_ets, _dets or _noop",
        "rabbit_mqtt_retained_msg_store_ets",
        "whether messages are retained: with _ets and _dets alike they are in the log, and with _noop there are none",
        |config, _, value| {
            let store = value.strip_prefix("rabbit_mqtt_retained_msg_store_");
            let Some(store @ ("ets" | "dets" | "noop")) = store else {
                return Err(format!("expected rabbit_mqtt_retained_msg_store_ets, _dets or _noop, got '{value}'"));
            };
            config.mqtt.retains = store != "noop";
            Ok(())
        },
    ),
    key(
        "mqtt.retained_message_store.max_messages",
        "integer",
        "100000",
        "retained messages of a vhost",
        |config, _, value| {
            config.mqtt.retained_max = integer(value, 1, u64::from(u32::MAX))? as u32;
            Ok(())
        },
    ),
    key(
        "mqtt.retained_message_store.max_size_bytes",
        "bytes",
        "1073741824",
        "bytes of the retained messages of a vhost",
        |config, _, value| {
            config.mqtt.retained_bytes_max = in_bytes(value, 1, 1 << 50)?;
            Ok(())
        },
    ),
];
