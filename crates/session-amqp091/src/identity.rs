//! The broker's identity and capabilities as sent to clients: only capabilities that work.

use leveret_amqp091::FieldTable;

use leveret_broker::settings::Settings;

/// Capabilities that work, by RabbitMQ's names.
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// `server-properties` of `connection.start`.
pub(crate) fn server_properties(settings: &Settings) -> FieldTable {
    let mut capabilities = FieldTable::new();
    for name in CAPABILITIES {
        capabilities.insert(name, true);
    }
    FieldTable::new()
        .with("capabilities", capabilities)
        .with("cluster_name", settings.cluster_name.as_str())
        .with("information", settings.information.as_str())
        .with("platform", settings.platform.as_str())
        .with("product", settings.product.as_str())
        .with("version", settings.version.as_str())
}
