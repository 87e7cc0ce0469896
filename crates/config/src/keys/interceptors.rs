use super::Key;
use super::working::key;
use crate::units::boolean;

/// The keys of message interceptors.
pub(super) const KEYS: &[Key] = &[
    key(
        "message_interceptors.incoming.set_header_timestamp.overwrite",
        "boolean",
        "",
        "messages get the time at which they came, as the header `timestamp_in_ms` and the property `timestamp`, over \
         AMQP 1.0 as the annotation `x-opt-rabbitmq-received-time`; `true` also where the publisher set it",
        |config, _, value| {
            config.interceptors.received_time = Some(boolean(value)?);
            Ok(())
        },
    ),
    key(
        "message_interceptors.incoming.set_header_routing_node.overwrite",
        "boolean",
        "",
        "messages get the node's name, as the header or annotation `x-routed-by`; `true` also where the publisher set it",
        |config, _, value| {
            config.interceptors.routing_node = Some(boolean(value)?);
            Ok(())
        },
    ),
    key(
        "message_interceptors.outgoing.timestamp.enabled",
        "boolean",
        "false",
        "receivers get the time at which a message is sent to them, as the header or annotation \
         `x-opt-rabbitmq-sent-time`",
        |config, _, value| {
            config.interceptors.sent_time = boolean(value)?;
            Ok(())
        },
    ),
];
