//! The requests in order: first those that only read, then those that change something.

use leveret_tests::http::{Answer, Http};
use serde_json::Value;

/// A request.
pub(crate) struct Request {
    /// The name of the response, which is also its file's under golden/http.
    pub(crate) name: &'static str,
    method: &'static str,
    path: String,
    body: String,
    /// Credentials other than the guest's; an empty name for none.
    user: Option<(&'static str, &'static str)>,
}

impl Request {
    /// Sends the request.
    pub(crate) fn ask(&self, http: &Http) -> Answer {
        let http = match self.user {
            Some((user, password)) => http.as_user(user, password),
            None => http.clone(),
        };
        http.request(self.method, &self.path, &self.body).expect("an answer")
    }
}

/// All requests, for the objects of the scene.
pub(crate) fn all(http: &Http, amqp_port: u16) -> Vec<Request> {
    let speaks = |protocol: &'static str| {
        move |connection: &Value| connection["protocol"].as_str().is_some_and(|name| name.contains(protocol))
    };
    let names = [
        ("{node}", name_of(http, "/api/nodes", |_| true)),
        ("{amqp091}", name_of(http, "/api/connections", speaks("0-9-1"))),
        ("{amqp10}", name_of(http, "/api/connections", speaks("1-0"))),
        ("{channel}", name_of(http, "/api/channels", |_| true)),
        ("{port}", amqp_port.to_string()),
    ];
    let request = |&(name, method, path, body, user): &Row| {
        let path = names.iter().fold(format!("/api/{path}"), |path, (mark, name)| path.replace(mark, name));
        Request { name, method, path, body: body.to_owned(), user }
    };
    let gets = GETS.iter().map(|(name, path)| request(&(name, "GET", path, "", None)));
    gets.chain(OTHERS.iter().map(request)).collect()
}

/// The name of the first matching object in a list, encoded for a path.
fn name_of(http: &Http, path: &str, pick: impl Fn(&Value) -> bool) -> String {
    let list = http.get(path).expect("a list").json();
    let found = list.as_array().into_iter().flatten().find(|object| pick(object));
    let name = found.and_then(|object| object["name"].as_str()).unwrap_or_else(|| panic!("none in {path}: {list}"));
    name.bytes().fold(String::new(), |name, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => name + &char::from(byte).to_string(),
        _ => name + &format!("%{byte:02X}"),
    })
}

const GETS: &[(&str, &str)] = &[
    ("overview", "overview"),
    ("whoami", "whoami"),
    ("cluster-name", "cluster-name"),
    ("extensions", "extensions"),
    ("version", "version"),
    ("nodes", "nodes"),
    ("node", "nodes/{node}"),
    ("node-memory", "nodes/{node}/memory"),
    ("vhosts", "vhosts"),
    ("vhost", "vhosts/shapes"),
    ("vhost-permissions", "vhosts/shapes/permissions"),
    ("vhost-limits", "vhost-limits"),
    ("vhost-limits-one", "vhost-limits/shapes"),
    ("users", "users"),
    ("user", "users/shapes"),
    ("user-permissions", "users/shapes/permissions"),
    ("users-without-permissions", "users/without-permissions"),
    ("user-limits", "user-limits"),
    ("user-limits-one", "user-limits/shapes"),
    ("permissions", "permissions"),
    ("permission", "permissions/shapes/shapes"),
    ("topic-permissions", "topic-permissions"),
    ("topic-permission", "topic-permissions/shapes/shapes"),
    ("queues", "queues"),
    ("queues-vhost", "queues/%2F"),
    ("queue", "queues/%2F/shapes-c"),
    ("queue-arguments", "queues/%2F/shapes-dl"),
    ("queue-bindings", "queues/%2F/shapes-c/bindings"),
    ("queues-detailed", "queues/detailed"),
    ("queues-page", "queues?page=1&page_size=1&name=shapes&use_regex=true&pagination=true"),
    ("queues-columns", "queues?columns=name,messages&sort=name&sort_reverse=true"),
    ("queues-totals", "queues?disable_stats=true&enable_queue_totals=true"),
    ("exchanges", "exchanges"),
    ("exchanges-vhost", "exchanges/%2F"),
    ("exchange", "exchanges/%2F/shapes-x"),
    ("exchange-source", "exchanges/%2F/shapes-x/bindings/source"),
    ("exchange-destination", "exchanges/%2F/shapes-x/bindings/destination"),
    ("bindings", "bindings"),
    ("bindings-vhost", "bindings/%2F"),
    ("bindings-pair", "bindings/%2F/e/shapes-x/q/shapes-c"),
    ("binding", "bindings/%2F/e/shapes-x/q/shapes-c/a.%23"),
    ("connections", "connections"),
    ("connection-091", "connections/{amqp091}"),
    ("connection-10", "connections/{amqp10}"),
    ("connection-channels", "connections/{amqp091}/channels"),
    ("connection-sessions", "connections/{amqp10}/sessions"),
    ("connections-of-user", "connections/username/guest"),
    ("connections-page", "connections?page=1&page_size=100&pagination=true"),
    ("channels", "channels"),
    ("channel", "channels/{channel}"),
    ("consumers", "consumers"),
    ("consumers-vhost", "consumers/%2F"),
    ("policies", "policies"),
    ("policy", "policies/%2F/shapes"),
    ("operator-policies", "operator-policies"),
    ("parameters", "parameters"),
    ("global-parameters", "global-parameters"),
    ("definitions", "definitions"),
    ("definitions-vhost", "definitions/shapes"),
    ("feature-flags", "feature-flags"),
    ("deprecated-features", "deprecated-features"),
    ("deprecated-features-used", "deprecated-features/used"),
    ("health-alarms", "health/checks/alarms"),
    ("health-local-alarms", "health/checks/local-alarms"),
    ("health-port", "health/checks/port-listener/{port}"),
    ("health-port-none", "health/checks/port-listener/1"),
    ("health-protocol", "health/checks/protocol-listener/amqp"),
    ("health-virtual-hosts", "health/checks/virtual-hosts"),
    ("health-certificates", "health/checks/certificate-expiration/1/weeks"),
    ("health-in-service", "health/checks/is-in-service"),
    ("health-ready", "health/checks/ready-to-serve-clients"),
    ("health-critical", "health/checks/node-is-quorum-critical"),
    ("aliveness", "aliveness-test/%2F"),
    ("auth-attempts", "auth/attempts/{node}"),
    ("hash-password", "auth/hash_password/secret"),
    ("none-queue", "queues/%2F/shapes-none"),
    ("none-vhost", "queues/shapes-none"),
    ("none-route", "shapes-none"),
    ("none-user", "users/shapes-none"),
];

