//! State that all MQTT connections of a node share.

use super::client_ids::ClientIds;
use super::open_connections::OpenConnections;
use super::retained::RetainedMessages;
use super::settings::MqttSettings;

/// Settings, client ids and retained messages.
#[derive(Default)]
pub(crate) struct Shared {
    pub settings: MqttSettings,
    pub client_ids: ClientIds,
    pub retained: RetainedMessages,
    pub open: OpenConnections,
}
