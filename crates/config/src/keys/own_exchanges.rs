//! The keys of the broker's own exchanges, apart from that for log lines.

use super::Key;
use super::working::key;

/// The keys `event_exchange.*` and `tracing.*`.
pub(super) const KEYS: &[Key] = &[
    key(
        "event_exchange.vhost",
        "name",
        "default_vhost",
        "vhost of `amq.rabbitmq.event`, to which events are published",
        |config, _, value| {
            if value.is_empty() {
                return Err("must name a vhost".to_owned());
            }
            config.event_exchange.vhost = Some(value.to_owned());
            Ok(())
        },
    ),
    key(
        "event_exchange.protocol",
        "amqp_0_9_1, amqp_1_0",
        "amqp_0_9_1",
        "form of events: properties as headers of AMQP 0-9-1, or as annotations of AMQP 1.0",
        |config, _, value| {
            config.event_exchange.amqp10 = Some(match value {
                "amqp_0_9_1" => false,
                "amqp_1_0" => true,
                other => return Err(format!("'{other}' is neither amqp_0_9_1 nor amqp_1_0")),
            });
            Ok(())
        },
    ),
    key(
        "tracing.dir",
        "path",
        "`traces` in the data directory",
        "directory of the files of traces",
        |config, _, value| {
            if value.is_empty() {
                return Err("must name a directory".to_owned());
            }
            config.trace_directory = Some(value.to_owned());
            Ok(())
        },
    ),
];
