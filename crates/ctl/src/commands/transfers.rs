//! Moves and copies of a queue's messages to other queues. RabbitMQ has no such commands.

use serde_json::{Value, json};

use super::set_aside::{answer, destination, path};
use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] = &[
    "began",
    "copy",
    "done",
    "ended",
    "exchange",
    "first",
    "id",
    "last",
    "queue",
    "reason",
    "routing_key",
    "state",
    "to",
    "total",
    "user",
    "vhost",
];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "move_messages", CommandGroup::Queues, "<queue> [--to <queue>] [--exchange <exchange>] [--routing-key <key>] [--first <number>] [--last <number>]", "Begins to move ready messages to another queue, or through an exchange", move_messages).in_vhost(),
    Command::new(CTL, "copy_messages", CommandGroup::Queues, "<queue> [--to <queue>] [--exchange <exchange>] [--routing-key <key>] [--first <number>] [--last <number>]", "Begins to copy ready messages, or those of a stream", copy_messages).in_vhost(),
    Command::new(LOOK, "list_transfers", CommandGroup::Queues, "[<column>...]", "Lists moves and copies of messages in all virtual hosts, with how far they are", list),
    Command::new(CTL, "cancel_transfer", CommandGroup::Queues, "<id>", "Ends a move or a copy, or forgets one that has ended", cancel),
];

fn move_messages(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    begin(call, false)
}

fn copy_messages(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    begin(call, true)
}

fn begin(call: &mut Call<'_>, copy: bool) -> Result<CommandOutput, Failure> {
    let mut body = destination(call)?;
    body.insert("copy".to_owned(), json!(copy));
    let path = path(call, "transfers");
    let (queue, vhost) = (call.word("queue").to_owned(), call.vhost());
    let node = call.node()?;
    let what = if copy { "copy" } else { "move" };
    call.say(&format!("Beginning to {what} messages of queue '{queue}' in vhost '{vhost}' ..."));
    let begun = answer(&node.request("POST", &path, Some(&Value::Object(body)))?)?;
    let text = format!("Transfer {} of {} messages has begun; list_transfers shows it\n", begun["id"], begun["total"]);
    Ok(CommandOutput::Report { text, value: begun })
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let usual = ["id", "vhost", "queue", "to", "exchange", "copy", "state", "done", "total", "reason"];
    let columns = listed::columns(call, COLUMNS, &usual)?;
    call.say("Listing moves and copies of messages ...");
    Ok(listed::rows(&columns, all(call)?, |_| ()))
}

fn all(call: &Call<'_>) -> Result<Vec<Value>, Failure> {
    match answer(&call.node()?.request("GET", "/api/transfers", None)?)? {
        Value::Array(transfers) => Ok(transfers),
        _ => Ok(Vec::new()),
    }
}

fn cancel(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let id = call.word("id").to_owned();
    let number = id.parse::<u64>().ok();
    let found = all(call)?.into_iter().find(|transfer| number.is_some() && transfer["id"].as_u64() == number);
    let found = found.ok_or_else(|| Failure::Data(format!("Error:\nthere is no transfer '{id}'")))?;
    let of = |key: &str| word(found[key].as_str().unwrap_or_default());
    let path = format!("/api/queues/{}/{}/transfers/{id}", of("vhost"), of("queue"));
    call.say(&format!("Ending transfer {id} ..."));
    answer(&call.node()?.request("DELETE", &path, None)?)?;
    Ok(CommandOutput::Done)
}
