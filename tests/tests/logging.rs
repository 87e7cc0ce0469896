//! Log lines of a node, their outputs, and log management: `log.*`, `rabbitmqctl rotate_logs`, SIGHUP. Lines are
//! worded as RabbitMQ words them, because operators grep for them.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::amqp10::Amqp10;
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options, binary};
use leveret_tests::wire::{Login, PROTOCOL_HEADER, Tuning, Wire, Writer, method, method_frame};
use serde_json::{Value, json};

const TUNING: Tuning = Tuning { frame_max: 0, heartbeat: 0 };

/// Runs one of our tools on this node.
fn tool(node: &Node, words: &str) -> (String, bool) {
    let mut words = words.split(' ');
    let mut command = Command::new(binary());
    command.arg(words.next().expect("a tool")).arg("--data-dir").arg(node.directory()).args(words);
    let output = command.output().expect("it runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

/// Waits until a file has the expected content: lines are written by a separate thread.
#[track_caller]
fn wait_for(path: &Path, found: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if found(&text) {
            return text;
        }
        assert!(Instant::now() < deadline, "it isn't in {}:\n{text}", path.display());
        std::thread::yield_now();
    }
}

/// The lines of one connection without times, with `N` for its number and `here` for addresses.
fn lines_of(text: &str, number: u64) -> Vec<String> {
    let pid = format!("<0.{number}.0>");
    let own = text.lines().filter(|line| line.contains(&format!("] {pid} ")));
    own.map(|line| {
        let line = line.split_once(" [").map_or(line, |(_, rest)| rest).replace(&pid, "N");
        let mut parts = line.split("127.0.0.1:");
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            shown.push_str("here");
            shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        let line = shown;
        match line.find("duration: '") {
            Some(at) => format!("{}duration){}", &line[..at], if line.ends_with(':') { ":" } else { "" }),
            None => line,
        }
    })
    .collect()
}

#[test]
fn connections_are_logged_in_rabbitmqs_words() {
    let node = Node::start(Options::new().set("log.file", "a.log").set("log.file.level", "debug"));
    let path = node.directory().join("log/a.log");
    let over = |number: u64| {
        let pid = format!("<0.{number}.0> closing AMQP connection");
        lines_of(&wait_for(&path, |text| text.contains(&pid)), number)
    };

    let mut named = Wire::connect(node.amqp());
    named.send(PROTOCOL_HEADER);
    named.next_method(method::CONNECTION_START).expect("a start");
    let login = Login { properties: &[("connection_name", "or\nders")], ..Login::default() };
    named.log_in(TUNING, &login).expect("a connection");
    named.open_channel(1);
    let mut passive = Writer::new();
    passive.put_short(0).put_short_string("none").put_octet(1).put_empty_table();
    named.send(&method_frame(1, method::QUEUE_DECLARE, &passive));
    named.next_method(method::CHANNEL_CLOSE).expect("the channel is closed");
    let mut close = Writer::new();
    close.put_short(200).put_short_string("bye").put_short(0).put_short(0);
    named.send(&method_frame(0, method::CONNECTION_CLOSE, &close));
    named.next_method(method::CONNECTION_CLOSE_OK).expect("is closed");
    drop(named);
    assert_eq!(
        over(1),
        [
            "info] N accepting AMQP connection here -> here",
            "info] N connection here -> here has a client-provided name: or\\nders",
            "info] N User 'guest' authenticated successfully",
            "info] N connection here -> here - or\\nders: user 'guest' authenticated and granted access to vhost '/'",
            "error] N Channel error on connection N (here -> here - or\\nders, vhost: '/', user: 'guest'), channel 1:",
            "error] N operation queue.declare caused a channel exception not_found: no queue 'none' in vhost '/'",
            "info] N closing AMQP connection (here -> here - or\\nders, vhost: '/', user: 'guest', duration)",
        ]
    );

    drop(Wire::open(node.amqp()));
    assert_eq!(
        over(2)[3..],
        [
            "warning] N closing AMQP connection N (here -> here, vhost: '/', user: 'guest', duration):",
            "warning] N client unexpectedly closed TCP connection",
        ]
    );

    let mut wrong = Wire::connect(node.amqp());
    wrong.send(PROTOCOL_HEADER);
    wrong.next_method(method::CONNECTION_START).expect("a start");
    let login = Login { password: "guessed-it", capabilities: &["authentication_failure_close"], ..Login::default() };
    wrong.log_in(TUNING, &login).expect_err("it is wrong");
    drop(wrong);
    assert_eq!(
        over(3)[..4],
        [
            "info] N accepting AMQP connection here -> here",
            "warning] N User 'guest' failed to authenticate: PLAIN login refused: user 'guest' - invalid credentials",
            "error] N Error on AMQP connection N (here -> here, state: starting):",
            "error] N PLAIN login refused: user 'guest' - invalid credentials",
        ]
    );

    drop(TcpStream::connect(node.amqp()).expect("a connection"));
    assert_eq!(
        over(4),
        [
            "debug] N closing AMQP connection N (here -> here, duration):",
            "debug] N connection_closed_with_no_data_received",
        ]
    );

    drop(Amqp10::open(node.amqp()));
    let told = over(5);
    assert_eq!(told[1], "info] N User 'guest' authenticated successfully");
    assert!(
        told[2].starts_with("info] N Connection from AMQP 1.0 container '")
            && told[2]
                .contains("user 'guest' authenticated using SASL mechanism PLAIN and granted access to vhost '/'"),
        "{told:?}"
    );
}

#[test]
fn an_output_has_its_own_format_and_a_category_its_own_file() {
    let mut node = Node::start(
        Options::new()
            .set("log.console", true)
            .set("log.console.level", "warning")
            .set("log.file", "all.json")
            .set("log.file.formatter", "json")
            .set("log.file.formatter.json.field_map", "level:severity time:@timestamp")
            .set("log.user.file", "users.json"),
    );
    let logs = node.directory().join("log");
    assert_eq!(node.http().as_user("guest", "not-the-password").get("/api/overview").expect("an answer").status, 401);
    let users = wait_for(&logs.join("users.json"), |text| text.contains("failed to authenticate"));
    assert!(!users.contains("not-the-password") && users.lines().count() == 1, "{users}");
    drop(Wire::open(node.amqp()));
    let all = wait_for(&logs.join("all.json"), |text| text.contains("unexpectedly"));
    let lines: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["severity"].is_string() && line["@timestamp"].is_string()), "{all}");
    assert!(lines.iter().all(|line| line["domain"] != "rabbitmq.user"), "{all}");
    let accepted = lines.iter().find(|line| line["domain"] == "rabbitmq.connection").expect("one");
    assert_eq!((&accepted["severity"], &accepted["pid"]), (&json!("info"), &json!("<0.1.0>")));
    assert!(node.wait_for_line("client unexpectedly closed TCP connection"));
    assert!(!node.log().contains("accepting AMQP connection"), "it is less than a warning");

    let (files, _) = tool(&node, "diagnostics -q log_location");
    assert_eq!(files.trim(), logs.join("all.json").display().to_string());
    let (files, _) = tool(&node, "diagnostics -q log_location --all");
    assert_eq!(files.lines().count(), 3, "{files}");
    assert!(node.terminate().success());
}

