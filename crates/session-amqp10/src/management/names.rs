//! Checks of names, in the order and the words of RabbitMQ's.

use super::refusal::{Refusal, Result, Status};

/// Names are short strings in AMQP 0-9-1.
const NAME_BYTES_MAX: usize = 255;

/// A name that can be declared at all.
pub(super) fn check_text(name: &str) -> Result<()> {
    if name.contains(['\n', '\r']) {
        return Err(Refusal::bad_request(format!(
            "Bad name '{name}': line feed and carriage return characters not allowed"
        )));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::bad_request(format!(
            "Bad name '{name}': it has {} bytes, at most {NAME_BYTES_MAX} are allowed",
            name.len()
        )));
    }
    Ok(())
}

/// A name that isn't the broker's own.
pub(super) fn check_not_reserved(kind: &str, vhost: &str, name: &str) -> Result<()> {
    if name.starts_with("amq.") {
        return Err(Refusal::Answer(
            Status::Forbidden,
            format!("{kind} '{name}' in vhost '{vhost}' starts with reserved prefix 'amq.'"),
        ));
    }
    Ok(())
}

/// An exchange that can be changed.
pub(super) fn check_not_default(exchange: &str) -> Result<()> {
    if exchange.is_empty() {
        return Err(Refusal::Answer(Status::Forbidden, "operation not permitted on the default exchange".to_owned()));
    }
    Ok(())
}
