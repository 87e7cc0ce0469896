use serde::{Deserialize, Serialize};

use crate::{Refused, RefusedKind};

/// The type of a queue, given by the argument `x-queue-type` of its declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// Not replicated: one node has it.
    #[default]
    Classic,
    /// Always durable and flushed to disk, with counted deliveries and priorities. Of one member so far.
    Quorum,
    /// A log that consumers read, and that settlements don't shorten. Of one member so far.
    Stream,
}

impl QueueType {
    /// All types.
    pub const ALL: [QueueType; 3] = [QueueType::Classic, QueueType::Quorum, QueueType::Stream];

    /// The value of `x-queue-type`, and its name in listings and definitions.
    pub fn name(self) -> &'static str {
        match self {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
            QueueType::Stream => "stream",
        }
    }

    /// Its name in RabbitMQ's metrics and errors.
    pub const fn label(self) -> &'static str {
        match self {
            QueueType::Classic => "rabbit_classic_queue",
            QueueType::Quorum => "rabbit_quorum_queue",
            QueueType::Stream => "rabbit_stream_queue",
        }
    }

    /// The type with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|queue_type| queue_type.name() == name)
    }
}

/// The types of which queues can be declared, as the node's operator chose (`queue_types.*.enabled`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledTypes {
    /// Classic queues.
    pub classic: bool,
    /// Quorum queues.
    pub quorum: bool,
    /// Streams.
    pub stream: bool,
}

impl Default for EnabledTypes {
    fn default() -> Self {
        Self { classic: true, quorum: true, stream: true }
    }
}

impl EnabledTypes {
    /// Whether queues of this type can be declared.
    pub fn has(self, queue_type: QueueType) -> bool {
        match queue_type {
            QueueType::Classic => self.classic,
            QueueType::Quorum => self.quorum,
            QueueType::Stream => self.stream,
        }
    }

    /// Refuses a new queue of a type that is switched off.
    pub(crate) fn check(self, vhost: &str, name: &str, queue_type: QueueType) -> Result<(), Refused> {
        if self.has(queue_type) {
            return Ok(());
        }
        // RabbitMQ names its node behind the type, and a feature flag that doesn't exist.
        let text = format!(
            "Cannot declare a queue 'queue '{name}' in vhost '{vhost}'' of type '{}': such queues are switched off by \
             queue_types.{}.enabled",
            queue_type.label(),
            queue_type.name()
        );
        Err(Refused::new(RefusedKind::InternalError, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_types() {
        for queue_type in QueueType::ALL {
            assert_eq!(QueueType::parse(queue_type.name()), Some(queue_type));
            assert_eq!(serde_json::to_value(queue_type).expect("has a JSON form"), queue_type.name());
            assert_eq!(queue_type.label(), format!("rabbit_{}_queue", queue_type.name()));
        }
        assert_eq!(QueueType::parse("Classic"), None);
        assert_eq!(QueueType::parse(""), None);
    }
}
