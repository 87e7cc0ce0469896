//! Checks that consist of one HTTP request.

use serde_json::{Value, json};

use super::{CHECK, CTL, Command, CommandGroup, LOOK, REPLICAS};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;
use crate::tool::Tool;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "check_virtual_hosts", CommandGroup::Monitoring, "", "Exits with a non-zero code if a virtual host is down", virtual_hosts),
    Command::new(CHECK, "check_certificate_expiration", CommandGroup::Monitoring, "[--within <period>] [--unit <unit>]", "Exits with a non-zero code if a certificate expires within a period of time", certificates),
    Command::new(CHECK, "check_if_metadata_store_is_initialized", CommandGroup::Monitoring, "", "Exits with a non-zero code if objects can't be looked up yet", metadata),
    Command::new(CHECK, "check_if_metadata_store_is_initialized_with_data", CommandGroup::Monitoring, "", "Exits with a non-zero code if there are no virtual hosts", metadata_with_data),
    Command::new(REPLICAS, "check_if_node_is_quorum_critical", CommandGroup::Monitoring, "", "Exits with a non-zero code if a queue would lose its majority without this node", quorum_critical),
    Command::new(CHECK, "check_for_quorum_queues_without_an_elected_leader", CommandGroup::Monitoring, "<pattern> [--across-all-vhosts]", "Exits with a non-zero code if a quorum queue has no leader", leaders).in_vhost(),
    Command::new(&[Tool::Ctl, Tool::Diagnostics, Tool::Upgrade], "has_reached_target_cluster_size", CommandGroup::Cluster, "", "Exits with a non-zero code if nodes are missing from the cluster", cluster_size),
    Command::new(REPLICAS, "check_if_node_is_mirror_sync_critical", CommandGroup::Monitoring, "", "Does nothing: there are no mirrors", mirrors),
    Command::new(LOOK, "node_health_check", CommandGroup::Monitoring, "", "Does nothing, as in RabbitMQ. Use the specific health checks instead", deprecated),
    Command::new(CHECK, "check_storage", CommandGroup::Monitoring, "", "Exits with a non-zero code if a queue has stopped because of damage, or a log has no owner", storage),
    Command::new(CTL, "force_gc", CommandGroup::Operations, "", "Does nothing: there is no garbage to collect", force_gc),
];

