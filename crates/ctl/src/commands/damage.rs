//! Logs without an owner, which damage of the disk left behind. RabbitMQ has no such commands.

use serde_json::Value;

use super::set_aside::answer;
use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] = &["log", "message_bytes", "messages"];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_unowned_logs", CommandGroup::Queues, "[<column>...]", "Lists logs with messages that no queue owns, because their queue was lost with damaged metadata", list),
    Command::new(CTL, "delete_unowned_log", CommandGroup::Queues, "<log>", "Deletes a log that no queue owns, with its messages", delete),
];

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["log", "messages", "message_bytes"])?;
    call.say("Listing logs that no queue owns ...");
    let logs = match answer(&call.node()?.request("GET", "/api/unowned-logs", None)?)? {
        Value::Array(logs) => logs,
        _ => Vec::new(),
    };
    Ok(listed::rows(&columns, logs, |_| ()))
}

fn delete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let log = call.word("log").to_owned();
    call.say(&format!("Deleting log {log} and its messages ..."));
    let response = call.node()?.request("DELETE", &format!("/api/unowned-logs/{}", word(&log)), None)?;
    if response.status == 404 {
        return Err(Failure::Data(format!(
            "Error:\nthere is no log '{log}' without an owner; list_unowned_logs shows them"
        )));
    }
    answer(&response)?;
    Ok(CommandOutput::Done)
}
