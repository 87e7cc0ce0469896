//! A protocol joins a node through the traits that it implements, without a change in any crate: it logs in, declares,
//! publishes with confirms, consumes with credit, acknowledges, is notified of an alarm, and is listed under its own
//! name. Its messages are stored in an encoding that no crate knows, reach other protocols, and come from them.

mod backend;
mod encoding;
mod home;
mod protocol;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leveret_broker::AlarmSource;
use leveret_config::Config;
use leveret_management::{Api, HttpListener, MetricsOptions, Router, api, metrics, serve};
use leveret_model::{AskedGrants, GrantAnswer, GrantQuestion, Grants, Identity};
use leveret_node::listener_kind::AMQP;
use leveret_node::{DirectoryLock, Listener, ListenerKind, Node, NodeOptions};
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;

use backend::Backend;
use home::Home;
use protocol::Toy;

/// The row of the toy protocol.
static TOY: ListenerKind = ListenerKind {
    protocol: "toy",
    also_called: &[],
    purpose: "Lines of text",
    port_name: "toy",
    line: ("Toy", "(telnet localhost PORT)"),
    labels: &["toy"],
    tls_options: None,
    is_for_clients: true,
};

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
        let mut client = Self(BufReader::new(stream));
        client.send("TOY");
        client
    }

    fn send(&mut self, line: &str) {
        // In one write, so that the end of a line is never read later than the line: while the alarm is up, that would be
        // another case.
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).expect("is sent");
    }

    #[track_caller]
    fn hear(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        assert!(read.is_ok(), "no line: {read:?}");
        line.trim_end().to_owned()
    }

    /// The next line, for which `work` is done meanwhile.
    #[track_caller]
    fn hear_while(&mut self, mut work: impl FnMut()) -> String {
        self.0.get_ref().set_read_timeout(Some(Duration::from_millis(5))).expect("is set");
        let (mut line, end) = (String::new(), Instant::now() + Duration::from_secs(30));
        while self.0.read_line(&mut line).is_err() {
            assert!(Instant::now() < end, "no line");
            work();
        }
        self.0.get_ref().set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.hear()
    }
}

/// The answer to a GET by `guest`.
fn get(address: SocketAddr, path: &str) -> String {
    ask(address, "GET", path, "")
}

/// The answer to a request by `guest`.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
    let head = "host: test\r\nconnection: close\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{body}").expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = Node::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let address = listener.local_addr().expect("is bound");
    (listener, address)
}

fn answer(node: &Node, router: Router) -> SocketAddr {
    let (listener, address) = listen();
    node.spawn(async move { serve(listener, router, HttpListener::default()).await.expect("serves") });
    address
}

#[test]
fn a_protocol_joins_without_a_change_elsewhere() {
    [false, true].into_iter().for_each(joins);
}

/// The commit stream of a queue on another node is made while a client is connected, leaves while the client waits for a confirm, and is
/// followed by the next one.
#[test]
fn a_stream_is_made_and_leaves_while_the_node_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let lock = DirectoryLock::acquire(directory.path()).expect("is free");
    let mut config = Config::default();
    config.set("cores=1").expect("is a key");
    let options = NodeOptions::new(&config, vec![Arc::new(Toy)], Arc::new(|text| panic!("{text}")));
    let (mut node, _) = Node::start(lock, options).expect("starts");
    let (socket, address) = listen();
    node.accept(vec![Listener { kind: &TOY, socket, tls: None, proxy_protocol: false }], Vec::new()).expect("accepts");
    let handle = node.handle();
    let (broker, now) = (handle.broker(), || handle.clock().now());

    let home = Home::new(broker, "far", now());
    let mut client = Client::connect(address);
    assert_eq!(client.ask("login guest guest"), "ok");
    assert_eq!(client.ask("publish far zero"), "refused 1", "its node isn't reached");

    let mut link = home.connect(broker, now());
    client.send("publish far one");
    assert_eq!(client.hear_while(|| link.turn(&home, now())), "confirmed 2");
    client.send("publish far two");
    while !link.ask(now()) {
        std::thread::yield_now();
    }
    link.cut(now());
    assert_eq!(client.hear(), "refused 3", "nobody knows whether it is there");

    let mut link = home.connect(broker, now());
    client.send("publish far three");
    assert_eq!(client.hear_while(|| link.turn(&home, now())), "confirmed 4");
    client.send("consume far 9");
    let mut heard = Vec::new();
    while heard.last().is_none_or(|line: &String| !line.ends_with("three")) {
        heard.push(client.hear_while(|| link.turn(&home, now())));
    }
    // The call of the second one was at its node when the link was cut.
    assert_eq!(heard, ["ok", "message 0 one", "message 1 two", "message 2 three"]);
    link.cut(now());
}

