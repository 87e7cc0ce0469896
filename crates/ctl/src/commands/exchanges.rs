//! Exchanges.

use super::{Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] = &["name", "type", "durable", "auto_delete", "internal", "arguments", "policy", "vhost"];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_exchanges", CommandGroup::Monitoring, "[<column>...]", "Lists exchanges", list).in_vhost().columns(COLUMNS),
];

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["name", "type"])?;
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Listing exchanges for vhost {vhost} ..."));
    let found = match node.find(&format!("/api/exchanges/{}", word(&vhost)))? {
        Some(serde_json::Value::Array(found)) => found,
        _ => Vec::new(),
    };
    Ok(listed::rows(&columns, found, |_| {}))
}
