//! `rabbitmq-queues`: members of quorum queues, and a look at a message. Changes of one queue's members are refused but for what is there.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::replicas::kind;
use super::{Command, CommandGroup, QUEUES};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::{quoted, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(QUEUES, "peek", CommandGroup::Monitoring, "<queue> <position>", "Shows the ready message at a position of a quorum queue, 1 being the first", peek).in_vhost(),
    Command::new(QUEUES, "rebalance", CommandGroup::Cluster, "<type> [--vhost-pattern <pattern>] [--queue-pattern <pattern>]", "Spreads the leaders of quorum queues over the nodes (all, quorum). A stream stays on its node", rebalance),
    Command::new(QUEUES, "grow", CommandGroup::Cluster, "<target_node> <strategy> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <status>]", "Gives matching quorum queues of one member the others that they are to have, one on this node among them", grow),
    Command::new(QUEUES, "grow_to_count", CommandGroup::Cluster, "<node_count> <strategy> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <status>]", "Adds members to matching queues until they have so many. The only node has one of each", grow_to_count),
    Command::new(QUEUES, "shrink", CommandGroup::Cluster, "<target_node> [--errors-only]", "Removes the members of all queues on a node. The only ones stay", shrink),
    Command::new(QUEUES, "add_member", CommandGroup::Operations, "<queue> <target_node> [--membership <status>]", "Adds a member of a queue on a node. The only node has one already", add).in_vhost(),
    Command::new(QUEUES, "delete_member", CommandGroup::Operations, "<queue> <target_node>", "Removes a member of a queue on a node. The only one stays", delete).in_vhost(),
    Command::new(QUEUES, "transfer_leadership", CommandGroup::Operations, "<queue> <target_node>", "Makes the member on a node the leader of a queue, and of those of its placement", transfer).in_vhost(),
    Command::new(QUEUES, "force_checkpoint", CommandGroup::Operations, "[--vhost-pattern <pattern>] [--queue-pattern <pattern>]", "Lists matching quorum queues, and does nothing: the log's space is free as soon as messages leave", force_checkpoint),
];

/// Rows of a page of queues.
const PAGE: usize = 500;
/// The pattern of all names.
const ANY: &str = ".*";
/// Longest time for which queues are waited for that are given members, and the interval at which they are looked at.
const GROWN_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);
/// The result for a queue that has one member after that time.
const STAYS: &str = "error: it stays on its node for now, whose log says why, and is grown when it can be";
/// Number of times that a list is asked for in which rows of slow members are missing.
const WHOLE_TRIES: u32 = 5;
/// The bytes of a body that are shown.
const BODY_BYTES: usize = 64;

/// An argument that has no meaning, in RabbitMQ's words.
fn invalid(reason: &str) -> Failure {
    Failure::Usage(format!("Error (argument validation): \"{reason}\""))
}

fn strategy(call: &Call<'_>) -> Result<(), Failure> {
    let strategy = call.word("strategy");
    if !["all", "even"].contains(&strategy) {
        return Err(invalid(&format!("strategy '{strategy}' is not recognised.")));
    }
    membership(call)
}

fn membership(call: &Call<'_>) -> Result<(), Failure> {
    match call.given("membership") {
        None | Some("voter" | "promotable") => Ok(()),
        Some(other) => Err(invalid(&format!("voter status '{other}' is not recognised."))),
    }
}

/// Whether a node of this name is this one.
fn is_here(call: &Call<'_>, node: &str) -> Result<bool, Failure> {
    Ok(call.node()?.name() == node)
}

fn refuse_other_nodes(call: &Call<'_>, node: &str) -> Result<(), Failure> {
    match is_here(call, node)? {
        true => Ok(()),
        false => Err(Failure::Usage(format!("Error: node {node} is not a member of the cluster"))),
    }
}

/// Refuses queues without members.
fn replicated(call: &Call<'_>, queue: &str) -> Result<(), Failure> {
    let vhost = call.vhost();
    let kind = kind(call, queue)?;
    match kind.as_deref() {
        None => Err(Failure::Data(format!("queue '{queue}' was not found in virtual host '{vhost}'"))),
        Some("quorum") => Ok(()),
        Some(kind) => Err(Failure::check(&format!("{{:unsupported, :rabbit_{kind}_queue}}"))),
    }
}