#[test]
fn files_are_rotated_reopened_and_read_by_command() {
    let mut node = Node::start(Options::new().set("log.file", "a.log").set("log.file.rotation.count", 2));
    let logs = node.directory().join("log");
    let (path, old) = (logs.join("a.log"), logs.join("a.log.0"));
    wait_for(&path, |text| text.contains("Server startup complete"));
    assert!(tool(&node, "ctl rotate_logs").1);
    assert!(fs::read_to_string(&old).expect("the old one").contains("Server startup complete"));
    assert!(!fs::read_to_string(&path).expect("the new one").contains("Server startup complete"));

    // The same as logrotate does.
    fs::rename(&path, logs.join("moved.log")).expect("it can be moved");
    node.hang_up();
    wait_for(&path, |text| text.contains("the configuration is reloaded"));

    assert!(tool(&node, "ctl set_log_level none").1);
    drop(Wire::open(node.amqp()));
    assert!(tool(&node, "ctl set_log_level debug").1);
    wait_for(&path, |text| text.contains("Log level set to debug"));
    let (last, _) = tool(&node, "diagnostics -q log_tail -N 1");
    assert!(last.contains("Log level set to debug") && last.lines().count() == 1, "{last}");
    let (last, _) = tool(&node, "diagnostics log_tail --number 1 --formatter json");
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert!(last[0]["message"].as_str().is_some_and(|line| line.contains("Log level set to debug")), "{last}");
    let (streamed, well) = tool(&node, "diagnostics log_tail_stream -d 0");
    assert!(well && streamed.starts_with("Streaming logs from node"), "{streamed}");
    assert!(node.terminate().success());
    wait_for(&path, |text| text.ends_with("stopped\n"));
}

#[test]
fn without_a_file_there_is_none_to_read() {
    let node = Node::start(Options::new().set("log.file", "false").set("log.console", true));
    let (_, well) = tool(&node, "diagnostics log_tail");
    assert!(!well);
    let (files, _) = tool(&node, "diagnostics -q log_location");
    assert_eq!(files.trim(), "<stdout>");
}