/// Requests a check. A failed one is a failure with exit status 69. `{node}` in the text `well`, the report of a passed
/// check, becomes the node's name.
fn check(call: &Call<'_>, path: &str, well: &str) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let response = node.request("GET", &format!("/api/health/checks/{path}"), None)?;
    let text = well.replace("{node}", &node.name());
    match response.status {
        200 => Ok(CommandOutput::Report { value: json!({"result": "ok", "message": text}), text }),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn introduce(call: &mut Call<'_>, text: &str) -> Result<(), Failure> {
    let name = call.node()?.name();
    call.say(&text.replace("{node}", &name));
    Ok(())
}

fn virtual_hosts(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Checking if all vhosts are running on node {node} ...")?;
    check(call, "virtual-hosts", "Node {node} reported all vhosts as running")
}

fn storage(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Checking if node {node} has stopped queues or logs without an owner ...")?;
    check(call, "storage", "Node {node} reported no stopped queue and no log without an owner")
}

fn certificates(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let unit = call.given("unit").unwrap_or("weeks").to_owned();
    if !["days", "weeks", "months", "years"].contains(&unit.as_str()) {
        return Err(Failure::Usage(format!(
            "Error (argument validation): \"unit '{unit}' is not supported. Please use one of: days, weeks, months, years\""
        )));
    }
    let within = call.given("within").unwrap_or("4").to_owned();
    let count: u32 = within.parse().map_err(|_| Failure::bad_argument("Bad argument: --within must be a number"))?;
    introduce(call, "Checking certificate expiration for all certificates on node {node} ...")?;
    let unit_of_one = if count == 1 { unit.trim_end_matches('s') } else { &unit };
    check(
        call,
        &format!("certificate-expiration/{count}/{unit}"),
        &format!("No certificates are expiring within {count} {unit_of_one}."),
    )
}

fn metadata(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Checking if metadata store on node {node} has finished initializing ...")?;
    check(call, "metadata-store/initialized", "Metadata store on node {node} has completed its initialization")
}

fn metadata_with_data(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Checking if metadata store on node {node} has finished initializing ...")?;
    check(
        call,
        "metadata-store/initialized/with-data",
        "Metadata store on node {node} has completed its initialization",
    )
}

fn quorum_critical(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Checking if node {node} is critical for quorum of any queues/streams ...")?;
    let is_alone = call.node()?.list("/api/nodes?columns=name")?.len() <= 1;
    let well = match is_alone {
        true => "Node {node} seems to be the only one in a single node cluster, the check does not apply",
        false => "Node {node} reported no queues/streams with minimum quorum",
    };
    let node = call.node()?;
    let response = node.request("GET", "/api/health/checks/node-is-quorum-critical", None)?;
    let name = node.name();
    let critical = response.json()["queues"].as_array().cloned().unwrap_or_default();
    match response.status {
        200 => {
            let text = well.replace("{node}", &name);
            Ok(CommandOutput::Report { value: json!({"result": "ok", "message": text}), text })
        }
        _ if critical.is_empty() => Err(Failure::check(&response.reason())),
        _ => {
            let line = |queue: &Value| {
                let queue = queue["readable_name"].as_str().unwrap_or_default();
                format!("{queue} will become unavailable if node {name} stops")
            };
            Err(Failure::Unavailable(critical.iter().map(line).collect::<Vec<_>>().join("\n")))
        }
    }
}

fn leaders(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (pattern, across_all) = (call.word("pattern").to_owned(), call.has("across-all-vhosts"));
    let within = if across_all { "all vhosts".to_owned() } else { format!("vhost {}", call.vhost()) };
    introduce(call, &format!("Checking leader replicas of quorum queues matching '{pattern}' in {within} ..."))?;
    let vhost = if across_all { "all-vhosts".to_owned() } else { format!("vhost/{}", word(&call.vhost())) };
    let path = format!("quorum-queues-without-elected-leaders/{vhost}/pattern/{}", word(&pattern));
    let node = call.node()?;
    let response = node.request("GET", &format!("/api/health/checks/{path}"), None)?;
    match response.json()["queues"].as_array() {
        Some(queues) if response.status != 200 => {
            let line = |queue: &Value| {
                let queue = queue["readable_name"].as_str().unwrap_or_default();
                format!("{queue} does not have an elected leader replica or the replica was unresponsive")
            };
            Err(Failure::Unavailable(queues.iter().map(line).collect::<Vec<_>>().join("\n")))
        }
        _ if response.status == 200 => {
            let text = format!("Node {} reported all quorum queue as having responsive leader replicas", node.name());
            Ok(CommandOutput::Report { value: json!({"result": "ok", "message": text}), text })
        }
        _ => Err(Failure::check(&response.reason())),
    }
}

fn cluster_size(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Checking if target cluster size has been reached on node {node} ...")?;
    check(call, "reached-target-cluster-size", "Target cluster size has been reached on node {node}")
}

fn mirrors(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    call.node()?;
    call.say("This command is DEPRECATED and is a no-op. It will be removed in a future version.");
    Ok(CommandOutput::Report { text: "ok".to_owned(), value: json!({"result": "ok"}) })
}

fn deprecated(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    call.node()?;
    Ok(CommandOutput::Text(
        "This command is DEPRECATED and is a no-op. Use the health checks of rabbitmq-diagnostics".to_owned(),
    ))
}

fn force_gc(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    introduce(call, "Node {node} has no garbage to collect: memory is freed as soon as it is no longer used")?;
    Ok(CommandOutput::Done)
}

#[test]
fn a_critical_node_names_what_it_is_critical_for() {
    let node = crate::stand_in::StandIn::new("rabbit@a");
    let path = "GET /api/health/checks/node-is-quorum-critical";
    let nodes = r#"[{"name": "rabbit@a"}, {"name": "rabbit@b"}]"#;
    let run = || {
        node.answers("GET /api/nodes?columns=name", 200, nodes);
        node.run_as(Tool::Queues, "check_if_node_is_quorum_critical -q")
    };
    node.answers(path, 200, "{}");
    assert_eq!(run().as_deref(), Ok("Node rabbit@a reported no queues/streams with minimum quorum\n"));
    node.answers(path, 503, r#"{"reason": "x", "queues": [{"readable_name": "rabbitmq_metadata"}]}"#);
    let failure = run().expect_err("is critical");
    assert_eq!(
        (failure.code(), failure.text()),
        (69, "rabbitmq_metadata will become unavailable if node rabbit@a stops")
    );
}
