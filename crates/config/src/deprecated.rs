//! Features of RabbitMQ that it deprecates.

/// Settings in [`crate::Config::deprecated`]: whether features are permitted (`deprecated_features.permit.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeprecatedSettings {
    /// `global_qos`: a prefetch that the consumers of a channel share. `None` if it isn't said.
    pub global_qos: Option<bool>,
    /// `queue_master_locator`: the argument `x-queue-master-locator`.
    pub master_locator: bool,
    /// `transient_nonexcl_queues`: queues that are neither durable nor exclusive.
    pub transient_queues: bool,
}

impl Default for DeprecatedSettings {
    fn default() -> Self {
        Self { global_qos: None, master_locator: false, transient_queues: true }
    }
}
