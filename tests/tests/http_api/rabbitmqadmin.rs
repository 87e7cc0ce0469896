//! rabbitmqadmin v1, the script of RabbitMQ 3.10: each command about supported objects, and its effect over HTTP.

use std::path::PathBuf;
use std::process::Command;

use leveret_tests::broker::{Broker, is_given};
use leveret_tests::cell;
use leveret_tests::http::Http;
use leveret_tests::node::new_directory;
use leveret_tests::wire::Wire;
use serde_json::{Value, json};

/// The script against one broker.
struct Admin {
    http: Http,
    script: PathBuf,
}

impl Admin {
    fn of(broker: &Broker) -> Self {
        Self { http: broker.http(), script: cell::clients().join(".installed/rabbitmqadmin-v1") }
    }

    /// Runs a command. Returns its output, as an error if it failed.
    fn try_run(&self, arguments: &str) -> Result<String, String> {
        self.try_words(&arguments.split(' ').collect::<Vec<_>>())
    }

    fn try_words(&self, words: &[&str]) -> Result<String, String> {
        let (host, port) = self.http.authority.rsplit_once(':').expect("host:port");
        let output = Command::new("python3")
            .arg(&self.script)
            .args(["--host", host, "--port", port])
            .args(words)
            .output()
            .expect("python3");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stdout) + &text(&output.stderr))
        }
    }

    /// The output of a command, which has to succeed.
    fn run(&self, arguments: &str) -> String {
        self.try_run(arguments).unwrap_or_else(|error| {
            panic!("rabbitmqadmin {arguments}: {error} (run `make -C tests/clients install` if there is no script)")
        })
    }

    fn get(&self, path: &str) -> Value {
        self.http.get(&format!("/api/{path}")).expect("an answer").json()
    }

    fn status(&self, path: &str) -> u16 {
        self.http.get(&format!("/api/{path}")).expect("an answer").status
    }

    /// Names in a list, in the script's output format for scripts.
    fn listed(&self, arguments: &str) -> Vec<String> {
        let table = self.run(&format!("-f tsv {arguments}"));
        table.lines().skip(1).map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }
}

#[test]
fn declared_objects_exist_and_deleted_ones_are_gone() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let admin = Admin::of(&broker);
    admin.run("declare vhost name=adm");
    admin.run("declare user name=someone password=secret tags=management");
    admin.run("declare permission vhost=adm user=someone configure=^a write=.* read=.*");
    assert_eq!(admin.get("permissions/adm/someone")["configure"], "^a");
    assert_eq!(admin.get("users/someone")["tags"], json!(["management"]));
    admin.run("-V adm declare exchange name=x type=topic durable=true");
    admin.run("-V adm declare exchange name=y type=fanout");
    admin.run("-V adm declare queue name=q durable=true queue_type=classic");
    admin.run("-V adm declare binding source=x destination=q routing_key=a.#");
    admin.run("-V adm declare binding source=x destination_type=exchange destination=y routing_key=b");
    assert_eq!(admin.get("exchanges/adm/x")["type"], "topic");
    assert_eq!(admin.get("queues/adm/q")["durable"], true);
    assert_eq!(admin.get("bindings/adm/e/x/q/q")[0]["routing_key"], "a.#");
    assert_eq!(admin.get("bindings/adm/e/x/e/y")[0]["routing_key"], "b");
    assert_eq!(admin.listed("list vhosts name"), ["/", "adm"]);
    assert_eq!(admin.listed("list users name"), ["guest", "someone"]);
    assert_eq!(admin.listed("-V adm list queues name"), ["q"]);
    assert!(admin.listed("-V adm list exchanges name").contains(&"x".to_owned()));
    assert_eq!(admin.listed("-V adm list bindings routing_key").len(), 3);
    assert_eq!(admin.listed("list permissions user").len(), 3);

    admin.run("declare vhost_limit vhost=adm name=max-queues value=5");
    assert_eq!(admin.get("vhost-limits/adm")[0]["value"]["max-queues"], 5);
    admin.run("delete vhost_limit vhost=adm name=max-queues");
    assert_eq!(admin.get("vhost-limits/adm"), json!([]));

    admin.run("-V adm delete binding source=x destination_type=queue destination=q properties_key=a.%23");
    assert_eq!(admin.get("bindings/adm/e/x/q/q"), json!([]));
    admin.run("-V adm delete queue name=q");
    admin.run("-V adm delete exchange name=x");
    assert_eq!((admin.status("queues/adm/q"), admin.status("exchanges/adm/x")), (404, 404));
    admin.run("delete permission vhost=adm user=someone");
    assert_eq!(admin.status("permissions/adm/someone"), 404);
    admin.run("delete user name=someone");
    admin.run("delete vhost name=adm");
    assert_eq!((admin.status("users/someone"), admin.status("vhosts/adm")), (404, 404));
    // Unsupported features are reported.
    let refused = admin.try_run("declare parameter component=shovel name=p value={}").expect_err("is refused");
    assert!(refused.contains("501"), "{refused}");
    broker.finish("");
}

