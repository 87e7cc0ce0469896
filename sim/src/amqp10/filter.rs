//! Filters of receivers on classic and quorum queues: by the message-id, which every second message has.

use leveret_amqp10::OwnedValue;
use leveret_amqp10::value::{EncodedMap, OwnedMap};

use super::message::described;
use crate::body;
use crate::ledger::MessageId;
use crate::random::Random;

/// A filter of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Messages with a message-id, by an SQL filter.
    WithId,
    /// Messages without one, by a JMS selector.
    WithoutId,
    /// Messages with a message-id that ends in this digit, by a filter on properties.
    EndsIn(u64),
}

impl Filter {
    /// One of them. Few messages match the last one.
    pub(super) fn any(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::WithId,
            1 => Self::WithoutId,
            _ => Self::EndsIn(2 * random.below(5) + 1),
        }
    }

    /// Whether the receiver is to get this message.
    pub(super) fn matches(self, message: MessageId) -> bool {
        let id = body::message_id(message);
        match self {
            Self::WithId => id.is_some(),
            Self::WithoutId => id.is_none(),
            Self::EndsIn(digit) => id.is_some_and(|id| id.ends_with(&digit.to_string())),
        }
    }

    /// The filter of a source.
    pub(super) fn encode(self) -> EncodedMap {
        let text = |text: &str| OwnedValue::String(text.into());
        match self {
            Self::WithId => described("sql-filter", "amqp:sql-filter", text("properties.message_id IS NOT NULL")),
            Self::WithoutId => {
                described("jms-selector", "apache.org:selector-filter:string", text("JMSMessageID IS NULL"))
            }
            Self::EndsIn(digit) => {
                let field = (OwnedValue::Symbol("message-id".into()), text(&format!("&s:{digit}")));
                described("fields", "amqp:properties-filter", OwnedValue::Map(OwnedMap(vec![field])))
            }
        }
    }
}
