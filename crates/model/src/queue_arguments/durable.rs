//! Rules for quorum queues and streams, which are always durable.

use super::Properties;
use crate::{QueueType, Refused, RefusedKind};

/// Refuses a name that the broker generated. An import may contain names of that form that were not generated, but
/// RabbitMQ has no such queue with one.
pub(super) fn check_name(queue: &str, queue_type: QueueType, properties: Properties) -> Result<(), Refused> {
    match properties.server_named && queue.starts_with("amq.") {
        true => {
            Err(Refused::precondition(format!("Cannot declare a server-named queue for type {}", queue_type.label())))
        }
        false => Ok(()),
    }
}

/// Refuses the properties that these queues can't have. Of several, RabbitMQ names the first in this order.
pub(super) fn check_properties(vhost: &str, queue: &str, properties: Properties) -> Result<(), Refused> {
    let wrong = match properties {
        Properties { auto_delete: true, .. } => "auto-delete",
        Properties { exclusive: true, .. } => "exclusive-owner",
        Properties { durable: false, .. } => "non-durable",
        _ => return Ok(()),
    };
    let text = format!("invalid property '{wrong}' for queue '{queue}' in vhost '{vhost}'");
    Err(Refused::new(RefusedKind::WrongProperty, text))
}
