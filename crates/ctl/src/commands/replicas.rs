//! Commands for replicated queues: for other queues they are refused as in RabbitMQ.

use serde_json::json;

use super::{Command, CommandGroup, REPLICAS};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(REPLICAS, "quorum_status", CommandGroup::Monitoring, "<queue>", "Displays the replicas of a quorum queue, and refuses other queues", quorum_status).in_vhost(),
    Command::new(REPLICAS, "reclaim_quorum_memory", CommandGroup::Operations, "<queue>", "Frees memory of a quorum queue, and refuses other queues", reclaim).in_vhost(),
    Command::new(REPLICAS, "check_if_new_quorum_queue_replicas_have_finished_initial_sync", CommandGroup::Monitoring, "", "Exits with a non-zero code if a replica of a quorum queue hasn't caught up yet", new_replicas),
];

const QUORUM: &str = "quorum";
/// RabbitMQ's columns of a member of a quorum queue.
pub(super) const MEMBER: [&str; 9] = [
    "Node Name",
    "Raft State",
    "Membership",
    "Last Log Index",
    "Last Written",
    "Last Applied",
    "Commit Index",
    "Snapshot Index",
    "Term",
];

/// The type of a queue; `None` if it isn't there.
pub(super) fn kind(call: &Call<'_>, queue: &str) -> Result<Option<String>, Failure> {
    let found = call.node()?.find(&format!("/api/queues/{}/{}", word(&call.vhost()), word(queue)))?;
    Ok(found.map(|found| found["type"].as_str().unwrap_or("classic").to_owned()))
}

fn quorum_status(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (queue, vhost, name) = (call.word("queue").to_owned(), call.vhost(), call.node()?.name());
    call.say(&format!("Status of queue {queue} on node {name} ..."));
    let absent = || Failure::Data(format!("queue '{queue}' was not found in virtual host '{vhost}'"));
    let kind = kind(call, &queue)?.ok_or_else(absent)?;
    if kind != QUORUM {
        return Err(Failure::check(&format!("Cannot get quorum status of a {kind} queue")));
    }
    let path = format!("/api/queues/quorum/{}/{}/status", word(&vhost), word(&queue));
    let members = call.node()?.find(&path)?.and_then(|found| found.as_array().cloned()).unwrap_or_default();
    Ok(Rows::pick(&MEMBER.map(str::to_owned), members).into())
}

fn reclaim(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (queue, vhost) = (call.word("queue").to_owned(), call.vhost());
    call.say(&format!("Will garbage collect quorum queue {queue} ..."));
    let absent = || Failure::check(&format!("Target queue was not found in virtual host '{vhost}'"));
    let kind = kind(call, &queue)?.ok_or_else(absent)?;
    if kind == QUORUM {
        // There is nothing to free: memory of messages that left is free at once.
        return Ok(CommandOutput::Done);
    }
    Err(Failure::check(&format!("This operation is not applicable to {kind} queues")))
}

fn new_replicas(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.node()?.name();
    call.say(&format!("Checking if node {name} runs promotable replicas of any queues ..."));
    Ok(CommandOutput::Report {
        text: format!("Node {name} reported no queues with promotable replicas"),
        value: json!({"result": "ok"}),
    })
}
