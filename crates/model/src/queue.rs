use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Arguments, ConnectionId, QueueId};

/// What a queue was declared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// This incarnation.
    pub id: QueueId,
    /// The vhost it lives in.
    pub vhost: Arc<str>,
    /// Its name there.
    pub name: Arc<str>,
    /// Whether it was declared durable.
    pub durable: bool,
    /// Whether it goes with its last consumer.
    pub auto_delete: bool,
    /// The connection that declared it exclusive: nobody else may touch it, and it goes with it.
    #[serde(skip)]
    pub exclusive_owner: Option<ConnectionId>,
    /// The arguments of the declaration, with the type that RabbitMQ adds.
    pub arguments: Arguments,
    /// What the arguments mean.
    #[serde(skip)]
    pub options: QueueOptions,
}

impl Queue {
    /// Whether it survives a restart: durable and not exclusive.
    pub fn is_logged(&self) -> bool {
        self.durable && self.exclusive_owner.is_none()
    }

    /// Whether it belongs to a connection.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive_owner.is_some()
    }
}

/// What a queue does when a message would exceed its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drops messages from the head.
    #[default]
    DropHead,
    /// Refuses the new message.
    RejectPublish,
}

/// The effective arguments of a queue: one function of its arguments (later: and of policies).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// Most ready messages.
    pub max_length: Option<u64>,
    /// Most bytes of bodies of ready messages.
    pub max_length_bytes: Option<u64>,
    /// What happens at the limit.
    pub overflow: Overflow,
}

impl QueueOptions {
    /// What these arguments mean. They have been checked when the queue was declared.
    pub fn effective(arguments: &Arguments) -> Self {
        let limit = |key| arguments.get(key)?.as_int().and_then(|n| u64::try_from(n).ok());
        QueueOptions {
            max_length: limit("x-max-length"),
            max_length_bytes: limit("x-max-length-bytes"),
            overflow: match arguments.get("x-overflow").and_then(|value| value.as_str()) {
                Some("reject-publish") => Overflow::RejectPublish,
                _ => Overflow::DropHead,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn options_follow_from_arguments() {
        let arguments =
            Arguments::from_iter([("x-max-length", Value::Int(5)), ("x-overflow", Value::from("reject-publish"))]);
        let options = QueueOptions::effective(&arguments);
        assert_eq!(options.max_length, Some(5));
        assert_eq!(options.max_length_bytes, None);
        assert_eq!(options.overflow, Overflow::RejectPublish);
        assert_eq!(QueueOptions::effective(&Arguments::default()), QueueOptions::default());
    }
}