/// With `answers_late`, queues and the control plane answer as those of another node do.
fn joins(answers_late: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let lock = DirectoryLock::acquire(directory.path()).expect("is free");
    let mut config = Config::default();
    config.set("cores=1").expect("is a key");
    let protocols: Vec<Arc<dyn leveret_broker::Protocol>> =
        vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol), Arc::new(Toy)];
    let mut options = NodeOptions::new(&config, protocols, Arc::new(|text| panic!("{text}")));
    options.broker.answers_late = answers_late;
    let backend = Backend::new(options.authenticate.clone());
    options.authenticate = Arc::new(backend.clone());
    let (mut node, _) = Node::start(lock, options).expect("starts");
    let (socket, address) = listen();
    let (old, amqp) = listen();
    let listeners = vec![
        Listener { kind: &TOY, socket, tls: None, proxy_protocol: false },
        Listener { kind: &AMQP, socket: old, tls: None, proxy_protocol: false },
    ];
    let ports = node.accept(listeners, Vec::new()).expect("accepts");
    let shown = Api::new(node.handle(), "leveret@localhost".into(), directory.path().to_owned(), "synced".into());
    let http = answer(&node, api(shown.clone()));
    let scraped = answer(&node, metrics(shown, MetricsOptions::default()));

    assert_eq!(ports.get(&TOY), Some(address.port()));
    let port = address.port();
    let row =
        format!("{{\"ip_address\":\"127.0.0.1\",\"node\":\"leveret@localhost\",\"port\":{port},\"protocol\":\"toy\",");
    let overview = get(http, "/api/overview");
    assert!(overview.contains(&row), "{row} in {overview}");
    assert!(get(http, "/api/health/checks/protocol-listener/toy").contains("\"status\":\"ok\""));

    let mut client = Client::connect(address);
    assert_eq!(client.ask("login guest guest"), "ok");
    assert_eq!(client.ask("declare work"), "ok");
    assert_eq!(client.ask("publish work one"), "confirmed 1");
    assert_eq!(client.ask("publish work two"), "confirmed 2");
    assert_eq!(client.ask("consume work 1"), "ok");
    assert_eq!(client.hear(), "message 0 one", "its credit is one");
    assert_eq!(client.ask("ack 0"), "ok");

    // Forced, so that no measurement clears it before the client is told.
    let handle = node.handle();
    handle.force_alarm(AlarmSource::Memory, true);
    assert_eq!(client.hear(), "blocked");
    client.send("publish work three");
    assert!(get(http, "/api/connections").contains("\"protocol\":\"TOY 1\""));
    handle.force_alarm(AlarmSource::Memory, false);
    assert_eq!((client.hear(), client.hear()), ("unblocked".into(), "confirmed 3".into()));

    let pages = get(scraped, "/metrics");
    for line in [
        "rabbitmq_global_messages_received_total{protocol=\"toy\"} 3",
        "rabbitmq_global_messages_confirmed_total{protocol=\"toy\"} 3",
        "rabbitmq_global_consumers{protocol=\"toy\"} 1",
        "rabbitmq_global_consumers{protocol=\"amqp091\"} 0",
        "rabbitmq_auth_attempts_succeeded_total{protocol=\"toy\"} 1",
    ] {
        assert!(pages.contains(line), "{line} isn't in {pages}");
    }
    messages_are_converted(&mut client, address, http);
    identities_come_late(&backend, address, http);
    // Its listener accepts no other protocol, and the other listener doesn't accept it.
    assert_eq!(Client::connect(amqp).hear(), "AMQP\u{3}\u{1}\0\0", "the header of what it speaks");
}

