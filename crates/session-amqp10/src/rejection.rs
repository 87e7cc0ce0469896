//! The reason of a rejected message, and errors in their form for frames.

use leveret_amqp10::{Error, Symbol, condition, value::EncodedMap};

use super::error::Failure;

/// Calls `send` with the error of a message that a queue refused: RabbitMQ's condition and info keys.
pub(crate) fn with_refusal(queue: &str, reason: &str, send: impl FnOnce(Error<'_>)) {
    let mut info = EncodedMap::new();
    info.push_symbol("queue", queue);
    info.push_symbol("reason", Symbol::new(reason));
    let condition =
        if reason == "unavailable" { condition::PRECONDITION_FAILED } else { condition::RESOURCE_LIMIT_EXCEEDED };
    // Clients show the description to their users, so RabbitMQ's words are used if it has some.
    let description = match reason {
        "maxlen" => format!("queue '{queue}' exceeded maximum length"),
        reason => format!("queue '{queue}' refused the message: {reason}"),
    };
    send(Error { condition, description: Some(&description), info: Some(info.as_map()) });
}

/// Calls `send` with a failure in the form of the specification (2.8.14).
pub(crate) fn with_error<R>(failure: &Failure, send: impl FnOnce(Error<'_>) -> R) -> R {
    let condition: Symbol<'_> = failure.condition;
    let description = Some(failure.description.as_str());
    let Some(tag) = &failure.delivery_tag else { return send(Error { condition, description, info: None }) };
    let mut info = EncodedMap::new();
    info.push_symbol("delivery-tag", tag.as_slice());
    send(Error { condition, description, info: Some(info.as_map()) })
}

#[cfg(test)]
mod tests {
    use super::with_refusal;
    use leveret_amqp10::condition;

    #[test]
    fn a_full_queue_is_named_in_rabbitmqs_words() {
        with_refusal("q", "maxlen", |error| {
            assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
            assert_eq!(error.description, Some("queue 'q' exceeded maximum length"));
        });
    }
}
