//! Clients of the stream protocol in responses, on the local socket, and in metrics.

use leveret_stream_protocol::ResponseCode;
use leveret_stream_protocol::client::{ServerCommand, request};
use serde_json::{Value, json};

use crate::metrics::page;
use crate::stage::HttpStage;
use crate::stream_client::StreamClient;

/// A client with a publisher `ref` of ten messages in the stream `s` of the vhost `v`, in two chunks.
fn published(stage: &HttpStage) -> StreamClient {
    let mut client = StreamClient::connect(stage.stream, "plain", "v");
    client.publisher("ref", "s");
    client.publish(1..=5);
    client.publish(6..=10);
    client
}

/// The same with a subscription to both chunks, another one in a group that got one chunk, and a second member of that group.
fn consumed(stage: &HttpStage) -> (StreamClient, StreamClient) {
    const GROUP: [(&str, &str); 2] = [("single-active-consumer", "true"), ("name", "grp")];
    let mut client = published(stage);
    client.subscribe(7, "s", 10, &[("name", "app")]);
    client.delivered();
    client.delivered();
    client.subscribe(10, "s", 1, &GROUP);
    client.activate();
    client.delivered();
    let mut second = StreamClient::connect(stage.stream, "guest", "v");
    second.subscribe(11, "s", 1, &GROUP);
    (client, second)
}

fn encoded(name: &str) -> String {
    name.replace(' ', "%20").replace(':', "%3A").replace('>', "%3E")
}

fn keys(of: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| of[*name].clone()).collect()
}

#[test]
fn connections_are_listed_by_protocol_and_vhost_and_closed() {
    let stage = HttpStage::new();
    let client = published(&stage);
    let get = |path: &str| stage.ask("GET", &format!("/api/{path}"), "");
    let (status, listed) = get("stream/connections");
    assert_eq!((status, listed.as_array().map(Vec::len)), (200, Some(1)));
    let shown =
        ["name", "protocol", "vhost", "user", "auth_mechanism", "frame_max", "timeout", "channels", "channel_max"];
    let expected = json!([client.name(), "stream", "v", "plain", "PLAIN", 1 << 20, 60, 0, 0]);
    assert_eq!(json!(keys(&listed[0], &shown)), expected);
    assert_eq!(
        json!(keys(&listed[0], &["publishers", "subscriptions", "user_provided_name"])),
        json!([1, 0, "streamer"])
    );
    let path = format!("stream/connections/v/{}", encoded(&client.name()));
    assert_eq!(get(&path).1["name"], json!(client.name()));
    assert_eq!(get("stream/connections/v").1.as_array().map(Vec::len), Some(1));
    assert_eq!(get("stream/connections/%2F"), (200, json!([])));
    assert_eq!(get("connections").1[0]["protocol"], "stream");
    for missing in ["stream/connections/none", "stream/connections/v/none", &path.replace("/v/", "/%2F/")] {
        assert_eq!(get(missing).0, 404, "{missing}");
    }
    assert_eq!(stage.ask_as(Some("user:user"), "GET", "/api/stream/connections", ""), (200, json!([])));
    for (method, path) in [("GET", path.clone()), ("GET", format!("{path}/publishers")), ("DELETE", path.clone())] {
        assert_eq!(stage.ask_as(Some("user:user"), method, &format!("/api/{path}"), "").0, 401, "{method} {path}");
    }
    assert_eq!(stage.ask("DELETE", &format!("/api/{path}"), "").0, 204);
    client.wait_for_close();
    stage.node.stop("test");
}

