//! Checks of names, in RabbitMQ's order and words.

use super::refusal::{Refusal, Result, Status};

/// Names are short strings in AMQP 0-9-1.
const NAME_BYTES_MAX: usize = 255;

/// Refuses a name that can't be declared at all.
pub(crate) fn check_text(name: &str) -> Result<()> {
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

/// Refuses a name that is reserved for the broker.
pub(crate) fn check_not_reserved(kind: &str, vhost: &str, name: &str) -> Result<()> {
    if name.starts_with("amq.") {
        return Err(Refusal::Answer(
            Status::Forbidden,
            format!("{kind} '{name}' in vhost '{vhost}' starts with reserved prefix 'amq.'"),
        ));
    }
    Ok(())
}

/// Refuses to change the default exchange.
pub(crate) fn check_not_default(exchange: &str) -> Result<()> {
    if exchange.is_empty() {
        return Err(Refusal::Answer(Status::Forbidden, "operation not permitted on the default exchange".to_owned()));
    }
    Ok(())
}
