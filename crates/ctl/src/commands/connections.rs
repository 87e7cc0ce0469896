//! Connections and channels.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed, users};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] = &[
    "pid",
    "name",
    "port",
    "host",
    "peer_port",
    "peer_host",
    "ssl",
    "ssl_protocol",
    "ssl_key_exchange",
    "ssl_cipher",
    "ssl_hash",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
    "state",
    "channels",
    "protocol",
    "auth_mechanism",
    "user",
    "vhost",
    "timeout",
    "frame_max",
    "channel_max",
    "client_properties",
    "recv_oct",
    "recv_cnt",
    "send_oct",
    "send_cnt",
    "send_pend",
    "connected_at",
    "user_provided_name",
    "container_id",
    "node",
];

const CHANNEL_COLUMNS: &[&str] = &[
    "pid",
    "connection",
    "name",
    "number",
    "user",
    "vhost",
    "transactional",
    "confirm",
    "consumer_count",
    "messages_unacknowledged",
    "messages_uncommitted",
    "acks_uncommitted",
    "messages_unconfirmed",
    "prefetch_count",
    "state",
    "node",
];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_channel_interceptors", CommandGroup::Monitoring, "", "Lists plugins that intercept operations of channels; there are none", interceptors),
    Command::new(LOOK, "list_connections", CommandGroup::Monitoring, "[<column>...]", "Lists AMQP connections of the node", list).columns(COLUMNS),
    Command::new(LOOK, "list_channels", CommandGroup::Monitoring, "[<column>...]", "Lists all channels of the node", channels).columns(CHANNEL_COLUMNS),
    Command::new(CTL, "close_connection", CommandGroup::Operations, "<connection> <explanation>", "Closes the connection of this name (column pid or name)", close),
    Command::new(CTL, "close_all_connections", CommandGroup::Operations, "<explanation> [--global] [--limit <limit>] [--per-connection-delay <milliseconds>]", "Closes all connections of a vhost or of the node", close_all).in_vhost(),
    Command::new(CTL, "close_all_user_connections", CommandGroup::Operations, "<username> <explanation>", "Closes all connections of a user", close_of_user),
];

/// The name of a protocol in RabbitMQ's tools.
fn protocol(name: &str) -> Option<Value> {
    match name {
        "AMQP 0-9-1" => Some(json!([0, 9, 1])),
        "AMQP 1-0" => Some(json!([1, 0])),
        _ => None,
    }
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["user", "peer_host", "peer_port", "state"])?;
    let node = call.node()?;
    call.say("Listing connections ...");
    let has_types = call.options.formatter.has_types();
    Ok(listed::rows(&columns, node.list("/api/connections")?, |connection| {
        listed::copy(connection, "/name", "pid");
        if let Some(protocol) = connection["protocol"].as_str().and_then(protocol) {
            // An Erlang tuple, which is a list in JSON.
            connection["protocol"] = match has_types {
                true => protocol,
                false => json!(protocol.to_string().replace('[', "{").replace(']', "}")),
            };
        }
    }))
}

fn channels(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let usual = ["pid", "user", "consumer_count", "messages_unacknowledged"];
    let columns = listed::columns(call, CHANNEL_COLUMNS, &usual)?;
    let node = call.node()?;
    call.say("Listing channels ...");
    Ok(listed::rows(&columns, node.list("/api/channels")?, |channel| {
        listed::copy(channel, "/name", "pid");
        listed::copy(channel, "/connection_details/name", "connection");
    }))
}

fn close(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (name, reason) = (call.word("connection").to_owned(), call.word("explanation").to_owned());
    let node = call.node()?;
    call.say(&format!("Closing connection {name}, reason: {reason}..."));
    // A line break would begin another header.
    let header = format!("x-reason: {}\r\n", reason.replace(['\r', '\n'], " "));
    let response = node.request_with("DELETE", &format!("/api/connections/{}", word(&name)), None, &header)?;
    match response.status {
        200..=299 => Ok(CommandOutput::Done),
        404 => Err(Failure::check(&format!("Error:\nno connection is called '{name}'; see list_connections name"))),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn close_all(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, reason) = (call.vhost(), call.word("explanation").to_owned());
    let mut body = json!({"reason": reason});
    if let Some(limit) = call.given("limit").filter(|limit| *limit != "0") {
        let count = limit.parse::<u64>();
        body["limit"] = json!(count.map_err(|_| Failure::bad_argument("Bad argument: --limit must be a number"))?);
    }
    let global = call.has("global");
    if !global {
        body["vhost"] = json!(vhost);
    }
    let node = call.node()?;
    call.say(&match global {
        true => format!("Closing all connections to node {}, reason: {reason}...", node.name()),
        false => format!("Closing all connections in vhost {vhost}, reason: {reason}..."),
    });
    let response = node.request("POST", "/local/connections/close", Some(&body))?;
    match response.status {
        200 => {
            call.say(&format!("Closed {} connections", response.json()["closed"]));
            Ok(CommandOutput::Done)
        }
        404 => Err(Failure::no_vhost(&vhost)),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn close_of_user(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (user, reason) = (call.word("username").to_owned(), call.word("explanation").to_owned());
    let node = call.node()?;
    call.say(&format!("Closing connections of user {user}, reason: {reason}..."));
    users::find(&node, &user)?;
    node.change("POST", "/local/connections/close", json!({"reason": reason, "user": user}))?;
    Ok(CommandOutput::Done)
}

fn interceptors(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    call.node()?;
    call.say("Listing channel interceptors ...");
    Ok(CommandOutput::Report { text: String::new(), value: Value::Array(Vec::new()) })
}
