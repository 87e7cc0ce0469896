use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::broker::Broker;
use leveret_tests::wire::Wire;
use serde_json::json;

use super::Effect;
use super::admin::Admin;

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("list nodes", list),
    ("nodes list", list),
    ("nodes memory_breakdown_in_bytes", memory_in_bytes),
    ("show memory_breakdown_in_bytes", memory_in_bytes),
    ("nodes memory_breakdown_in_percent", memory_in_percent),
    ("show memory_breakdown_in_percent", memory_in_percent),
    ("show overview", overview),
    ("show churn", churn),
    ("show endpoint", endpoint),
    ("health_check local_alarms", alarms),
    ("health_check cluster_wide_alarms", alarms),
    ("health_check node_is_quorum_critical", healthy),
    ("health_check port_listener", port),
    ("health_check protocol_listener", protocol),
    ("feature_flags list", flags),
    ("list feature_flags", flags),
    ("feature_flags enable", enable),
    ("feature_flags enable_all", enable_all),
    ("deprecated_features list", deprecated),
    ("list deprecated_features", deprecated),
    ("deprecated_features list_used", deprecated_used),
    ("list deprecated_features_in_use", deprecated_used),
    ("plugins list_all", plugins),
    ("plugins list_on_node", plugins),
];

const PASSED: &str = "health check passed";

fn list(admin: &Admin, command: &str) {
    let node = &admin.get("nodes")[0];
    let pid = node["os_pid"].as_str().expect("a process").to_owned();
    admin.lists(command, "", &[&admin.node_name(), &pid, "4.3.6"]);
}

fn memory_in_bytes(admin: &Admin, command: &str) {
    let rows = admin.rows(command, "--node NODE");
    let total = rows.iter().find(|row| row.starts_with(&["Total".to_owned(), "(RSS)".to_owned()]));
    let total: u64 = total.unwrap_or_else(|| panic!("no total: {rows:?}"))[2].parse().expect("bytes");
    assert!(total > 1_000_000, "{total}");
    admin.fails(command, "--node no@where", "404");
}

fn memory_in_percent(admin: &Admin, command: &str) {
    let rows = admin.rows(command, "--node NODE");
    let shares = rows
        .iter()
        .filter(|row| row[0] != "total")
        .filter_map(|row| row.last()?.strip_suffix('%')?.parse::<f64>().ok());
    let sum: f64 = shares.sum();
    assert!((99.0..101.0).contains(&sum), "{sum} %: {rows:?}");
}

/// The number in the row of a table with these words.
fn number(rows: &[Vec<String>], words: &str) -> String {
    let row = rows.iter().find(|row| row[..row.len() - 1].join(" ") == words);
    row.unwrap_or_else(|| panic!("no {words:?}: {rows:?}")).last().expect("a value").clone()
}

fn overview(admin: &Admin, command: &str) {
    let mut wire = Wire::open(admin.broker.amqp());
    wire.declare(1, "overview", true);
    wire.consume(1, "overview", false);
    let rows = admin.rows(command, "");
    assert_eq!(number(&rows, "RabbitMQ version"), "4.3.6");
    for one in ["Connections (total)", "AMQP 0-9-1 channels (total)", "Consumers (total)"] {
        assert_eq!(number(&rows, one), "1", "{one}");
    }
    assert_eq!(
        number(&rows, "Queues and streams (total)"),
        admin.get("overview")["object_totals"]["queues"].to_string()
    );
    wire.close();
}

fn churn(admin: &Admin, command: &str) {
    let names = ["Queues and streams (re)declarations", "Queues and streams created", "Queues and streams deleted"];
    let counted = || {
        let rows = admin.rows(command, "");
        names.map(|name| number(&rows, name).parse::<u64>().expect("a count"))
    };
    let before = counted();
    admin.put("queues/%2F/churned", json!({}));
    admin.put("queues/%2F/churned", json!({}));
    assert_eq!(admin.http.delete("/api/queues/%2F/churned").expect("an answer").status, 204);
    let [declared, created, deleted] = counted();
    assert_eq!([declared - before[0], created - before[1], deleted - before[2]], [2, 1, 1]);
}

fn endpoint(admin: &Admin, command: &str) {
    assert_eq!(admin.run(command, "").trim(), format!("Using endpoint: http://{}/api", admin.http.authority));
}

fn healthy(admin: &Admin, command: &str) {
    assert!(admin.run(command, "").contains(PASSED));
}

fn alarms(admin: &Admin, command: &str) {
    assert!(admin.run(command, "").contains(PASSED));
    let Broker::Own(node) = &admin.broker else { panic!("the broker isn't ours") };
    let until = |passes: bool| {
        let deadline = Instant::now() + PATIENCE;
        while (admin.status("health/checks/local-alarms") == 200) != passes {
            assert!(Instant::now() < deadline, "{command}: the alarm doesn't come or go");
            // An alarm is raised by a file that the node polls.
            thread::sleep(Duration::from_millis(10));
        }
    };
    node.raise_alarms("memory");
    until(false);
    admin.fails(command, "", "health check failed");
    node.raise_alarms("");
    until(true);
    assert!(admin.run(command, "").contains(PASSED));
}

fn port(admin: &Admin, command: &str) {
    assert!(admin.run(command, &format!("--port {}", admin.broker.amqp().port())).contains(PASSED));
    admin.fails(command, "--port 1", "No active listener");
}

fn protocol(admin: &Admin, command: &str) {
    for spoken in ["amqp", "amqp091", "amqp10", "http"] {
        assert!(admin.run(command, &format!("--protocol {spoken}")).contains(PASSED), "{spoken}");
    }
    admin.fails(command, "--protocol stomp", "No active listener");
}

fn flags(admin: &Admin, command: &str) {
    admin.lists(command, "", &["user_limits", "enabled", "required"]);
    assert_eq!(admin.rows(command, "").len(), admin.get("feature-flags").as_array().expect("a list").len());
}

fn enable(admin: &Admin, command: &str) {
    admin.run(command, "--name rabbitmq_4.3.0");
    assert!(admin.get("feature-flags").as_array().expect("a list").iter().all(|flag| flag["state"] == "enabled"));
    admin.fails(command, "--name nonsense", "unsupported");
}

fn enable_all(admin: &Admin, command: &str) {
    admin.run(command, "");
    assert!(admin.get("feature-flags").as_array().expect("a list").iter().all(|flag| flag["state"] == "enabled"));
}

fn deprecated(admin: &Admin, command: &str) {
    admin.lists(command, "", &["transient_nonexcl_queues", "permitted_by_default", "permitted"]);
    // Consumers of classic queues share the prefetch, unless that is switched off.
    admin.lists(command, "", &["global_qos", "denied_by_default", "permitted"]);
}

fn deprecated_used(admin: &Admin, command: &str) {
    assert!(admin.rows(command, "").is_empty());
    admin.put("queues/%2F/transient", json!({"durable": false}));
    admin.lists(command, "", &["transient_nonexcl_queues"]);
    assert_eq!(admin.http.delete("/api/queues/%2F/transient").expect("an answer").status, 204);
}

fn plugins(admin: &Admin, command: &str) {
    let option = if command == "plugins list_on_node" { "--node NODE" } else { "" };
    admin.lists(command, option, &[&admin.node_name(), "rabbitmq_management", "Enabled"]);
}
