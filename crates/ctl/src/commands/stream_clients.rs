//! Clients of the stream protocol: connections, publishers, consumers and their groups, and offsets that streams keep.

use serde_json::{Value, json};

use super::{Command, CommandGroup, STREAM_LISTS, STREAMS, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{HttpResponse, word};
use crate::failure::Failure;
use crate::tool::Tool;

const CONNECTION_COLUMNS: &[&str] = &[
    "conn_name",
    "pid",
    "node",
    "port",
    "peer_port",
    "host",
    "peer_cert_issuer",
    "peer_cert_subject",
    "peer_cert_serial_number",
    "peer_cert_validity",
    "peer_host",
    "user",
    "vhost",
    "subscriptions",
    "ssl",
    "ssl_cipher",
    "ssl_hash",
    "ssl_key_exchange",
    "ssl_protocol",
    "connection_state",
    "auth_mechanism",
    "heartbeat",
    "frame_max",
    "client_properties",
    "connected_at",
];

const CONSUMER_COLUMNS: &[&str] = &[
    "connection_pid",
    "node",
    "subscription_id",
    "stream",
    "messages_consumed",
    "offset",
    "offset_lag",
    "credits",
    "active",
    "activity_status",
    "properties",
];

const PUBLISHER_COLUMNS: &[&str] = &[
    "connection_pid",
    "node",
    "publisher_id",
    "stream",
    "reference",
    "messages_published",
    "messages_confirmed",
    "messages_errored",
];

const GROUP_COLUMNS: &[&str] = &["stream", "reference", "partition_index", "consumers"];

const MEMBER_COLUMNS: &[&str] = &["subscription_id", "connection_name", "state"];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(STREAM_LISTS, "list_stream_connections", CommandGroup::Monitoring, "[<column>...] [--verbose]", "Lists connections of the stream protocol", connections).in_vhost().columns(CONNECTION_COLUMNS),
    Command::new(STREAM_LISTS, "list_stream_consumers", CommandGroup::Monitoring, "[<column>...] [--verbose]", "Lists consumers of the stream protocol in a vhost", consumers).in_vhost().columns(CONSUMER_COLUMNS),
    Command::new(STREAM_LISTS, "list_stream_publishers", CommandGroup::Monitoring, "[<column>...] [--verbose]", "Lists publishers of the stream protocol in a vhost", publishers).in_vhost().columns(PUBLISHER_COLUMNS),
    Command::new(STREAM_LISTS, "list_stream_consumer_groups", CommandGroup::Monitoring, "[<column>...]", "Lists groups of consumers of the stream protocol, of which one at a time is active", groups).in_vhost().columns(GROUP_COLUMNS),
    Command::new(STREAM_LISTS, "list_stream_group_consumers", CommandGroup::Monitoring, "[<column>...] [--stream <stream>] [--reference <reference>]", "Lists the consumers of such a group, which both options name", members).in_vhost().columns(MEMBER_COLUMNS),
    Command::new(&[Tool::Ctl, Tool::Streams], "activate_stream_consumer", CommandGroup::Operations, "[--stream <stream>] [--reference <reference>]", "Makes the consumer of such a group active whose turn it is, without waiting for another one", activate).in_vhost(),
    Command::new(STREAMS, "reset_offset", CommandGroup::Operations, "[--stream <stream>] [--reference <reference>]", "Sets the offset that a stream keeps under a name to 0", reset).in_vhost(),
];

/// The requested columns; without any those from `usual` on, or all with `--verbose`.
fn columns(call: &Call<'_>, known: &[&str], usual: &[&str]) -> Result<Vec<String>, Failure> {
    listed::columns(call, known, if call.has("verbose") { known } else { usual })
}

fn connections(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = columns(call, CONNECTION_COLUMNS, &["node", "conn_name"])?;
    let node = call.node()?;
    call.say("Listing stream connections ...");
    Ok(listed::rows(&columns, node.list("/api/stream/connections")?, |connection| {
        for (from, to) in [("/name", "conn_name"), ("/name", "pid"), ("/state", "connection_state")] {
            listed::copy(connection, from, to);
        }
        listed::copy(connection, "/timeout", "heartbeat");
    }))
}

