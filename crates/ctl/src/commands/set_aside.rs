//! Messages of a quorum queue that are parked or delayed. RabbitMQ has no such commands.

use serde_json::{Map, Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{HttpResponse, word};
use crate::failure::Failure;

const COLUMNS: &[&str] = &[
    "deferral_token",
    "delivery_time",
    "exchange",
    "number",
    "payload",
    "payload_bytes",
    "payload_encoding",
    "properties",
    "redelivered",
    "routing_key",
];

/// Number of messages that are listed without `--count`, and at most.
const COUNT: &str = "1000";

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_parked", CommandGroup::Queues, "<queue> [<column>...] [--offset <number>] [--count <number>]", "Lists messages of a quorum queue that are at their delivery limit, at most 1000 at once", list_parked).in_vhost().columns(COLUMNS),
    Command::new(CTL, "delete_parked", CommandGroup::Queues, "<queue> [--first <number>] [--last <number>]", "Deletes such messages: all, or those with numbers from --first to --last", delete_parked).in_vhost(),
    Command::new(CTL, "move_parked", CommandGroup::Queues, "<queue> [--to <queue>] [--exchange <exchange>] [--routing-key <key>] [--first <number>] [--last <number>]", "Moves such messages to the end of their queue, to another one, or through an exchange", move_parked).in_vhost(),
    Command::new(LOOK, "list_delayed", CommandGroup::Queues, "<queue> [<column>...] [--offset <number>] [--count <number>]", "Lists messages of a quorum queue that wait for a time, at most 1000 at once", list_delayed).in_vhost().columns(COLUMNS),
    Command::new(CTL, "delete_delayed", CommandGroup::Queues, "<queue> [--first <number>] [--last <number>]", "Deletes such messages: all, or those with numbers from --first to --last", delete_delayed).in_vhost(),
];

fn list_parked(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    list(call, "parked", &["number", "payload_bytes", "exchange", "routing_key"])
}

fn list_delayed(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    list(call, "delayed", &["number", "payload_bytes", "delivery_time", "deferral_token"])
}

fn delete_parked(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    delete(call, "parked")
}

fn delete_delayed(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    delete(call, "delayed")
}

/// The path of a part of a queue, such as its messages that were set aside as `kind`.
pub(super) fn path(call: &Call<'_>, kind: &str) -> String {
    format!("/api/queues/{}/{}/{kind}", word(&call.vhost()), word(call.word("queue")))
}

/// The value of an option that is a number, as it was given.
fn number<'a>(call: &'a Call<'_>, option: &str, default: &'a str) -> Result<&'a str, Failure> {
    let given = call.given(option).unwrap_or(default);
    match given.parse::<u64>() {
        Ok(_) => Ok(given),
        Err(_) => Err(Failure::bad_argument(&format!("--{option} {given} is no number of 64 bits"))),
    }
}

/// The body of a response of success.
pub(super) fn answer(response: &HttpResponse) -> Result<Value, Failure> {
    match response.status {
        200..=299 => Ok(response.json()),
        404 => Err(Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned())),
        400 => Err(Failure::Data(format!("Error:\n{}", response.reason()))),
        _ => Err(Failure::refused(&response.reason())),
    }
}

fn list(call: &mut Call<'_>, kind: &str, usual: &[&str]) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, usual)?;
    let (offset, count) = (number(call, "offset", "0")?, number(call, "count", COUNT)?);
    let path = format!("{}?offset={offset}&count={count}", path(call, kind));
    let mut found = answer(&call.node()?.request("GET", &path, None)?)?;
    let (queue, vhost) = (call.word("queue").to_owned(), call.vhost());
    call.say(&format!(
        "Listing {kind} messages of queue '{queue}' in vhost '{vhost}', {} in total ...",
        found["total"]
    ));
    let messages = match found["messages"].take() {
        Value::Array(messages) => messages,
        _ => Vec::new(),
    };
    Ok(listed::rows(&columns, messages, |_| ()))
}

fn delete(call: &mut Call<'_>, kind: &str) -> Result<CommandOutput, Failure> {
    let (first, last) = (number(call, "first", "0")?, number(call, "last", "18446744073709551615")?);
    let path = format!("{}?first={first}&last={last}", path(call, kind));
    let (queue, vhost) = (call.word("queue").to_owned(), call.vhost());
    let node = call.node()?;
    call.say(&format!("Deleting {kind} messages of queue '{queue}' in vhost '{vhost}' ..."));
    let deleted = answer(&node.request("DELETE", &path, None)?)?;
    let text = format!("Deleted messages: {}\n", deleted["deleted"]);
    Ok(CommandOutput::Report { text, value: deleted })
}

/// The body of a request to move messages: where to, and which.
pub(super) fn destination(call: &Call<'_>) -> Result<Map<String, Value>, Failure> {
    let mut body = Map::new();
    for (option, key) in [("to", "to"), ("exchange", "exchange"), ("routing-key", "routing_key")] {
        body.extend(call.given(option).map(|given| (key.to_owned(), json!(given))));
    }
    for key in ["first", "last"].into_iter().filter(|key| call.given(key).is_some()) {
        body.insert(key.to_owned(), json!(number(call, key, "0")?));
    }
    Ok(body)
}

fn move_parked(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let body = destination(call)?;
    let path = format!("{}/move", path(call, "parked"));
    let (queue, vhost) = (call.word("queue").to_owned(), call.vhost());
    let node = call.node()?;
    call.say(&format!("Moving parked messages of queue '{queue}' in vhost '{vhost}' ..."));
    let moved = answer(&node.request("POST", &path, Some(&Value::Object(body)))?)?;
    let mut text = format!("Moved messages: {}, still parked: {}\n", moved["moved"], moved["parked"]);
    if let Some(reason) = moved["reason"].as_str() {
        text = format!("{text}Message {} can't be moved: {reason}", moved["stopped_at"]);
        return Err(Failure::check(&text));
    }
    Ok(CommandOutput::Report { text, value: moved })
}
