use serde::{Deserialize, Serialize};

/// The type of a queue, given by the argument `x-queue-type` of its declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// Not replicated: one node has it.
    #[default]
    Classic,
    /// Always durable and flushed to disk, with counted deliveries and priorities. Of one member so far.
    Quorum,
    /// A log that consumers read and that settlements don't shorten. Only the name is known; a declaration is
    /// refused.
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

    /// Whether queues of this type can be declared.
    pub fn is_built(self) -> bool {
        self != QueueType::Stream
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