fn peek(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (queue, vhost, name) = (call.word("queue").to_owned(), call.vhost(), call.node()?.name());
    let position: u64 = call.word("position").parse().unwrap_or(0);
    if position == 0 {
        return Err(invalid("position value must be a positive integer"));
    }
    call.say(&format!("Peeking at quorum queue {queue} at position {position} on node {name} ..."));
    match kind(call, &queue)?.as_deref() {
        None => return Err(Failure::check(&format!("Target queue was not found in virtual host '{vhost}'"))),
        Some("quorum") => {}
        Some(kind) => return Err(Failure::check(&format!("Cannot peek into a {kind} queue"))),
    }
    let query = format!("offset={}&count=1&truncate={BODY_BYTES}", position - 1);
    let found = call.node()?.list(&format!("/api/queues/{}/{}/browse?{query}", word(&vhost), word(&queue)))?;
    let absent = || Failure::check("Target queue does not have a message at that position");
    let message = found.first().ok_or_else(absent)?;
    let mut shown = vec![
        ("routing_keys".to_owned(), json!([message["routing_key"]])),
        ("exchange".to_owned(), message["exchange"].clone()),
        (format!("payload (max {BODY_BYTES} bytes)"), message["payload"].clone()),
    ];
    let headers = message["properties"]["headers"].as_object();
    shown.extend(headers.into_iter().flatten().map(|(header, value)| (format!("header.{header}"), value.clone())));
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let lines = shown.iter().map(|(key, value)| format!("\n{key}\t{}", plain(value)));
    let text = format!("keys\tvalues{}", lines.collect::<String>());
    let shown: Map<String, Value> = shown.into_iter().collect();
    Ok(CommandOutput::Report { text, value: json!({"result": "ok", "message": shown}) })
}

/// The names of queues of one of these types whose vhost and name match the given patterns.
fn matching(call: &Call<'_>, kinds: &[&str]) -> Result<Vec<Value>, Failure> {
    let pattern = |option: &str| call.given(option).unwrap_or(ANY);
    named(call, kinds, pattern("vhost-pattern"), pattern("queue-pattern"))
}

fn named(call: &Call<'_>, kinds: &[&str], vhost: &str, queue: &str) -> Result<Vec<Value>, Failure> {
    let node = call.node()?;
    let all = |path: &str, name: &str, columns: &str| -> Result<Vec<Value>, Failure> {
        let mut rows = Vec::new();
        for page in 1.. {
            let query = format!("page={page}&page_size={PAGE}&use_regex=true&name={name}&columns={columns}&sort=name");
            let mut found = node.get(&format!("{path}?{query}"))?;
            for _ in 1..WHOLE_TRIES {
                if found["missing_nodes"].as_array().is_none_or(Vec::is_empty) {
                    break;
                }
                thread::sleep(LOOK);
                found = node.get(&format!("{path}?{query}"))?;
            }
            rows.extend(found["items"].as_array().cloned().unwrap_or_default());
            if found["page_count"].as_u64().is_none_or(|count| count <= page) {
                break;
            }
        }
        Ok(rows)
    };
    let vhosts = all("/api/vhosts", &quoted(vhost), "name")?;
    let mut queues = Vec::new();
    for vhost in vhosts.iter().filter_map(|vhost| vhost["name"].as_str()) {
        let path = format!("/api/queues/{}", word(vhost));
        queues.extend(all(&path, &quoted(queue), "vhost,name,type,members,leader")?);
    }
    queues.retain(|queue| queue["type"].as_str().is_some_and(|kind| kinds.contains(&kind)));
    Ok(queues)
}