type Row = (&'static str, &'static str, &'static str, &'static str, Option<(&'static str, &'static str)>);

const OTHERS: &[Row] = &[
    ("unauthenticated", "GET", "overview", "", Some(("", ""))),
    ("wrong-password", "GET", "overview", "", Some(("guest", "wrong"))),
    ("forbidden", "PUT", "users/shapes2", r#"{"password": "x", "tags": ""}"#, Some(("shapes", "shapes-password"))),
    (
        "put-queue",
        "PUT",
        "queues/%2F/shapes-put",
        r#"{"durable": true, "auto_delete": false, "arguments": {"x-queue-type": "classic"}}"#,
        None,
    ),
    (
        "put-queue-again",
        "PUT",
        "queues/%2F/shapes-put",
        r#"{"durable": true, "auto_delete": false, "arguments": {"x-queue-type": "classic"}}"#,
        None,
    ),
    ("put-queue-inequivalent", "PUT", "queues/%2F/shapes-put", r#"{"durable": false}"#, None),
    (
        "put-queue-bad-argument",
        "PUT",
        "queues/%2F/shapes-bad",
        r#"{"durable": true, "arguments": {"x-max-length": "many"}}"#,
        None,
    ),
    (
        "put-queue-bad-type",
        "PUT",
        "queues/%2F/shapes-bad",
        r#"{"durable": true, "arguments": {"x-queue-type": "none"}}"#,
        None,
    ),
    ("put-exchange", "PUT", "exchanges/%2F/shapes-put", r#"{"type": "fanout", "durable": true}"#, None),
    ("put-exchange-bad-type", "PUT", "exchanges/%2F/shapes-bad", r#"{"type": "none"}"#, None),
    (
        "post-binding",
        "POST",
        "bindings/%2F/e/shapes-put/q/shapes-put",
        r#"{"routing_key": "k", "arguments": {}}"#,
        None,
    ),
    (
        "post-binding-none",
        "POST",
        "bindings/%2F/e/shapes-none/q/shapes-put",
        r#"{"routing_key": "k", "arguments": {}}"#,
        None,
    ),
    (
        "publish",
        "POST",
        "exchanges/%2F/shapes-put/publish",
        r#"{"properties": {"delivery_mode": 2}, "routing_key": "k", "payload": "hello", "payload_encoding": "string"}"#,
        None,
    ),
    (
        "publish-default-exchange",
        "POST",
        "exchanges/%2F/amq.default/publish",
        r#"{"properties": {}, "routing_key": "shapes-put", "payload": "aGVsbG8=", "payload_encoding": "base64"}"#,
        None,
    ),
    ("publish-missing-field", "POST", "exchanges/%2F/shapes-put/publish", r#"{"routing_key": "k"}"#, None),
    (
        "get-messages",
        "POST",
        "queues/%2F/shapes-put/get",
        r#"{"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto"}"#,
        None,
    ),
    (
        "get-bad-ackmode",
        "POST",
        "queues/%2F/shapes-put/get",
        r#"{"count": 2, "ackmode": "none", "encoding": "auto"}"#,
        None,
    ),
    ("purge", "DELETE", "queues/%2F/shapes-put/contents", "", None),
    ("delete-binding-none", "DELETE", "bindings/%2F/e/shapes-put/q/shapes-put/none", "", None),
    ("delete-queue", "DELETE", "queues/%2F/shapes-put", "", None),
    ("delete-queue-again", "DELETE", "queues/%2F/shapes-put", "", None),
    ("delete-exchange", "DELETE", "exchanges/%2F/shapes-put", "", None),
    ("delete-default-exchange", "DELETE", "exchanges/%2F/amq.direct", "", None),
    ("put-vhost-again", "PUT", "vhosts/shapes", r#"{"description": "e"}"#, None),
    ("put-user-no-password", "PUT", "users/shapes3", r#"{"tags": ""}"#, None),
    (
        "put-permission-bad-regex",
        "PUT",
        "permissions/shapes/shapes",
        r#"{"configure": "[", "write": ".*", "read": ".*"}"#,
        None,
    ),
    (
        "put-permission-none",
        "PUT",
        "permissions/shapes-none/shapes",
        r#"{"configure": "", "write": "", "read": ""}"#,
        None,
    ),
    ("put-limit-bad", "PUT", "vhost-limits/shapes/none", r#"{"value": 1}"#, None),
    ("rebalance", "POST", "rebalance/queues", r#"{}"#, None),
    ("not-json", "PUT", "queues/%2F/shapes-bad", r#"{not json"#, None),
    ("wrong-method", "POST", "whoami", r#"{}"#, None),
];
