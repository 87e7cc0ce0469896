//! Consumers.

use serde_json::Value;

use super::{Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] = &[
    "queue_name",
    "channel_pid",
    "consumer_tag",
    "ack_required",
    "prefetch_count",
    "active",
    "activity_status",
    "arguments",
];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_consumers", CommandGroup::Monitoring, "[<column>...]", "Lists all consumers of a vhost", list).in_vhost().columns(COLUMNS),
];

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, COLUMNS)?;
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Listing consumers in vhost {vhost} ..."));
    let found = match node.find(&format!("/api/consumers/{}", word(&vhost)))? {
        Some(Value::Array(found)) => found,
        _ => Vec::new(),
    };
    Ok(listed::rows(&columns, found, |consumer| {
        listed::copy(consumer, "/queue/name", "queue_name");
        listed::copy(consumer, "/channel_details/name", "channel_pid");
    }))
}