#[test]
fn messages_are_published_browsed_and_purged() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let admin = Admin::of(&broker);
    admin.run("declare queue name=letters durable=true");
    for payload in ["one", "two", "three"] {
        assert!(admin.run(&format!("publish routing_key=letters payload={payload}")).contains("Message published"));
    }
    assert!(admin.run("publish routing_key=nobody payload=x").contains("NOT routed"));
    let seen = admin.run("-f tsv get queue=letters count=2 ackmode=ack_requeue_true");
    assert!(seen.contains("one") && seen.contains("two") && !seen.contains("three"), "{seen}");
    assert_eq!(admin.get("queues/%2F/letters")["messages"], 3);
    let taken = admin.run("-f tsv get queue=letters ackmode=ack_requeue_false");
    assert!(taken.contains("one"), "{taken}");
    assert_eq!(admin.get("queues/%2F/letters")["messages"], 2);
    admin.run("purge queue name=letters");
    assert_eq!(admin.get("queues/%2F/letters")["messages"], 0);
    broker.finish("letters");
}

#[test]
fn a_node_is_shown_and_a_connection_closed() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let admin = Admin::of(&broker);
    let mut wire = Wire::open(broker.amqp());
    wire.declare(1, "watched", true);
    wire.consume(1, "watched", false);
    assert!(admin.run("show overview").contains("4.3"));
    assert_eq!(admin.listed("list nodes name").len(), 1);
    assert_eq!(admin.listed("list consumers queue.name"), ["watched"]);
    assert_eq!(admin.listed("list channels number"), ["1"]);
    let names = admin.listed("list connections name");
    assert_eq!(names.len(), 1);
    for empty in ["parameters", "policies", "operator_policies", "vhost_limits", "user_limits"] {
        // An older script has no user_limits.
        if let Ok(printed) = admin.try_run(&format!("-f raw_json list {empty}")) {
            assert_eq!(printed.trim(), "[]", "{empty}");
        }
    }
    let closed = admin.try_words(&["close", "connection", &format!("name={}", names[0])]);
    assert!(closed.is_ok(), "{closed:?}");
    let (code, text) = wire.until_closed().expect("connection.close");
    assert!(code == 320 && text.contains("Closed via management plugin"), "{code} {text}");
    broker.finish("watched");
}

#[test]
fn definitions_are_exported_and_imported() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let admin = Admin::of(&broker);
    let folder = new_directory();
    let (all, one) = (folder.path().join("all.json"), folder.path().join("one.json"));
    admin.run("declare vhost name=adm");
    admin.run("declare queue name=kept durable=true");
    admin.run("-V adm declare queue name=kept-too durable=true");
    admin.run(&format!("export {}", all.display()));
    admin.run(&format!("-V adm export {}", one.display()));
    admin.run("delete vhost name=adm");
    admin.run("delete queue name=kept");
    admin.run(&format!("import {}", all.display()));
    assert_eq!((admin.status("queues/%2F/kept"), admin.status("queues/adm/kept-too")), (200, 200));
    admin.run("-V adm delete queue name=kept-too");
    admin.run(&format!("-V adm import {}", one.display()));
    assert_eq!(admin.status("queues/adm/kept-too"), 200);
    broker.finish("");
}
