//! Bindings.

use serde_json::Value;

use super::{Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] =
    &["source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments", "vhost"];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_bindings", CommandGroup::Monitoring, "[<column>...]", "Lists all bindings of a vhost", list).in_vhost().columns(COLUMNS),
];

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &COLUMNS[..6])?;
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Listing bindings for vhost {vhost}..."));
    let found = match node.find(&format!("/api/bindings/{}", word(&vhost)))? {
        Some(Value::Array(found)) => found,
        _ => Vec::new(),
    };
    Ok(listed::rows(&columns, found, |binding| {
        for (from, to) in [
            ("/source", "source_name"),
            ("/destination", "destination_name"),
            ("/destination_type", "destination_kind"),
        ] {
            listed::copy(binding, from, to);
        }
        binding["source_kind"] = "exchange".into();
    }))
}