fn rebalance(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let kind = call.word("type").to_owned();
    let kinds: &[&str] = match &*kind {
        "all" => &["quorum", "stream"],
        "quorum" => &["quorum"],
        "stream" => &["stream"],
        _ => {
            return Err(Failure::check(&format!("type {kind} is not supported. Try one of all, quorum, stream.")));
        }
    };
    call.node()?;
    call.say(&format!("Re-balancing leaders of {kind} queues..."));
    if kinds.contains(&"quorum") && !matching(call, &["quorum"])?.is_empty() {
        call.node()?.change("POST", "/api/rebalance/queues", json!({}))?;
    }
    const COUNT: &str = "Number of quorum queues";
    let mut counts = BTreeMap::<String, u64>::new();
    for queue in matching(call, kinds)? {
        *counts.entry(queue["leader"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let rows = counts.into_iter().map(|(name, count)| json!({"Node name": name, COUNT: count})).collect();
    Ok(Rows::pick(&["Node name", COUNT].map(str::to_owned), rows).into())
}

fn grow(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    strategy(call)?;
    let (node, strategy) = (call.word("target_node").to_owned(), call.word("strategy").to_owned());
    let nodes = call.node()?.list("/api/nodes?columns=name")?;
    if !nodes.iter().any(|known| known["name"] == node) {
        refuse_other_nodes(call, &node)?;
    }
    call.say(&format!("Growing {strategy} queues on {node}..."));
    let members = |queue: &Value| queue["members"].as_array().map_or(1, Vec::len);
    let is_alone = |queue: &Value| members(queue) < 2;
    let mut growing = matching(call, &["quorum"])?;
    growing.retain(is_alone);
    let body = json!({
        "strategy": strategy,
        "vhost_pattern": call.given("vhost-pattern").unwrap_or(ANY),
        "queue_pattern": call.given("queue-pattern").unwrap_or(ANY),
    });
    call.node()?.change("POST", &format!("/api/queues/quorum/replicas/on/{}/grow", word(&node)), body)?;
    if nodes.len() < 2 || strategy != "all" {
        return Ok(changed(Vec::new()));
    }
    // Each node begins with its own queues after its answer.
    let deadline = Instant::now() + GROWN_WITHIN;
    loop {
        let now = matching(call, &["quorum"])?;
        let is_growing =
            |queue: &Value| growing.iter().any(|one| one["vhost"] == queue["vhost"] && one["name"] == queue["name"]);
        let mut grown: Vec<_> = now.into_iter().filter(is_growing).collect();
        // One that has no leader for a moment may be missing.
        let is_over = grown.len() == growing.len() && !grown.iter().any(is_alone);
        if !is_over && Instant::now() < deadline {
            thread::sleep(LOOK);
            continue;
        }
        for queue in &mut grown {
            let result = if is_alone(queue) { STAYS } else { "ok" };
            (queue["size"], queue["result"]) = (json!(members(queue)), json!(result));
        }
        return Ok(changed(grown));
    }
}

fn grow_to_count(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    strategy(call)?;
    let (count, strategy) = (call.word("node_count").to_owned(), call.word("strategy").to_owned());
    match count.parse::<u64>() {
        Ok(0) => return Err(invalid("node count '0' must be greater than 0.")),
        Ok(_) => {}
        Err(_) => return Err(invalid(&format!("node count '{count}' must be a number."))),
    }
    call.node()?;
    call.say(&format!("Growing {strategy} quorum queues on {count} nodes..."));
    Ok(changed(Vec::new()))
}

fn shrink(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.word("target_node").to_owned();
    call.say(&format!("Shrinking queues on {node}..."));
    if !is_here(call, &node)? {
        return Err(Failure::check(&format!("{{:node_not_running, :\"{node}\"}}")));
    }
    let stays = |mut queue: Value| {
        (queue["size"], queue["result"]) = (json!(1), json!("error: the last node cannot be removed"));
        queue
    };
    Ok(changed(named(call, &["quorum"], ANY, ANY)?.into_iter().map(stays).collect()))
}

/// The result for the members of queues.
fn changed(queues: Vec<Value>) -> CommandOutput {
    Rows::pick(&["vhost", "name", "size", "result"].map(str::to_owned), queues).into()
}

fn add(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    membership(call)?;
    let (queue, node) = (call.word("queue").to_owned(), call.word("target_node").to_owned());
    refuse_other_nodes(call, &node)?;
    call.say(&format!("Adding a member for queue {queue} on node {node}..."));
    replicated(call, &queue)?;
    Ok(CommandOutput::Done)
}

fn delete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (queue, node) = (call.word("queue").to_owned(), call.word("target_node").to_owned());
    call.say(&format!("Removing a replica of queue {queue} on node {node}..."));
    replicated(call, &queue)?;
    match is_here(call, &node)? {
        true => Err(Failure::check("last_node")),
        false => Ok(CommandOutput::Done),
    }
}

fn transfer(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (queue, node, vhost) = (call.word("queue").to_owned(), call.word("target_node").to_owned(), call.vhost());
    call.say(&format!("Transferring leadership of quorum queue {queue} to node {node}..."));
    match kind(call, &queue)?.as_deref() {
        None => return Err(Failure::Data(format!("queue '{queue}' was not found in virtual host '{vhost}'"))),
        Some("quorum") => {}
        Some(_) => return Err(Failure::check("Cannot transfer leadership of a non-quorum queue")),
    }
    let path = format!("/api/queues/quorum/{}/{}/replicas/leader", word(&vhost), word(&queue));
    let response = call.node()?.request("PUT", &path, Some(&json!({"node": node})))?;
    match (response.status, response.reason()) {
        (200..300, _) => Ok(CommandOutput::Done),
        (_, reason) if reason == "already_leader" => {
            Err(Failure::check("The target node is already the leader of this queue"))
        }
        (_, reason) => Err(Failure::check(&reason)),
    }
}

fn force_checkpoint(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    call.say("Forcing checkpoint for all matching quorum queues...");
    let mut queues = matching(call, &["quorum"])?;
    queues.iter_mut().for_each(|queue| queue["result"] = json!("ok"));
    Ok(Rows::pick(&["vhost", "name", "result"].map(str::to_owned), queues).into())
}
