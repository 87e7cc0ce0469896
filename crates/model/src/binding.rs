use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exchange::{ExchangeType, HeadersMatch};
use crate::hash_on::hash_weight;
use crate::value::text;
use crate::{Arguments, ExchangeId, QueueId, QueueType, Refused};

/// Most `#` in a topic binding key, as in RabbitMQ since 4.3.5: with more of them, matching gets slower than linear.
pub const TOPIC_HASHES_MAX: usize = 2;

/// The destination of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Destination {
    /// A queue.
    Queue {
        /// Its name.
        name: Arc<str>,
        /// Its incarnation.
        id: QueueId,
    },
    /// Another exchange.
    Exchange {
        /// Its name.
        name: Arc<str>,
        /// Its incarnation.
        id: ExchangeId,
    },
}

impl Destination {
    /// The name of the queue or exchange.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Destination::Queue { name, .. } | Destination::Exchange { name, .. } => name,
        }
    }

    /// `queue` or `exchange`, as in the HTTP API.
    pub fn kind(&self) -> &'static str {
        match self {
            Destination::Queue { .. } => "queue",
            Destination::Exchange { .. } => "exchange",
        }
    }
}

/// A binding; source, destination, key and arguments identify it within its vhost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Binding {
    /// The vhost of both ends.
    pub vhost: Arc<str>,
    /// The name of the source exchange.
    pub source: Arc<str>,
    /// The destination.
    pub destination: Destination,
    /// The binding key.
    #[serde(with = "text")]
    pub routing_key: Arc<[u8]>,
    /// Its arguments; a headers exchange compares them with messages.
    pub arguments: Arguments,
    /// The incarnation of the source.
    pub source_id: ExchangeId,
    /// Whether it survives a restart. It does if both ends do.
    pub logged: bool,
}

/// Whether an exchange of this type can evaluate the binding. `queue` is the type of its destination, if that is a queue.
pub(crate) fn check(
    kind: ExchangeType,
    key: &[u8],
    arguments: &Arguments,
    queue: Option<QueueType>,
) -> Result<(), Refused> {
    arguments.check_depth()?;
    match kind {
        ExchangeType::Topic => {
            let hashes = key.split(|byte| *byte == b'.').filter(|word| *word == b"#").count();
            if hashes > TOPIC_HASHES_MAX {
                return Err(Refused::precondition(format!(
                    "Topic binding key '{}' uses {hashes} '#' wildcards, at most {TOPIC_HASHES_MAX} are allowed",
                    String::from_utf8_lossy(key)
                )));
            }
            Ok(())
        }
        ExchangeType::Headers => HeadersMatch::of(arguments).map(drop),
        ExchangeType::ConsistentHash => hash_weight(key).map(drop),
        ExchangeType::LocalRandom => check_local(key, queue),
        ExchangeType::Direct
        | ExchangeType::Fanout
        | ExchangeType::ModulusHash
        | ExchangeType::Random
        | ExchangeType::RecentHistory => Ok(()),
        ExchangeType::Delayed | ExchangeType::Deduplication => unreachable!("it routes by another type"),
    }
}

/// A local random exchange takes classic queues only, and no keys.
fn check_local(key: &[u8], queue: Option<QueueType>) -> Result<(), Refused> {
    let text = match queue {
        _ if !key.is_empty() => {
            format!("Non empty binding '{}' key not permitted", String::from_utf8_lossy(key))
        }
        None => "Destination not found".to_owned(),
        Some(QueueType::Classic) => return Ok(()),
        Some(other) => format!("Queue type {} not valid for this exchange type", other.label()),
    };
    Err(Refused::precondition(text))
}
