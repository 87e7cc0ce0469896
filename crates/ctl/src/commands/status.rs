//! Status of the node.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{CHECK, Command, CommandGroup, LOOK, alarms, listeners, memory};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "status", CommandGroup::Monitoring, "[--unit <unit>]", "Displays status of the node", status),
    Command::new(LOOK, "environment", CommandGroup::Configuration, "", "Displays the configuration of the node", environment),
    Command::new(CHECK, "server_version", CommandGroup::Monitoring, "", "Displays the version of RabbitMQ that the node is compatible with", server_version),
    Command::new(CHECK, "erlang_version", CommandGroup::Monitoring, "[--details] [--offline]", "Reports that there is no Erlang", erlang_version),
    Command::new(CHECK, "log_location", CommandGroup::Monitoring, "[--all]", "Displays the outputs of the node's log", log_location),
];

fn status(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    let unit = call.given("unit").unwrap_or("gb").to_ascii_lowercase();
    if !["bytes", "mb", "gb"].contains(&unit.as_str()) {
        return Err(Failure::Usage(format!(
            "Error (argument validation): \"unit '{unit}' is not supported. Please use one of: bytes, mb, gb\""
        )));
    }
    let body = node.get(&format!("/api/nodes/{}", word(&name)))?;
    let overview = node.get("/api/overview?columns=object_totals")?;
    let vhosts = node.list("/api/vhosts?columns=name")?;
    let raised = alarms::raised(&node)?;
    let kinds = memory::kinds(&node)?;
    let total: u64 = kinds.iter().map(|(_, bytes)| bytes).sum();
    let seconds = node.node["uptime_ms"].as_u64().unwrap_or(0) / 1000;
    let totals = &overview["object_totals"];
    call.say(&format!("Status of node {name} ..."));

    let mut breakdown: Map<String, Value> = kinds.iter().map(|(kind, bytes)| (kind.clone(), json!(bytes))).collect();
    breakdown.insert("strategy".to_owned(), json!("rss"));
    breakdown.insert("total".to_owned(), json!({"rss": total, "allocated": total, "erlang": total}));
    let value = json!({
        "pid": node.node["pid"],
        "os": "Linux",
        "uptime": seconds,
        "is_under_maintenance": node.node["being_drained"],
        "rabbitmq_version": node.node["rabbitmq_version"],
        "leveret_version": node.node["leveret_version"],
        "product_name": node.node["product"],
        "product_version": node.node["rabbitmq_version"],
        "erlang_version": "",
        "crypto_lib_version": "",
        "processes": {"used": 0, "limit": 0},
        "run_queue": 0,
        "net_ticktime": body["net_ticktime"],
        "data_directory": node.node["data_directory"],
        "raft_data_directory": "",
        "durability": node.node["durability"],
        "config_files": body["config_files"],
        "log_files": body["log_files"],
        "enabled_plugin_file": "",
        "active_plugins": body["enabled_plugins"],
        "alarms": raised.iter().map(|resource| json!({"resource": resource, "node": name})).collect::<Vec<_>>(),
        "tags": [],
        "listeners": listeners::values(&node),
        "memory": breakdown,
        "vm_memory_calculation_strategy": "rss",
        "vm_memory_high_watermark_setting": {"absolute": node.node["memory_limit_bytes"]},
        "vm_memory_high_watermark_limit": node.node["memory_limit_bytes"],
        "disk_free_limit": body["disk_free_limit"],
        "disk_free": body["disk_free"],
        "totals": {
            "connection_count": totals["connections"],
            "queue_count": totals["queues"],
            "virtual_host_count": vhosts.len(),
        },
    });
    let text = described(&value, &name, &unit, &kinds, &raised, &listeners::lines(&node));
    Ok(CommandOutput::Report { text, value })
}

