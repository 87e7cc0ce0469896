//! Topic permissions of users.

use serde_json::json;

use super::granted::Granted;
use super::{CTL, Command, CommandGroup, LOOK};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_topic_permissions", CommandGroup::Access, "<username> <exchange> <write> <read>", "Sets user topic permissions for an exchange", set).in_vhost(),
    Command::new(CTL, "clear_topic_permissions", CommandGroup::Access, "<username> [<exchange>]", "Clears user topic permissions for a vhost or exchange", clear).in_vhost(),
    Command::new(LOOK, "list_topic_permissions", CommandGroup::Access, "", "Lists topic permissions in a virtual host", list).in_vhost(),
    Command::new(LOOK, "list_user_topic_permissions", CommandGroup::Access, "<username>", "Lists user topic permissions", list_of_user),
];

const TOPIC_PERMISSIONS: Granted =
    Granted { path: "topic-permissions", called: "topic permissions", columns: ["exchange", "write", "read"] };

fn set(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let exchange = call.word("exchange").to_owned();
    let text = format!("Setting {{called}} on \"{exchange}\" for user \"{{user}}\" in vhost \"{{vhost}}\" ...");
    let (node, path) = TOPIC_PERMISSIONS.begin(call, &text)?;
    let body = json!({"exchange": exchange, "write": call.word("write"), "read": call.word("read")});
    let at = format!("/api/exchanges/{}/{}", word(&call.vhost()), word(&exchange));
    if !exchange.is_empty() && node.find(&at)?.is_none() {
        return Err(Failure::check(&format!("Exchange {exchange} does not exist")));
    }
    // RabbitMQ exits with 69 for an invalid pattern.
    let response = node.request("PUT", &path, Some(&body))?;
    match response.status {
        200..=299 => Ok(CommandOutput::Done),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn clear(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let exchange = call.given("exchange").map(str::to_owned);
    let at = exchange.as_ref().map(|exchange| format!(" on \"{exchange}\"")).unwrap_or_default();
    let text = format!("Clearing {{called}}{at} for user \"{{user}}\" in vhost \"{{vhost}}\" ...");
    let (node, path) = TOPIC_PERMISSIONS.announce(call, &text)?;
    if node.find(&path)?.is_some() {
        let at = exchange.map(|exchange| format!("/{}", word(&exchange))).unwrap_or_default();
        node.delete(&format!("{path}{at}"))?;
    }
    Ok(CommandOutput::Done)
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    TOPIC_PERMISSIONS.list(call)
}

fn list_of_user(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    // RabbitMQ's output has no header line here.
    call.options.no_table_headers = true;
    TOPIC_PERMISSIONS.list_of_user(call)
}
