//! A will.

use std::sync::Arc;

use leveret_mqtt::{PropertyId, PropertyWriter, QoS, Will};

/// The message that is published when the connection ends without a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredWill {
    pub topic: Box<str>,
    pub qos: QoS,
    pub retain: bool,
    pub properties: Box<[u8]>,
    pub payload: Box<[u8]>,
    pub delay_s: u32,
}

impl StoredWill {
    pub(crate) fn new(will: &Will<'_>) -> Self {
        let mut properties = Vec::new();
        let mut writer = PropertyWriter::begin(&mut properties);
        for property in will.properties.iter().filter(|property| property.id != PropertyId::WillDelayInterval) {
            writer.property(&property);
        }
        Self {
            topic: will.topic.into(),
            qos: will.qos,
            retain: will.retain,
            properties: properties.into(),
            payload: will.payload.into(),
            delay_s: will.properties.number(PropertyId::WillDelayInterval).unwrap_or(0),
        }
    }
}

/// The name of the queue in which the delayed will of a client waits.
pub(crate) fn queue_name(client_id: &str) -> Arc<str> {
    format!("mqtt-will-{client_id}").into()
}
