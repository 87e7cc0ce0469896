//! Declaring, deleting and purging queues.

use leveret_broker::DeleteIf;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Action, Command, CommandOutcome, DeclareQueue, DeleteQueue, without_line_ends};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, no_content, put as created};
use crate::error::Error;
use crate::fields;

/// PUT: responds with 201 for a new queue, 204 for an equivalent existing one.
pub(crate) async fn declare(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), &*without_line_ends(call.word(1)));
    let body = call.object()?;
    let arguments = fields::arguments(&body)?;
    let dead_letter_exchange = arguments.get("x-dead-letter-exchange").and_then(|value| value.as_str());
    let permit = call.permit(vhost, Action::DeclareQueue { queue: name, dead_letter_exchange })?;
    fields::check_node(&body, call.api.name())?;
    let command = Command::DeclareQueue(DeclareQueue {
        vhost: vhost.into(),
        name: name.into(),
        server_named: false,
        durable: fields::flag_or(&body, "durable", true)?,
        auto_delete: fields::flag(&body, "auto_delete")?,
        exclusive: false,
        connection: None,
        arguments: arguments.clone(),
    });
    created(call.api.submit(permit, command).await? == CommandOutcome::Created)
}

/// DELETE, optionally only if it is unused or empty.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let registry = &call.api.broker().registry;
    let snapshot = registry.snapshot_full();
    snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    let permit = call.identity.permit(&snapshot.topology, vhost, Action::DeleteQueue(name))?;
    let command = DeleteQueue { vhost: vhost.into(), name: name.into(), connection: None, id: None };
    let condition = DeleteIf { unused: call.asks("if-unused"), empty: call.asks("if-empty"), expired: false };
    call.api.delete(ChangeRequest::delete_queue(permit, command, condition)).await?;
    no_content()
}

/// DELETE of the contents: purges the queue.
pub(crate) async fn purge(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    call.identity.permit(&snapshot.topology, vhost, Action::Consume(name))?;
    snapshot.topology.visible_queue(vhost, name, None)?;
    let queue = queue.check_purge()?;
    let purged = call.api.answer(queue.purge(call.api.node().clock().monotonic())).await?;
    let (_, ticket) = purged.ok_or_else(|| queue.not_removed())?;
    call.api.durable(ticket).await?;
    no_content()
}

/// POST: actions that RabbitMQ once had for mirrors. None are left.
pub(crate) async fn actions(call: Call) -> HandlerResult {
    let body = call.object()?;
    fields::require(&body, &["action"])?;
    call.topology().queue(call.word(0), call.word(1)).ok_or(Error::NotFound)?;
    Err(Error::BadRequestOf(json!(["unknown", body.get("action").unwrap_or(&Value::Null)])))
}
