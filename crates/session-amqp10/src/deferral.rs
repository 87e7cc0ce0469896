//! Messages that a receiver deferred, fetched by their tokens: the property `rabbitmq:deferral-tokens` of a flow, as in RabbitMQ's next
//! version.

use leveret_amqp10::{Symbol, condition, performative::Flow, value::Value};
use leveret_broker::queue_handle::QueueRef;
use leveret_message::deferral_token;
use leveret_model::QueueType;

use super::error::{Failure, Result};
use super::link::Link;

/// The property of a flow, and the capability of a link.
pub(crate) const TOKENS: Symbol<'static> = Symbol::new("rabbitmq:deferral-tokens");
/// Most tokens of a flow.
const TOKENS_MAX: usize = 256;

/// Whether a receiver of this queue can fetch deferred messages.
pub(crate) fn is_offered(queue: &QueueRef, browses: bool) -> bool {
    queue.info().queue_type == QueueType::Quorum && !browses
}

/// Claims the messages that a flow asks for, if it does.
pub(crate) fn claim(link: &Link, flow: &Flow<'_>) -> Result<()> {
    let Some(value) = flow.properties.and_then(|properties| properties.lookup(TOKENS.as_str())) else { return Ok(()) };
    let tokens = tokens(value)?;
    match link {
        Link::Consumer(consumer)
            if is_offered(consumer.queue(), consumer.browses())
                && let Some(queue) = consumer.queue().as_ledger() =>
        {
            queue.claim(consumer.id(), &tokens);
            Ok(())
        }
        // It is about to be detached.
        Link::Left | Link::Detached => Ok(()),
        _ => {
            let text = format!(
                "the property {TOKENS} of a flow is for receivers that take messages from a quorum queue: this link doesn't offer it"
            );
            Err(Failure::session(condition::NOT_IMPLEMENTED, text))
        }
    }
}

fn tokens(value: Value<'_>) -> Result<Vec<Box<str>>> {
    let invalid = |text: String| Failure::session(condition::INVALID_FIELD, text);
    let Value::Array(array) = value else {
        return Err(invalid(format!("the property {TOKENS} has to be an array of strings (utf8), and is {value:?}")));
    };
    if array.len() > TOKENS_MAX {
        return Err(invalid(format!("{} values of the property {TOKENS} are more than {TOKENS_MAX}", array.len())));
    }
    let token =
        |item| deferral_token(item).map(Into::into).map_err(|bad| invalid(format!("the property {TOKENS}: {bad}")));
    array.iter().map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp10::OwnedValue;
    use leveret_amqp10::value::OwnedArray;

    fn parsed(items: Vec<OwnedValue>) -> std::result::Result<usize, String> {
        let mut bytes = Vec::new();
        OwnedValue::Array(OwnedArray::new(items).expect("they are alike")).encode(&mut bytes);
        let value = Value::decode_all(&bytes).expect("it is one");
        tokens(value).map(|tokens| tokens.len()).map_err(|failure| failure.description.clone())
    }

    #[test]
    fn tokens_are_an_array_of_at_most_256_strings() {
        let text = |length: usize| OwnedValue::String("t".repeat(length));
        assert_eq!(parsed(vec![text(256), text(0)]), Ok(2));
        assert_eq!(parsed(vec![text(3); 256]), Ok(256));
        assert!(parsed(vec![text(3); 257]).unwrap_err().starts_with("257 values"));
        assert!(parsed(vec![text(257)]).unwrap_err().contains("257 bytes"));
        assert!(parsed(vec![OwnedValue::Symbol("t".into())]).unwrap_err().contains("has to be a string"));
        assert!(tokens(Value::String("t")).is_err());
    }
}
