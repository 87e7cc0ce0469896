use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("declare queue", declare),
    ("queues declare", declare),
    ("delete queue", delete),
    ("queues delete", delete),
    ("queues delete_multiple", delete_multiple),
    ("list queues", list),
    ("queues list", list),
    // It lists queues of every type.
    ("streams list", list),
    ("queues show", show),
    ("streams show", show),
    ("declare stream", declare_stream),
    ("streams declare", declare_stream),
    ("delete stream", delete_stream),
    ("streams delete", delete_stream),
    ("queues rebalance", rebalance),
    ("rebalance queues", rebalance),
];

fn declare(admin: &Admin, command: &str) {
    let queue = name(command);
    let arguments = r#"{"x-max-length":3,"x-message-ttl":60000}"#;
    admin.run(command, &format!("--name {queue} --type classic --durable true --arguments {arguments}"));
    let made = admin.get(&format!("queues/%2F/{queue}"));
    assert_eq!(
        (&made["durable"], &made["auto_delete"], &made["type"]),
        (&json!(true), &json!(false), &json!("classic"))
    );
    assert_eq!((&made["arguments"]["x-max-length"], &made["arguments"]["x-message-ttl"]), (&json!(3), &json!(60_000)));
    for _ in 0..5 {
        let message = json!({"properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string"});
        assert_eq!(admin.post("exchanges/%2F/amq.default/publish", message)["routed"], true);
    }
    assert_eq!(admin.get(&format!("queues/%2F/{queue}"))["messages"], 3);
    admin.run(command, &format!("--name {queue} --type classic --durable true --arguments {arguments}"));
    admin.fails(command, &format!("--name {queue} --durable true"), "inequivalent arg 'x-message-ttl'");
    let stream = format!("{queue}-stream");
    admin.run(command, &format!("--name {stream} --durable true --type stream"));
    assert_eq!(admin.get(&format!("queues/%2F/{stream}"))["type"], "stream");
    let replicated = format!("{queue}-quorum");
    admin.run(command, &format!("--name {replicated} --durable true --type quorum"));
    assert_eq!(admin.get(&format!("queues/%2F/{replicated}"))["type"], "quorum");
    let temporary = format!("{queue}-temporary");
    admin.run(command, &format!("--name {temporary} --type classic --durable false --auto-delete true"));
    let made = admin.get(&format!("queues/%2F/{temporary}"));
    assert_eq!((&made["durable"], &made["auto_delete"]), (&json!(false), &json!(true)));
}

fn delete(admin: &Admin, command: &str) {
    let queue = name(command);
    admin.put(&format!("queues/%2F/{queue}"), json!({}));
    admin.run(command, &format!("--name {queue}"));
    assert_eq!(admin.status(&format!("queues/%2F/{queue}")), 404);
    admin.fails(command, &format!("--name {queue}"), "404");
    admin.run(command, &format!("--name {queue} --idempotently"));
}

fn declare_stream(admin: &Admin, command: &str) {
    let stream = name(command);
    admin.run(command, &format!("--name {stream} --expiration 1D --max-length-bytes 1000000"));
    let made = admin.get(&format!("queues/%2F/{stream}"));
    assert_eq!((&made["type"], &made["durable"]), (&json!("stream"), &json!(true)));
    assert_eq!(
        (&made["arguments"]["x-max-age"], &made["arguments"]["x-max-length-bytes"]),
        (&json!("1D"), &json!(1_000_000))
    );
}

fn delete_stream(admin: &Admin, command: &str) {
    let stream = name(command);
    admin.put(&format!("queues/%2F/{stream}"), json!({"arguments": {"x-queue-type": "stream"}}));
    admin.run(command, &format!("--name {stream}"));
    assert_eq!(admin.status(&format!("queues/%2F/{stream}")), 404);
    admin.fails(command, &format!("--name {stream}"), "404");
}

fn delete_multiple(admin: &Admin, command: &str) {
    admin.put("vhosts/many", json!({}));
    for queue in ["many-1", "many-2", "other"] {
        admin.put(&format!("queues/many/{queue}"), json!({}));
    }
    assert_eq!(admin.rows(command, "--vhost many --name-pattern ^many- --dry-run"), [["many-1"], ["many-2"]]);
    assert_eq!(admin.get("queues/many").as_array().map(Vec::len), Some(3));
    let report = admin.run(command, "--vhost many --name-pattern ^many- --approve --output json");
    let report: serde_json::Value =
        serde_json::from_str(&report[report.find('{').expect("an object")..=report.rfind('}').expect("its end")])
            .expect("a report");
    assert_eq!((&report["succeeded"], &report["failed"]), (&json!(2), &json!(0)));
    assert_eq!(admin.get("queues/many")[0]["name"], "other");
    assert_eq!(admin.get("queues/many").as_array().map(Vec::len), Some(1));
}

fn list(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    for queue in ["a", "b", "c"] {
        admin.put(&format!("queues/{vhost}/{queue}"), json!({"arguments": {"x-expires": 600_000}}));
    }
    let rows = admin.rows(command, &format!("--vhost {vhost}"));
    let queue = |row: &Vec<String>| (row[0].clone(), row[1].clone(), row[2].clone(), row[3].clone());
    let expected =
        ["a", "b", "c"].map(|name| (name.to_owned(), vhost.clone(), "classic".to_owned(), "true".to_owned()));
    let first: Vec<_> = rows.iter().filter(|row| row.len() > 4).map(queue).collect();
    assert_eq!(first, expected, "{rows:?}");
    let page = admin.rows(command, &format!("--vhost {vhost} --page 2 --page-size 2"));
    assert!(page.iter().any(|row| row[0] == "c") && !page.iter().any(|row| row[0] == "a"), "{page:?}");
    if command != "list queues" {
        assert_eq!(
            admin.rows(command, &format!("--vhost {vhost} --columns name,durable")),
            [["a", "true"], ["b", "true"], ["c", "true"]]
        );
    }
}

fn show(admin: &Admin, command: &str) {
    let queue = name(command);
    admin.put(&format!("queues/%2F/{queue}"), json!({"durable": true}));
    admin.lists(command, &format!("--name {queue}"), &[&queue, "/", "classic", "true", "running"]);
    let columns = admin.rows(command, &format!("--name {queue} --columns name,queue_type"));
    assert_eq!(columns, [[queue.as_str(), "classic"]]);
    admin.fails(command, "--name nobody", "404");
}

/// On a single node there is nothing to move.
fn rebalance(admin: &Admin, command: &str) {
    let queues = || admin.get("queues?columns=name,vhost,node");
    let before = queues();
    admin.run(command, "");
    assert_eq!(queues(), before);
    let monitor = admin.http.as_user("watcher", "secret");
    admin.put("users/watcher", json!({"password": "secret", "tags": "monitoring"}));
    assert_eq!(monitor.post("/api/rebalance/queues", &json!({})).expect("an answer").status, 401);
}
