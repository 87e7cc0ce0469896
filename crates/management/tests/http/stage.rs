//! A node with its HTTP servers, an HTTP client, and an AMQP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_auth::{HASHING_SHA256, hash_password};
use leveret_config::Config;
use leveret_management::{Api, HttpListener, MetricsOptions, api, metrics, serve};
use leveret_model::{Command, PutUser, SetPermissions};
use leveret_node::listener_kind::{AMQP, HTTP, PROMETHEUS, STREAM};
use leveret_node::{DirectoryLock, Listener, Listening, Node, NodeOptions};
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;
use leveret_session_stream::StreamProtocol;
use leveret_strict_client::amqp091::{Client, Event, Options};
use serde_json::Value;

pub(crate) struct HttpStage {
    pub(crate) node: Node,
    pub(crate) amqp: SocketAddr,
    /// The stream protocol.
    pub(crate) stream: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) prometheus: SocketAddr,
    pub(crate) api: Api,
    pub(crate) directory: tempfile::TempDir,
}

impl HttpStage {
    /// A node with the administrator `guest` and, in the vhost `v`, `user` with the tag `management` and permissions
    /// for names that begin with x; `plain` has no tag.
    pub(crate) fn new() -> Self {
        Self::with("cores=1")
    }

    /// As [`HttpStage::new`], with one more setting.
    pub(crate) fn with(setting: &str) -> Self {
        Self::with_all(&[setting])
    }

    /// As [`HttpStage::new`], with more settings.
    pub(crate) fn with_all(settings: &[&str]) -> Self {
        Self::start(settings, MetricsOptions::default(), false)
    }

    /// As [`HttpStage::new`], but queues answer later, as those of another node do.
    pub(crate) fn with_late_answers() -> Self {
        Self::start(&[], MetricsOptions::default(), true)
    }

    /// As [`HttpStage::new`], with other settings of the metrics.
    pub(crate) fn with_metrics(options: MetricsOptions) -> Self {
        Self::start(&[], options, false)
    }

    fn start(settings: &[&str], pages: MetricsOptions, answers_late: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = Config::default();
        config.set("cores=1").expect("is a key");
        for setting in settings {
            config.set(setting).expect("is a key");
        }
        let lock = DirectoryLock::acquire(directory.path()).expect("the directory is free");
        let mut options = NodeOptions::new(
            &config,
            vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol), Arc::new(StreamProtocol::default())],
            Arc::new(|text| panic!("{text}")),
        );
        options.broker.answers_late = answers_late;
        let (mut node, _) = Node::start(lock, options).expect("starts");
        let now = node.handle().clock().now();
        node.handle().broker().bootstrap(users(), now).expect("users are made");
        wait_until_published(node.handle().broker());
        let listen = || Node::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
        let (amqp_listener, http_listener, prometheus_listener) = (listen(), listen(), listen());
        let stream_listener = listen();
        let address = |listener: &std::net::TcpListener| listener.local_addr().expect("is bound");
        let (amqp, http) = (address(&amqp_listener), address(&http_listener));
        let (prometheus, stream) = (address(&prometheus_listener), address(&stream_listener));
        let places = [(&HTTP, http), (&PROMETHEUS, prometheus)];
        node.others_listen(places.map(|(kind, address)| Listening { kind, address }));
        let listener = |kind, socket| Listener { kind, socket, tls: None, proxy_protocol: false };
        let listeners = vec![listener(&AMQP, amqp_listener), listener(&STREAM, stream_listener)];
        node.accept(listeners, Vec::new()).expect("accepts");
        let state =
            Api::new(node.handle(), "leveret@localhost".to_owned(), directory.path().to_owned(), "synced".to_owned());
        state.set_rules(config.management_api.clone());
        let listener = HttpListener { limits: config.management.limits.clone(), ..HttpListener::default() };
        let (served, scraped) = (api(state.clone()), metrics(state.clone(), pages));
        node.spawn(state.clone().sample());
        node.spawn(async move { serve(http_listener, served, listener).await.expect("serves") });
        node.spawn(async move { serve(prometheus_listener, scraped, HttpListener::default()).await.expect("serves") });
        HttpStage { node, amqp, stream, http, prometheus, api: state, directory }
    }

    /// Status and body of a request by `guest`.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.ask_as(Some("guest:guest"), method, path, body)
    }

    /// Status and body of a request; an empty body is the empty string, as in the recordings.
    pub(crate) fn ask_as(&self, credentials: Option<&str>, method: &str, path: &str, body: &str) -> (u16, Value) {
        use base64::Engine;
        let authorization = credentials.map_or(String::new(), |text| {
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            format!("authorization: Basic {encoded}\r\n")
        });
        let (status, text) = request(self.http, method, path, &authorization, body);
        let json = if text.is_empty() { Value::String(text) } else { serde_json::from_str(&text).expect(&text) };
        (status, json)
    }
}

