/// Settings in [`crate::Config::event_exchange`]: of the exchange to which the node's events are published.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventExchange {
    /// `event_exchange.vhost`; `None` for `default_vhost`.
    pub vhost: Option<String>,
    /// `event_exchange.protocol`: whether events are messages of AMQP 1.0 instead of AMQP 0-9-1; `None` if unset.
    pub amqp10: Option<bool>,
}
