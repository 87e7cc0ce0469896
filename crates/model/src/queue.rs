use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Arguments, ConnectionId, Home, QueueId, QueueType, queue_arguments};

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
    /// The user who declared it; empty for the broker itself, and on what was declared before this was noted.
    #[serde(default = "nobody", skip_serializing_if = "str::is_empty")]
    pub declared_by: Arc<str>,
    /// The machine behind it.
    #[serde(rename = "type", default, skip_serializing_if = "is_default")]
    pub queue_type: QueueType,
    /// The place of its messages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub home: Home,
    /// What the arguments mean.
    #[serde(skip)]
    pub options: QueueOptions,
}

fn nobody() -> Arc<str> {
    "".into()
}

/// Whether a record leaves the field out: one of a release that didn't have the field reads the same.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Queue {
    /// Whether it survives a restart: durable and not exclusive.
    pub fn is_logged(&self) -> bool {
        self.durable && self.exclusive_owner.is_none()
    }

    /// The machine behind it.
    pub fn queue_type(&self) -> QueueType {
        self.queue_type
    }

    /// What a confirm means, on a node whose queues have this durability unless they say otherwise.
    pub fn durability(&self, default: Durability) -> Durability {
        match self.is_logged() {
            true => self.options.durability.unwrap_or(default),
            false => Durability::Memory,
        }
    }

    /// Whether it belongs to a connection.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive_owner.is_some()
    }
}

/// What a confirm of a persistent message means in a queue that survives a restart, and so what becomes of it then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It is flushed to disk: it survives a power cut.
    #[default]
    Synced,
    /// It is written: the operating system has it. It survives the process, and a power cut may take it.
    Os,
    /// It is in memory: it doesn't survive a restart.
    Memory,
}

impl Durability {
    /// All of them, the strongest first.
    pub const ALL: [Durability; 3] = [Durability::Synced, Durability::Os, Durability::Memory];

    /// As arguments and keys name it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Synced => "synced",
            Durability::Os => "os",
            Durability::Memory => "memory",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|durability| durability.name() == name)
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
    /// Refuses the new message, which goes to the dead-letter exchange.
    RejectPublishDlx,
}

/// Where dead letters go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterOptions {
    /// Name of the exchange; empty for the default one. It needn't exist.
    pub exchange: Arc<str>,
    /// The routing key that they get; without one they keep their own.
    pub routing_key: Option<Arc<str>>,
}

/// The effective arguments of a queue: one function of its arguments (later: and of policies).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// The machine behind the queue.
    pub queue_type: QueueType,
    /// Most ready messages.
    pub max_length: Option<u64>,
    /// Most bytes of bodies of ready messages.
    pub max_length_bytes: Option<u64>,
    /// What happens at the limit.
    pub overflow: Overflow,
    /// Milliseconds that a message may stay; its own time to live, if lower, counts instead.
    pub message_ttl_ms: Option<u64>,
    /// Milliseconds after which the queue goes, when nobody uses it.
    pub expires_ms: Option<u64>,
    /// What a confirm means; without it, what the node's setting says.
    pub durability: Option<Durability>,
    /// Where messages go that are rejected, expire or don't fit; without it they are dropped.
    pub dead_letter: Option<DeadLetterOptions>,
}

impl QueueOptions {
    /// What these arguments mean. They have been checked when the queue was declared.
    pub fn effective(arguments: &Arguments) -> Self {
        let limit = |key| arguments.get(key)?.as_int().and_then(|n| u64::try_from(n).ok());
        let text = |key| arguments.get(key).and_then(|value| value.as_str());
        QueueOptions {
            queue_type: queue_arguments::queue_type(arguments),
            max_length: limit("x-max-length"),
            max_length_bytes: limit("x-max-length-bytes"),
            overflow: match text("x-overflow") {
                Some("reject-publish") => Overflow::RejectPublish,
                Some("reject-publish-dlx") => Overflow::RejectPublishDlx,
                _ => Overflow::DropHead,
            },
            message_ttl_ms: limit("x-message-ttl"),
            expires_ms: limit("x-expires"),
            durability: text("x-durability").and_then(Durability::parse),
            dead_letter: text("x-dead-letter-exchange").map(|exchange| DeadLetterOptions {
                exchange: exchange.into(),
                routing_key: text("x-dead-letter-routing-key").map(Into::into),
            }),
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
        assert_eq!(options.dead_letter, None);
        assert_eq!(QueueOptions::effective(&Arguments::default()), QueueOptions::default());
        let arguments = Arguments::from_iter([
            ("x-dead-letter-exchange", Value::from("")),
            ("x-dead-letter-routing-key", Value::from("dead")),
            ("x-overflow", Value::from("reject-publish-dlx")),
        ]);
        let options = QueueOptions::effective(&arguments);
        assert_eq!(options.overflow, Overflow::RejectPublishDlx);
        let dead_letter = options.dead_letter.expect("the default exchange is one");
        assert_eq!((&*dead_letter.exchange, dead_letter.routing_key.as_deref()), ("", Some("dead")));
    }
}
