//! Objects that wait or go wrong, and why: the sentences of the API.

use serde_json::Value;

use super::{Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::failure::Failure;

const COLUMNS: &[&str] = &["severity", "kind", "vhost", "name", "code", "short", "seconds", "text", "advice"];
const USUAL: &[&str] = &["severity", "kind", "vhost", "name", "text", "advice"];

/// Most objects that are listed: the API's limit.
const OBJECTS_MAX: usize = 500;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_waiting", CommandGroup::Monitoring, "[<column>...]", "Lists what waits or goes wrong in all virtual hosts, the worst first, with the cause and what to do", list).columns(COLUMNS),
];

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, USUAL)?;
    let node = call.node()?;
    call.say("Listing what waits, and why ...");
    let answer = node.get(&format!("/api/attention?limit={OBJECTS_MAX}"))?;
    let found: Vec<Value> = answer["items"].as_array().cloned().unwrap_or_default();
    Ok(listed::rows(&columns, found, |_| {}))
}