#[test]
fn publishers_and_consumers_are_those_of_the_protocol() {
    let stage = HttpStage::new();
    let (client, second) = consumed(&stage);
    let get = |path: &str| stage.ask("GET", &format!("/api/stream/{path}"), "");
    let (_, publishers) = get("publishers");
    let shown = keys(&publishers[0], &["publisher_id", "queue", "reference", "published", "confirmed", "errored"]);
    assert_eq!(json!(shown), json!([1, {"name": "s", "vhost": "v"}, "ref", 10, 10, 0]));
    let details = keys(&publishers[0]["connection_details"], &["name", "user", "peer_host", "node"]);
    assert_eq!(json!(details), json!([client.name(), "plain", "127.0.0.1", "leveret@localhost"]));
    let own = format!("connections/v/{}", encoded(&client.name()));
    for same in ["publishers/v", "publishers/v/s", &format!("{own}/publishers")] {
        assert_eq!(get(same).1, publishers, "{same}");
    }
    assert_eq!(stage.ask("PUT", "/api/queues/v/c", "{}").0, 201);
    assert_eq!((get("publishers/%2F").1, get("publishers/v/c").1), (json!([]), json!([])));
    assert_eq!((get("publishers/v/none").0, get("publishers/none").0, get("consumers/none").0), (404, 404, 404));
    let (_, consumers) = get("consumers/v");
    let columns = ["subscription_id", "consumed", "credits", "offset", "offset_lag", "active", "activity_status"];
    let rows: Vec<_> = consumers.as_array().expect("a list").iter().map(|row| keys(row, &columns)).collect();
    assert_eq!(
        json!(rows),
        json!([
            [7, 10, 8, 9, 0, true, "up"],
            [10, 5, 0, 4, 5, true, "single_active"],
            [11, 0, 1, 0, 0, false, "waiting"],
        ])
    );
    assert_eq!(consumers[1]["properties"], json!({"name": "grp", "single-active-consumer": "true"}));
    assert_eq!(get(&format!("{own}/consumers")).1, json!([consumers[0], consumers[1]]));
    let (_, listed) = stage.ask("GET", "/api/consumers/v", "");
    let columns = ["consumer_tag", "ack_required", "prefetch_count", "active", "activity_status"];
    let rows: Vec<_> = listed.as_array().expect("a list").iter().map(|row| keys(row, &columns)).collect();
    assert_eq!(
        json!(rows),
        json!([
            ["stream.subid-7", false, 0, true, "up"],
            ["stream.subid-10", false, 0, true, "single_active"],
            ["stream.subid-11", false, 0, false, "waiting"],
        ])
    );
    let details = keys(&listed[0]["channel_details"], &["name", "number", "connection_name", "user"]);
    assert_eq!(json!(details), json!(["", 0, client.name(), "plain"]));
    let (_, queue) = stage.ask("GET", "/api/queues/v/s", "");
    assert_eq!((&queue["consumers"], queue["consumer_details"].as_array().map(Vec::len)), (&json!(3), Some(3)));
    drop(second);
    stage.node.stop("test");
}

#[test]
fn tracking_has_the_values_that_stream_clients_stored() {
    let stage = HttpStage::new();
    let mut client = published(&stage);
    client.send(|out| request::store_offset(out, "app", "s", 4));
    client.send(|out| request::store_offset(out, "first", "s", 0));
    // Its answer comes after both.
    assert_eq!(client.call(|out, correlation| request::delete_publisher(out, correlation, 1)), 1);
    let ask = |query: &str| stage.ask("GET", &format!("/api/stream/v/s/tracking{query}"), "").1;
    let (offsets, writers) = (json!({"app": 4, "first": 0}), json!({"ref": 10}));
    assert_eq!(ask("?type=writer"), json!({"writers": writers}));
    assert_eq!(ask("?type=offset"), json!({"offsets": offsets}));
    assert_eq!(ask("?type=all"), json!({"offsets": offsets, "writers": writers}));
    assert_eq!(ask(""), ask("?type=all"));
    stage.node.stop("test");
}

#[test]
fn traffic_and_refusals_of_the_protocol_are_counted() {
    let stage = HttpStage::new();
    let (mut client, second) = consumed(&stage);
    assert_eq!(client.call(|out, correlation| request::unsubscribe(out, correlation, 99)), 4);
    for _ in 0..2 {
        assert_eq!(client.call(|out, correlation| request::delete(out, correlation, "none")), 2);
    }
    let sums = page(&stage, "/metrics");
    let has = |sample: &str| assert!(sums.lines().any(|line| line == sample), "{sample} in {sums}");
    let stream = "protocol=\"stream\"";
    for (family, count) in [
        ("messages_received_total", 10),
        ("messages_received_confirm_total", 10),
        ("messages_confirmed_total", 10),
        ("publishers", 1),
        ("consumers", 3),
        ("stream_error_subscription_id_does_not_exist_total", 1),
        ("stream_error_stream_does_not_exist_total", 2),
        ("stream_error_access_refused_total", 0),
    ] {
        has(&format!("rabbitmq_global_{family}{{{stream}}} {count}"));
    }
    has(&format!("rabbitmq_global_messages_delivered_total{{{stream},queue_type=\"rabbit_stream_queue\"}} 15"));
    has("rabbitmq_stream_consumer_max_offset_lag 5");
    let errors = sums.lines().filter(|line| line.starts_with("rabbitmq_global_stream_error_"));
    assert_eq!(errors.count(), 17);
    drop(second);
    stage.node.stop("test");
}

#[test]
fn clients_of_a_restarted_stream_are_told_and_subscribe_again() {
    let stage = HttpStage::new();
    let mut client = published(&stage);
    client.subscribe(7, "s", 10, &[]);
    client.delivered();
    let mut other = StreamClient::connect(stage.stream, "plain", "v");
    other.publisher("ref", "t");
    stage.node.handle().broker().restart_stream("v".into(), "s".into());
    let told = client.until(|command| match *command {
        ServerCommand::MetadataUpdate { code, stream } => Some((code, stream.to_owned())),
        _ => None,
    });
    assert_eq!(told, (ResponseCode::StreamNotAvailable as u16, "s".to_owned()));
    // Publisher and subscription are gone, and their ids free.
    assert_eq!(client.call(|out, correlation| request::declare_publisher(out, correlation, 1, "ref", "s")), 1);
    client.subscribe(7, "s", 10, &[]);
    client.delivered();
    // Another stream's clients notice nothing.
    other.publish(1..=1);
    stage.node.stop("test");
}