/// Asks again until there is an answer.
pub(crate) fn patience<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it doesn't happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the users are durable; before, no login succeeds.
fn wait_until_published(broker: &leveret_broker::Broker) {
    let (_, place) = broker.registry.model_snapshot();
    let (done, wait) = std::sync::mpsc::channel();
    broker.streams.when_over(
        leveret_broker::ticket::Ticket::new(leveret_broker::ticket::StreamId::LOCAL, place),
        Box::new(move |_| {
            let _ = done.send(());
        }),
    );
    wait.recv().expect("is durable");
    broker.registry.publish();
}

/// Sends a request on a connection of its own.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n");
    write!(stream, "{head}{headers}\r\n{body}").expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunked(body) } else { body.to_owned() };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body)
}

/// Decodes a chunked body.
fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).expect("a length");
        if length == 0 {
            break;
        }
        whole.push_str(&rest[..length]);
        body = &rest[length + 2..];
    }
    whole
}

fn users() -> Vec<Command> {
    let user = |name: &str, tags: &[&str]| {
        Command::PutUser(PutUser {
            name: name.into(),
            password_hash: Some(hash_password(name.as_bytes(), [1, 2, 3, 4]).into()),
            hashing_algorithm: HASHING_SHA256.into(),
            tags: tags.iter().map(|tag| (*tag).into()).collect(),
        })
    };
    let permission = |user: &str, vhost: &str, pattern: &str| {
        Command::SetPermissions(SetPermissions {
            user: user.into(),
            vhost: vhost.into(),
            configure: pattern.to_owned(),
            write: pattern.to_owned(),
            read: pattern.to_owned(),
        })
    };
    vec![
        Command::CreateVhost { name: "v".into() },
        user("user", &["management"]),
        user("plain", &[]),
        permission("guest", "v", ".*"),
        permission("user", "v", "^x"),
        permission("plain", "v", ".*"),
    ]
}

/// An AMQP client on a blocking socket.
pub(crate) struct Amqp {
    pub(crate) client: Client,
    stream: TcpStream,
    unread: Vec<u8>,
    events: Vec<Event>,
}

impl Amqp {
    /// A connection with channel 1 open.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
        let mut amqp = Amqp { client: Client::new(Options::default()), stream, unread: Vec::new(), events: Vec::new() };
        amqp.until(|event| matches!(event, Event::Connected));
        amqp.client.open_channel(1);
        amqp.reply("channel.open-ok");
        amqp
    }

    pub(crate) fn reply(&mut self, name: &str) {
        self.until(|event| matches!(event, Event::Reply { method, .. } if *method == name));
    }

    /// Sends pending output and reads until the event occurs.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Event) -> bool) {
        self.until_seen(wanted);
    }

    /// As [`Amqp::until`], for predicates with state.
    pub(crate) fn until_seen(&mut self, mut wanted: impl FnMut(&Event) -> bool) {
        loop {
            let output = std::mem::take(self.client.output());
            self.stream.write_all(&output).expect("is sent");
            if let Some(at) = self.events.iter().position(&mut wanted) {
                self.events.drain(..=at);
                return;
            }
            let mut buffer = [0; 4096];
            let count = self.stream.read(&mut buffer).expect("an answer");
            assert!(count > 0, "the broker closed the connection: {:?}", self.events);
            self.unread.extend_from_slice(&buffer[..count]);
            let used = self.client.receive(&self.unread, &mut self.events).expect("no violation");
            self.unread.drain(..used);
        }
    }
}
