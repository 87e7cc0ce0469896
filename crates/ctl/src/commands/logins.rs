//! Counters of logins since the node started.

use serde_json::{Value, json};

use super::{Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;
use crate::format::Formatter;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_node_auth_attempt_stats", CommandGroup::Monitoring, "[--by-source]", "Lists the numbers of successful and failed logins, by protocol", attempts),
];

fn attempts(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let by_source = call.has("by-source");
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Listing authentication\n attempts for node \"{name}\" ..."));
    let source = if by_source { "/source" } else { "" };
    let mut found = node.list(&format!("/api/auth/attempts/{}{source}", word(&name)))?;
    found.retain(|row| row["auth_attempts"] != json!(0));
    let value = json!({"node": name, "result": "ok", "attempts": found});
    if found.is_empty() {
        let text = format!("Node {name} reported no authentication attempt stats");
        return Ok(CommandOutput::Report { text, value });
    }
    if call.options.formatter == Formatter::Json {
        return Ok(CommandOutput::Report { text: String::new(), value });
    }
    let columns = ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"].map(str::to_owned);
    Ok(listed::rows(&columns, found, |_: &mut Value| {}))
}
