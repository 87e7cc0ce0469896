//! The requests of KEDA's RabbitMQ scaler and of Datadog's check, and the values that they read from the responses.

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::broker::{Broker, is_given};
use leveret_tests::http::Http;
use leveret_tests::wire::{Wire, Writer, method, publish};
use serde_json::Value;

fn get(http: &Http, path: &str) -> Value {
    let answer = http.get(path).expect("an answer");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()
}

/// A queue with six ready messages and four unacknowledged ones of a consumer; the connection keeps them.
fn traffic(broker: &Broker) -> Wire {
    let mut wire = Wire::open(broker.amqp());
    wire.declare(1, "orders", true);
    wire.declare(1, "orders-retry", true);
    wire.confirm_select(1);
    wire.prefetch(1, 4);
    for _ in 0..10 {
        wire.send(&publish(1, "", "orders", b"x", false, true));
    }
    wire.confirms(10);
    wire.consume(1, "orders", false);
    for _ in 0..4 {
        wire.delivery();
    }
    wire
}

#[test]
fn keda_reads_lengths_and_rates() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let wire = traffic(&broker);
    let http = broker.http();
    // The modes QueueLength, MessageRate, DeliverGetRate and ExpectedQueueConsumptionTime read one queue.
    let queue = get(&http, "/api/queues/%2F/orders");
    assert_eq!((queue["messages"].as_u64(), queue["messages_ready"].as_u64()), (Some(10), Some(6)));
    assert_eq!(queue["messages_unacknowledged"], 4);
    assert_eq!(queue["name"], "orders");
    let rate = |path: &str| queue["message_stats"][path]["rate"].as_f64().unwrap_or_else(|| panic!("{path}: {queue}"));
    assert!(rate("publish_details") > 0.0 && rate("deliver_get_details") > 0.0);
    // With useRegex it reads a page of the queues whose names match.
    let path = "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Eorders&page_size=100";
    let page = get(&http, path);
    let names: Vec<_> = page["items"].as_array().expect("items").iter().map(|item| item["name"].clone()).collect();
    assert_eq!(names, ["orders", "orders-retry"]);
    assert_eq!(page["page_count"], 1);
    // In AMQP mode it declares passively.
    let mut passive = Wire::open(broker.amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("orders").put_octet(0b11).put_empty_table();
    let ok = passive.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
    let mut fields = ok.arguments();
    assert_eq!((fields.short_string(), fields.long(), fields.long()), ("orders".to_owned(), 6, 1));
    passive.close();
    wire.close();
    broker.finish("orders");
}

#[test]
fn datadog_collects_nodes_queues_connections_and_checks() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let wire = traffic(&broker);
    let http = broker.http();
    let overview = get(&http, "/api/overview");
    for path in ["object_totals", "queue_totals", "message_stats"] {
        assert!(overview[path].is_object(), "{path}: {overview}");
    }
    assert!(overview["cluster_name"].is_string() && overview["rabbitmq_version"].is_string());
    let nodes = get(&http, "/api/nodes");
    for key in ["fd_used", "fd_total", "disk_free", "mem_used", "mem_limit", "run_queue", "sockets_used", "partitions"]
    {
        assert!(!nodes[0][key].is_null(), "{key}: {nodes}");
    }
    assert_eq!(nodes[0]["running"], true);
    let queues = get(&http, "/api/queues");
    let queue = queues.as_array().expect("a list").iter().find(|queue| queue["name"] == "orders").expect("is listed");
    for key in ["messages", "messages_ready", "messages_unacknowledged", "consumers", "memory", "consumer_utilisation"]
    {
        assert!(queue[key].is_number(), "{key}: {queue}");
    }
    for (key, rate) in [("publish", "publish_details"), ("deliver_get", "deliver_get_details")] {
        let stats = &queue["message_stats"];
        assert!(stats[key].is_number() && stats[rate]["rate"].is_number(), "{key}: {queue}");
    }
    assert!(get(&http, "/api/exchanges").as_array().is_some_and(|list| list.len() >= 7));
    // Per vhost.
    assert_eq!(get(&http, "/api/vhosts")[0]["name"], "/");
    assert_eq!(get(&http, "/api/aliveness-test/%2F")["status"], "ok");
    let deadline = Instant::now() + PATIENCE;
    while get(&http, "/api/vhosts/%2F/connections")[0]["state"] != "running" {
        assert!(Instant::now() < deadline, "the connection isn't shown");
        // The properties of a connection can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(get(&http, "/api/connections")[0]["vhost"], "/");
    wire.close();
    broker.finish("orders");
}
