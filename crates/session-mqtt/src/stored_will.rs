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

/// The will of a connection.
#[derive(Debug, Default)]
pub(crate) struct OwnWill {
    will: Option<Box<StoredWill>>,
    is_recorded: bool,
}

impl OwnWill {
    /// The client leaves this will, or none.
    pub(crate) fn set(&mut self, will: Option<&Will<'_>>) {
        self.will = will.map(|will| Box::new(StoredWill::new(will)));
    }

    /// It isn't published.
    pub(crate) fn drop_it(&mut self) {
        self.will = None;
    }

    pub(crate) fn get(&self) -> Option<&StoredWill> {
        self.will.as_deref()
    }

    /// The will, which is published now.
    pub(crate) fn take(&mut self) -> Option<Box<StoredWill>> {
        self.will.take()
    }

    /// Whether there is a record of it.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// There is a record of it, or none any more.
    pub(crate) fn set_recorded(&mut self, is_recorded: bool) {
        self.is_recorded = is_recorded;
    }

    /// Whether there was a record of it, which another one ends.
    pub(crate) fn take_recorded(&mut self) -> bool {
        std::mem::take(&mut self.is_recorded)
    }
}

/// The name of the queue in which the delayed will of a client waits.
pub(crate) fn queue_name(client_id: &str) -> Arc<str> {
    format!("mqtt-will-{client_id}").into()
}