/// RabbitMQ's sections, as far as they have content here.
fn described(
    value: &Value,
    name: &str,
    unit: &str,
    kinds: &[(String, u64)],
    raised: &[String],
    listeners: &[String],
) -> String {
    let plain = |key: &str| value[key].as_str().map_or_else(|| value[key].to_string(), str::to_owned);
    let size = |bytes: &Value| memory::rounded(bytes.as_u64().unwrap_or(0) as f64 / 1e9);
    let mut text = String::new();
    let _ = write!(
        text,
        "Runtime\n\nOS PID: {}\nOS: Linux\nUptime (seconds): {}\nIs under maintenance?: {}\nRabbitMQ version: {}\n\
         Leveret version: {}\nNode name: {name}\n",
        plain("pid"),
        plain("uptime"),
        plain("is_under_maintenance"),
        plain("rabbitmq_version"),
        plain("leveret_version"),
    );
    let _ = write!(text, "\nPlugins\n\nEnabled plugins:\n\n");
    for plugin in value["active_plugins"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, " * {plugin}");
    }
    let _ = write!(text, "\nData directory\n\nNode data directory: {}\n", plain("data_directory"));
    let _ = write!(text, "Durability: {}\n\nLog file(s)\n\n", plain("durability"));
    for file in value["log_files"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, " * {file}");
    }
    let _ = write!(text, "\nAlarms\n\n");
    if raised.is_empty() {
        let _ = writeln!(text, "(none)");
    }
    for resource in raised {
        let _ = writeln!(text, "{}", alarms::described(resource, name));
    }
    let total: u64 = kinds.iter().map(|(_, bytes)| bytes).sum();
    let _ = write!(
        text,
        "\nMemory\n\nTotal memory used: {} gb\nCalculation strategy: rss\nMemory high watermark, computed to: {} gb\n\n{}",
        memory::rounded(total as f64 / 1e9),
        size(&value["vm_memory_high_watermark_limit"]),
        memory::lines(kinds, unit),
    );
    let _ = write!(
        text,
        "\nFree Disk Space\n\nLow free disk space watermark: {} gb\nFree disk space: {} gb\n",
        size(&value["disk_free_limit"]),
        size(&value["disk_free"]),
    );
    let totals = &value["totals"];
    let _ = write!(
        text,
        "\nTotals\n\nConnection count: {}\nQueue count: {}\nVirtual host count: {}\n\nListeners\n\n{}\n",
        totals["connection_count"],
        totals["queue_count"],
        totals["virtual_host_count"],
        listeners.join("\n"),
    );
    text
}

fn environment(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Application environment of node {} ...", node.name()));
    let response = node.request("GET", "/api/config/effective", None)?;
    let text = String::from_utf8_lossy(&response.body).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let value: Map<String, Value> = pairs.map(|(key, value)| (key.trim().to_owned(), json!(value.trim()))).collect();
    Ok(CommandOutput::Report { text, value: Value::Object(value) })
}

fn server_version(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} for its RabbitMQ version...", node.name()));
    let version = node.node["rabbitmq_version"].as_str().unwrap_or_default().to_owned();
    Ok(CommandOutput::Report { value: json!({"version": version}), text: version })
}

fn erlang_version(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} for its Erlang/OTP version...", node.name()));
    let version = node.node["leveret_version"].as_str().unwrap_or_default();
    Ok(CommandOutput::Text(format!("No Erlang/OTP: this is Leveret {version}")))
}

fn log_location(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Log file location(s) on node {name} ..."));
    let body = node.get(&format!("/api/nodes/{}?columns=log_files", word(&name)))?;
    let files = body["log_files"].as_array().cloned().unwrap_or_default();
    let all: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
    let is_file = |line: &&&str| line.starts_with('/');
    let lines: Vec<&str> = match all.iter().find(is_file) {
        Some(first) if !call.has("all") => vec![first],
        _ => all,
    };
    Ok(CommandOutput::Report { text: lines.join("\n"), value: json!(lines) })
}
