/// Settings in [`crate::Config::event_exchange`]: of the exchange to which the node's events are published.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventExchange {
    /// `event_exchange.vhost`; `None` for `default_vhost`.
    pub vhost: Option<String>,
    /// `event_exchange.protocol`: whether events are messages of AMQP 1.0 instead of AMQP 0-9-1; `None` if unset.
    pub amqp10: Option<bool>,
}

impl crate::Config {
    /// Whether there is an exchange for events: the plugin is enabled, or a setting of the exchange was made.
    #[must_use]
    pub fn has_event_exchange(&self) -> bool {
        self.event_exchange != EventExchange::default() || self.plugins.is_running("rabbitmq_event_exchange")
    }
}