/// The messages of a queue, as the HTTP API shows them.
fn messages(http: SocketAddr) -> String {
    let wanted = r#"{"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    ask(http, "POST", "/api/queues/%2F/work/get", wanted)
}

/// Messages in the toy's encoding are routed by their notes, and are shown as messages of AMQP 0-9-1; those become messages of the toy.
fn messages_are_converted(client: &mut Client, address: SocketAddr, http: SocketAddr) {
    let made = ask(http, "PUT", "/api/exchanges/%2F/sorted", r#"{"type": "headers", "durable": true}"#);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let red = r#"{"arguments": {"x-match": "all", "colour": "red"}}"#;
    let bound = ask(http, "POST", "/api/bindings/%2F/e/sorted/q/work", red);
    assert!(bound.starts_with("HTTP/1.1 201"), "{bound}");
    client.send("note colour red");
    assert_eq!(client.ask("send sorted four"), "confirmed 4");
    assert_shown(http);
    let five = r#"{"properties": {"headers": {"size": "large"}}, "routing_key": "work", "payload": "five",
        "payload_encoding": "string"}"#;
    let published = ask(http, "POST", "/api/exchanges/%2F/amq.default/publish", five);
    assert!(published.contains("{\"routed\":true}"), "{published}");

    let mut reader = Client::connect(address);
    assert_eq!(reader.ask("login guest guest"), "ok");
    assert_eq!(reader.ask("consume work 9"), "ok");
    let heard: Vec<String> = std::iter::repeat_with(|| reader.hear()).take(6).collect();
    let expected =
        ["message 1 two", "message 2 three", "note colour red", "message 3 four", "note size large", "message 4 five"];
    assert_eq!(heard, expected);
}

/// A login that comes late, grants that are asked late, a name that is no user's, and a credential that ends.
fn identities_come_late(backend: &Backend, address: SocketAddr, http: SocketAddr) {
    let wall_ms = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let robot = |lasts_ms: u64| {
        let grants = Grants::Asked(AskedGrants::default());
        Identity::new("robot", Vec::new(), grants, "toy").ending_at(wall_ms() + lasts_ms)
    };
    let mut client = Client::connect(address);
    // The rest of its input waits with the login.
    client.send("login robot secret");
    client.send("declare own");
    client.send("note colour blue");
    client.send("publish own one");
    let mut other = Client::connect(address);
    assert_eq!(other.ask("login guest guest"), "ok", "nobody else waits");
    backend.answer_login(Ok(robot(60_000)));
    assert_eq!(backend.answer(GrantAnswer::Granted), GrantQuestion::enter("/"));
    assert_eq!(client.hear(), "ok");
    assert!(get(http, "/api/connections").contains("\"user\":\"robot\""));
    assert!(get(http, "/api/users/robot").starts_with("HTTP/1.1 404"));
    for _ in ["configure the queue", "write to the exchange"] {
        assert!(matches!(backend.answer(GrantAnswer::Granted), GrantQuestion::Resource { .. }));
    }
    assert_eq!((client.hear(), client.hear()), ("ok".into(), "confirmed 1".into()));
    assert_eq!(client.ask("publish own two"), "confirmed 2", "the answer is kept");
    client.send("consume own 9");
    backend.answer(GrantAnswer::Granted);
    let heard = [client.hear(), client.hear(), client.hear(), client.hear()];
    assert_eq!(heard, ["ok", "note colour blue", "message 0 one", "message 1 two"]);
    client.send("declare others");
    backend.answer(GrantAnswer::Refused);
    let refused = client.hear();
    assert!(refused.starts_with("error") && refused.contains("refused for user 'robot'"), "{refused}");

    let mut client = Client::connect(address);
    client.send("login robot secret");
    backend.answer_login(Err("no".to_owned()));
    assert_eq!(client.hear(), "error no");
    let mut client = Client::connect(address);
    client.send("login robot secret");
    backend.answer_login(Ok(robot(300)));
    backend.answer(GrantAnswer::Granted);
    assert_eq!((client.hear(), client.hear()), ("ok".into(), "closed credential expired".into()));
}

fn assert_shown(http: SocketAddr) {
    let shown = messages(http);
    for part in [r#""headers":{"colour":"red"}"#, r#""payload":"four""#] {
        assert!(shown.contains(part), "{part} isn't in {shown}");
    }
}
