//! Queues.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{bare, word};
use crate::failure::Failure;

const COLUMNS: &[&str] = &[
    "arguments",
    "auto_delete",
    "consumer_capacity",
    "consumer_utilisation",
    "consumers",
    "disk_reads",
    "disk_writes",
    "durability",
    "durable",
    "effective_policy_definition",
    "exclusive",
    "exclusive_consumer_pid",
    "exclusive_consumer_tag",
    "head_message_timestamp",
    "leader",
    "members",
    "memory",
    "message_bytes",
    "message_bytes_persistent",
    "message_bytes_ram",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "messages",
    "messages_persistent",
    "messages_ram",
    "messages_ready",
    "messages_ready_ram",
    "messages_unacknowledged",
    "messages_unacknowledged_ram",
    "name",
    "online",
    "operator_policy",
    "owner_pid",
    "pid",
    "policy",
    "state",
    "type",
    "vhost",
];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_queues", CommandGroup::Monitoring, "[<column>...] [--online] [--offline] [--local]", "Lists queues and their properties", list).in_vhost().columns(COLUMNS),
    Command::new(LOOK, "list_unresponsive_queues", CommandGroup::Monitoring, "[<column>...] [--local] [--queue-timeout <milliseconds>]", "Lists queues that don't answer, because they have failed", unresponsive).in_vhost().columns(COLUMNS),
    Command::new(CTL, "purge_queue", CommandGroup::Queues, "<queue>", "Removes all ready messages of a queue", purge).in_vhost(),
    Command::new(CTL, "convert_queue", CommandGroup::Queues, "<queue> [--type <type>] [--arguments <arguments>] [--dry-run]", "Gives a queue another type and other arguments; its messages and bindings stay", convert).in_vhost(),
    Command::new(CTL, "delete_queue", CommandGroup::Queues, "<queue> [--if-empty] [--if-unused] [--force]", "Deletes a queue; --force does nothing, since none is stuck for lack of a leader", delete).in_vhost(),
];

/// Columns that only the detailed list has.
const DETAILS: &[&str] = &["exclusive_consumer_tag", "policy", "operator_policy", "head_message_timestamp"];

fn find(call: &Call<'_>, columns: &[String]) -> Result<Vec<Value>, Failure> {
    let node = call.node()?;
    let vhost = word(&call.vhost());
    let is_detailed = columns.iter().any(|column| DETAILS.contains(&column.as_str()));
    // The detailed list covers all virtual hosts.
    let response = match is_detailed {
        true => node.request("GET", "/api/queues/detailed", None)?,
        false => node.request("GET", &format!("/api/queues/{vhost}"), None)?,
    };
    match response.json() {
        Value::Array(mut queues) if response.status == 200 => {
            queues.retain(|queue| queue["vhost"] == json!(call.vhost()));
            Ok(queues)
        }
        // A missing vhost gives an empty list, as in RabbitMQ.
        _ if response.status == 404 => Ok(Vec::new()),
        _ => Err(Failure::refused(&response.reason())),
    }
}

/// Adds columns that have other names in the HTTP API.
fn rename(queue: &mut Value) {
    for (from, to) in [("/node", "pid"), ("/node", "leader")] {
        listed::copy(queue, from, to);
    }
    let node = queue["node"].clone();
    queue["members"] = json!([node]);
    queue["online"] = json!([node]);
    // As in RabbitMQ: without a consumer there is none that could take a message.
    for column in ["consumer_capacity", "consumer_utilisation"] {
        if queue[column].is_null() && queue["type"] != "stream" {
            queue[column] = json!(0);
        }
    }
    if queue["effective_policy_definition"].is_null() {
        queue["effective_policy_definition"] = json!({});
    }
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["name", "messages"])?;
    let seconds = call.options.timeout.map_or(60.0, |timeout| timeout.as_secs_f64());
    let mut found = find(call, &columns)?;
    call.say(&format!("Timeout: {seconds:?} seconds ..."));
    call.say(&format!("Listing queues for vhost {} ...", call.vhost()));
    if call.has("offline") {
        // Queues of unreachable nodes: there is only one node, and it responds.
        found.clear();
    }
    Ok(listed::rows(&columns, found, rename))
}

fn unresponsive(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["name"])?;
    let mut found = find(call, &columns)?;
    call.say(&format!("Listing unresponsive queues for vhost {} ...", call.vhost()));
    found.retain(|queue| queue["state"] == json!("crashed"));
    Ok(listed::rows(&columns, found, rename))
}

fn path(vhost: &str, queue: &str) -> String {
    format!("/api/queues/{}/{}", word(vhost), word(queue))
}

fn purge(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, queue) = (call.vhost(), call.word("queue").to_owned());
    let node = call.node()?;
    call.say(&format!("Purging queue '{queue}' in vhost '{vhost}' ..."));
    match node.find(&path(&vhost, &queue))? {
        None => return Err(Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned())),
        Some(found) if found["type"] == "stream" => return Err(Failure::check("not_supported")),
        Some(_) => {}
    }
    node.delete(&format!("{}/contents", path(&vhost, &queue)))?;
    Ok(CommandOutput::Done)
}

/// Leveret's own command.
fn convert(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, queue) = (call.vhost(), call.word("queue").to_owned());
    let dry_run = call.has("dry-run");
    let mut body = json!({});
    if let Some(queue_type) = call.given("type") {
        body["type"] = json!(queue_type);
    }
    if let Some(text) = call.given("arguments") {
        body["arguments"] = serde_json::from_str(text)
            .map_err(|error| Failure::bad_argument(&format!("--arguments: '{text}' is no JSON object: {error}")))?;
    }
    let node = call.node()?;
    call.say(&format!("Converting queue '{queue}' in vhost '{vhost}' ..."));
    let query = if dry_run { "?dry_run=true" } else { "" };
    let response = node.request("POST", &format!("{}/convert{query}", path(&vhost, &queue)), Some(&body))?;
    let answer = response.json();
    match response.status {
        200..=299 if dry_run => {
            let text =
                format!("Queue '{queue}' can be converted from {} to {}", bare(&answer["from"]), bare(&answer["to"]));
            Ok(CommandOutput::Report { text, value: answer })
        }
        200..=299 => Ok(CommandOutput::Done),
        404 => Err(Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned())),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn delete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, queue) = (call.vhost(), call.word("queue").to_owned());
    let node = call.node()?;
    let (if_empty, if_unused) = (call.has("if-empty"), call.has("if-unused"));
    let condition = match (if_empty, if_unused) {
        (false, false) => "",
        (true, false) => "if queue is empty ",
        (false, true) => "if queue is unused ",
        (true, true) => "if queue is empty and if queue is unused ",
    };
    call.say(&format!("Deleting queue '{queue}' on vhost '{vhost}' {condition}..."));
    let Some(found) = node.find(&path(&vhost, &queue))? else {
        return Err(Failure::Usage("Error:\nNo such queue was found".to_owned()));
    };
    let query = format!("?if-empty={if_empty}&if-unused={if_unused}");
    let response = node.request("DELETE", &format!("{}{query}", path(&vhost, &queue)), None)?;
    if response.status >= 300 {
        return Err(Failure::check(&response.reason()));
    }
    call.say(&format!("Queue was successfully deleted with {} ready messages", found["messages_ready"]));
    Ok(CommandOutput::Done)
}
