//! The cluster, which is this node.

use std::fmt::Write;

use serde_json::json;

use super::{CHECK, Command, CommandGroup, LOOK, alarms, listeners};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "cluster_status", CommandGroup::Cluster, "", "Displays the nodes of the cluster; there is only this one", status),
    Command::new(CHECK, "discover_peers", CommandGroup::Cluster, "", "Lists the nodes that could form a cluster; there is only this one", discover),
];

fn status(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Cluster status of node {name} ..."));
    let cluster = node.get("/api/cluster-name")?["name"].take();
    let body = node.get(&format!("/api/nodes/{}?columns=processors", word(&name)))?;
    let flags = node.list("/api/feature-flags")?;
    let raised = alarms::raised(&node)?;
    let maintenance = match node.node["being_drained"].as_bool() {
        Some(true) => "marked for maintenance",
        _ => "not under maintenance",
    };
    let version = &node.node["rabbitmq_version"];
    let value = json!({
        "cluster_name": cluster,
        "cluster_tags": [],
        "disk_nodes": [name],
        "running_nodes": [name],
        "versions": {name.as_str(): {"rabbitmq_name": "RabbitMQ", "rabbitmq_version": version, "erlang_version": ""}},
        "cpu_cores": {name.as_str(): body["processors"]},
        "maintenance_status": {name.as_str(): maintenance},
        "alarms": raised.iter().map(|resource| json!({"resource": resource, "node": name})).collect::<Vec<_>>(),
        "partitions": {},
        "listeners": {name.as_str(): listeners::values(&node)},
        "feature_flags": flags,
    });
    let mut text = String::new();
    let cores = &body["processors"];
    let _ = write!(
        text,
        "Basics\n\nCluster name: {}\nTotal CPU cores available cluster-wide: {cores}\n\nCluster Tags\n\n(none)\n\n\
         Disk Nodes\n\n{name}\n\nRunning Nodes\n\n{name}\n\nVersions\n\n{name}: RabbitMQ {}\n\nCPU Cores\n\n\
         Node: {name}, available CPU cores: {cores}\n\nMaintenance status\n\nNode: {name}, status: {maintenance}\n\nAlarms\n\n",
        cluster.as_str().unwrap_or_default(),
        version.as_str().unwrap_or_default(),
    );
    if raised.is_empty() {
        let _ = writeln!(text, "(none)");
    }
    for resource in &raised {
        let _ = writeln!(text, "{}", alarms::described(resource, &name));
    }
    let _ = write!(text, "\nNetwork Partitions\n\n(none)\n\nListeners\n\n");
    for line in listeners::lines(&node) {
        let _ = writeln!(text, "Node: {name}, {}", line.replacen('I', "i", 1));
    }
    let _ = write!(text, "\nFeature flags\n\n");
    for flag in &flags {
        let _ = writeln!(
            text,
            "Flag: {}, state: {}",
            flag["name"].as_str().unwrap_or_default(),
            flag["state"].as_str().unwrap_or_default()
        );
    }
    Ok(CommandOutput::Report { text, value })
}

fn discover(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.node()?.name();
    call.say("Discovering peers nodes ...");
    Ok(CommandOutput::Report { text: format!("[:{name}]"), value: json!([name]) })
}