/// The rows of a list of a vhost.
fn of_vhost(call: &mut Call<'_>, kind: &str, columns: &[String], keys: &[[&str; 2]]) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Listing stream {kind} ..."));
    let found = match node.find(&format!("/api/stream/{kind}/{}", word(&call.vhost())))? {
        Some(Value::Array(found)) => found,
        _ => Vec::new(),
    };
    Ok(listed::rows(columns, found, |client| {
        let common = [
            ["/queue/name", "stream"],
            ["/connection_details/name", "connection_pid"],
            ["/connection_details/node", "node"],
        ];
        common.iter().chain(keys).for_each(|[from, to]| listed::copy(client, from, to));
    }))
}

fn consumers(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = columns(call, CONSUMER_COLUMNS, &CONSUMER_COLUMNS[2..])?;
    of_vhost(call, "consumers", &columns, &[["/consumed", "messages_consumed"]])
}

fn publishers(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = columns(call, PUBLISHER_COLUMNS, &PUBLISHER_COLUMNS[2..])?;
    let keys =
        [["/published", "messages_published"], ["/confirmed", "messages_confirmed"], ["/errored", "messages_errored"]];
    of_vhost(call, "publishers", &columns, &keys)
}

fn all_groups(call: &Call<'_>) -> Result<Vec<Value>, Failure> {
    call.node()?.list(&format!("/local/streams/{}/groups", word(&call.vhost())))
}

fn groups(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, GROUP_COLUMNS, GROUP_COLUMNS)?;
    call.say("Listing stream consumer groups ...");
    Ok(listed::rows(&columns, all_groups(call)?, |_| {}))
}

/// The values of `--stream` and `--reference`, which aren't optional.
fn stream_and_reference(call: &Call<'_>) -> Result<(String, String), Failure> {
    match (call.given("stream"), call.given("reference")) {
        (Some(stream), Some(reference)) => Ok((stream.to_owned(), reference.to_owned())),
        _ => Err(Failure::Usage(
            "Error (argument validation): not enough arguments.\n--stream and --reference are both needed".to_owned(),
        )),
    }
}

fn members(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, MEMBER_COLUMNS, MEMBER_COLUMNS)?;
    let (stream, reference) = stream_and_reference(call)?;
    call.say("Listing group consumers ...");
    let is_meant = |group: &Value| group["stream"] == stream && group["reference"] == reference;
    let group = all_groups(call)?.into_iter().find(is_meant);
    let group = group.ok_or_else(|| Failure::check("The group does not exist"))?;
    Ok(listed::rows(&columns, group["members"].as_array().cloned().unwrap_or_default(), |_| {}))
}

/// Sends a change of a stream. What isn't there is named as RabbitMQ names it.
fn change(call: &Call<'_>, path: &str) -> Result<(), Failure> {
    let response: HttpResponse = call.node()?.request("POST", path, Some(&json!({})))?;
    match response.status {
        200..=299 => Ok(()),
        404 => Err(Failure::check(&response.reason())),
        _ => Err(Failure::refused(&response.reason())),
    }
}

fn activate(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (stream, reference) = stream_and_reference(call)?;
    call.say("Activating a consumer in the group ...");
    let path = format!("/local/streams/{}/{}/groups/{}/activate", word(&call.vhost()), word(&stream), word(&reference));
    change(call, &path)?;
    Ok(CommandOutput::Text("OK\n".to_owned()))
}

fn reset(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (stream, reference) = stream_and_reference(call)?;
    call.say("Resetting stored offset ...");
    let path = format!("/local/streams/{}/{}/offsets/{}/reset", word(&call.vhost()), word(&stream), word(&reference));
    change(call, &path)?;
    Ok(CommandOutput::Text("Done\n".to_owned()))
}