#[test]
fn the_last_lines_are_given_over_http_whatever_the_outputs_are() {
    if is_given() {
        return;
    }
    let node =
        Node::start(Options::new().set("log.console", "false").set("log.file", "false").set("log.exchange", "true"));
    let http = node.http();
    let name = http.get("/api/overview").expect("an answer").json()["node"].as_str().expect("a name").to_owned();
    let path = format!("/api/nodes/{name}/log");
    let lines = |query: &str| -> Vec<Value> {
        http.get(&format!("{path}{query}")).expect("an answer").json()["lines"].as_array().expect("lines").clone()
    };
    let mut watch = http.events(&format!("/api/watch?path={path}?lines=20")).expect("a stream");
    watch.next_event().expect("the last line");
    let body = json!({"password": "not-to-be-seen", "tags": "monitoring"});
    assert_eq!(http.put("/api/users/reader", &body).expect("an answer").status, 201);
    let line = loop {
        let (_, last) = watch.next_event().expect("the new line");
        let mut lines = last["body"]["lines"].as_array().expect("lines").iter();
        // Lines of the start may come late.
        if let Some(line) = lines.find(|line| line["text"].as_str().is_some_and(|text| text.contains("reader"))) {
            break line.clone();
        }
    };
    assert_eq!((&line["level"], &line["pid"]), (&json!("info"), &json!(0)), "{line}");

    assert_eq!(http.as_user("reader", "wrong").get("/api/whoami").expect("an answer").status, 401);
    let refused = &lines("?level=warning&lines=1")[0];
    assert_eq!((&refused["level"], &refused["category"]), (&json!("warning"), &json!("user")));
    assert!(refused["text"].as_str().is_some_and(|text| text.contains("'reader' failed to authenticate")), "{refused}");
    let all = lines("?lines=5000");
    let numbers: Vec<u64> = all.iter().filter_map(|line| line["number"].as_u64()).collect();
    assert!(numbers.len() > 2 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    assert!(all.iter().all(|line| !line.to_string().contains("not-to-be-seen")), "{all:?}");

    assert_eq!(http.as_user("reader", "not-to-be-seen").get(&path).expect("an answer").status, 401);
    for (query, status) in [("?level=loud", 400), ("?lines=few", 400), ("", 200)] {
        assert_eq!(http.get(&format!("{path}{query}")).expect("an answer").status, status, "{query}");
    }
    assert_eq!(http.get("/api/nodes/another@host/log").expect("an answer").status, 404);
}

#[test]
fn syslog_gets_lines_over_udp_and_over_tcp() {
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    udp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let options = |port: u16| Options::new().set("log.syslog", true).set("log.syslog.port", port);
    let node = Node::start(options(udp.local_addr().expect("bound").port()).set("log.syslog.identity", "mq"));
    let mut buffer = [0; 4096];
    loop {
        let length = udp.recv(&mut buffer).expect("a datagram");
        let line = String::from_utf8_lossy(&buffer[..length]);
        assert!(line.starts_with("<30>") || line.starts_with("<28>"), "{line}");
        assert!(line.contains(&format!(" mq[{}]: ", node.ports().pid)), "{line}");
        if line.ends_with("Server startup complete") {
            break;
        }
    }
    drop(node);

    let tcp = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = tcp.local_addr().expect("bound").port();
    let node = Node::start(options(port).set("log.syslog.transport", "tcp").set("log.syslog.protocol", "rfc5424"));
    let (mut stream, _) = tcp.accept().expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut text = String::new();
    let mut part = [0; 4096];
    while !text.contains("Server startup complete") {
        let length = std::io::Read::read(&mut stream, &mut part).expect("it is read");
        assert_ne!(length, 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    let (length, rest) = text.split_once(' ').expect("a length");
    let first = &rest[..length.parse::<usize>().expect("a number")];
    assert!(first.starts_with("<2") || first.starts_with("<30>1 "), "{first}");
    drop(node);
}

#[test]
fn a_node_does_not_start_without_a_configured_output() {
    let said = |options: Options| {
        let directory = tempfile::tempdir().expect("a directory");
        let output = Command::new(binary()).args(options.arguments(directory.path())).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = said(Options::new().set("log.file", "/proc/none/a.log"));
    assert!(text.contains("cannot log to /proc/none/a.log: "), "{text}");
    if !Path::new("/run/systemd/journal/socket").exists() {
        let text = said(Options::new().set("log.journald", true));
        assert!(text.contains("cannot log to the journal (log.journald): "), "{text}");
    }
    let options = Options::new().set("log.syslog", true).set("log.syslog.transport", "tls");
    let text = said(options.set("log.syslog.ssl_options.cacertfile", "/nowhere.pem"));
    assert!(text.contains("cannot log to syslog (log.syslog): cannot use /nowhere.pem"), "{text}");
}
