//! The binary from outside: what it says, writes and answers to signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A node that is killed when the test ends, however it ends.
struct Node {
    process: Child,
    output: BufReader<ChildStdout>,
    printed: String,
}

impl Node {
    /// Returns once the node has said that it is up.
    fn start(directory: &Path, settings: &[&str]) -> Self {
        Self::started(&mut command(directory, settings))
    }

    /// The same of a command line.
    fn started(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("starts");
        let output = BufReader::new(process.stdout.take().expect("is piped"));
        let mut node = Self { process, output, printed: String::new() };
        while !node.printed.contains("Server startup complete") {
            let read = node.output.read_line(&mut node.printed).expect("is text");
            assert!(read > 0, "the node ended:\n{}", node.printed);
        }
        node
    }

    fn stop(mut self) -> Option<i32> {
        let id = i32::try_from(self.process.id()).expect("a process id");
        kill_process(Pid::from_raw(id).expect("a process id"), Signal::TERM).expect("is sent");
        self.output.read_to_string(&mut self.printed).expect("is text");
        self.process.wait().expect("ends").code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail if it has ended, which is as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(directory: &Path, settings: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.arg("server").arg("--data-dir").arg(directory);
    let ports = [
        "listeners.tcp.1=127.0.0.1:0",
        "management.tcp.ip=127.0.0.1",
        "management.tcp.port=0",
        "prometheus.tcp.ip=127.0.0.1",
        "prometheus.tcp.port=0",
    ];
    for setting in ports.iter().chain(settings) {
        command.arg("--set").arg(setting);
    }
    command
}

fn ports(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("ports.json")).expect("it is written before the line");
    serde_json::from_str(&text).expect("is JSON")
}

#[test]
fn a_node_says_what_it_is_and_where_it_listens_and_stops_on_sigterm() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("data");
    let node = Node::start(&directory, &[]);
    let ports = ports(&directory);
    assert_eq!(ports["pid"].as_u64(), Some(u64::from(node.process.id())));
    for name in ["amqp", "http", "prometheus"] {
        let port = ports[name].as_u64().expect("is open");
        assert!(node.printed.contains(&port.to_string()), "{name} in the banner:\n{}", node.printed);
        TcpStream::connect(("127.0.0.1", u16::try_from(port).expect("a port"))).expect("listens");
    }
    for part in [env!("CARGO_PKG_VERSION"), &directory.display().to_string(), "Durability"] {
        assert!(node.printed.contains(part), "{part} in the banner:\n{}", node.printed);
    }
    assert_eq!(node.stop(), Some(0));
    assert!(!directory.join("ports.json").exists());
    // And what it leaves behind can be started from.
    assert_eq!(Node::start(&directory, &[]).stop(), Some(0));
}

#[test]
fn a_second_node_on_the_directory_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start(directory.path(), &[]);
    let second = command(directory.path(), &[]).output().expect("runs");
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8_lossy(&second.stderr);
    let expected = format!("data directory {} is in use by process {}", directory.path().display(), node.process.id());
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = command(directory.path(), &["managment.tcp.port=1"]).output().expect("runs");
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("managment.tcp.port") && text.contains("management.tcp.port"), "{text}");
}

#[test]
fn a_client_that_is_connected_is_told_of_the_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start(directory.path(), &[]);
    let port = ports(directory.path())["amqp"].as_u64().expect("is open");
    let mut client = TcpStream::connect(("127.0.0.1", u16::try_from(port).expect("a port"))).expect("connects");
    client.write_all(b"AMQP\0\0\x09\x01").expect("is sent");
    let mut first = [0; 1];
    client.read_exact(&mut first).expect("connection.start");
    let rest = std::thread::spawn(move || client.read_to_end(&mut Vec::new()).map(drop));
    assert_eq!(node.stop(), Some(0));
    rest.join().expect("no panic").expect("an orderly end, not a reset");
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let directory = tempfile::tempdir().expect("a directory");
    // The pipe is full after some 600 of the lines that refused connections write.
    let node = Node::start(directory.path(), &["log.level=debug"]);
    let port = ports(directory.path())["amqp"].as_u64().expect("is open");
    for _ in 0..3_000 {
        let mut client = TcpStream::connect(("127.0.0.1", u16::try_from(port).expect("a port"))).expect("connects");
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("is sent");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("an orderly end");
        assert_eq!(answer, b"AMQP\x03\x01\0\0");
    }
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_service_manager_is_told_when_clients_may_come_and_no_longer_may() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("binds");
    let mut command = command(&directory.path().join("data"), &[]);
    let node = Node::started(command.env("NOTIFY_SOCKET", &path));
    let told = || {
        let mut text = [0; 64];
        let count = socket.recv(&mut text).expect("a datagram");
        String::from_utf8_lossy(&text[..count]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    let amqp = ports(&directory.path().join("data"))["amqp"].as_u64().expect("a port") as u16;
    TcpStream::connect(("127.0.0.1", amqp)).expect("it serves");
    assert_eq!(node.stop(), Some(0));
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn shells_and_man_read_what_is_printed() {
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_leveret")).args(words).output().expect("runs");
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).expect("is text")
    };
    for name in
        ["leveret", "rabbitmq-server", "rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins", "rabbitmq-upgrade"]
    {
        let script = run(&["completion", "bash", name]);
        let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash is there");
        bash.stdin.take().expect("is piped").write_all(script.as_bytes()).expect("is read");
        assert!(bash.wait().expect("ends").success(), "{name}");
        for shell in ["zsh", "fish"] {
            assert!(run(&["completion", shell, name]).contains(name), "{shell} {name}");
        }
        let page = run(&["man", name]);
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{page}");
    }
    assert!(run(&["completion", "bash", "rabbitmqctl"]).contains("list_queues"));
    assert!(run(&["man", "rabbitmqctl"]).contains("list_queues"));
}

#[test]
fn a_configuration_is_checked_without_a_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("x.conf");
    let check = |text: &[u8]| {
        std::fs::write(&file, text).expect("is written");
        Command::new(env!("CARGO_BIN_EXE_leveret")).args(["config", "check"]).arg(&file).output().expect("runs")
    };
    let example = Command::new(env!("CARGO_BIN_EXE_leveret")).args(["config", "example"]).output().expect("runs");
    assert!(check(&example.stdout).status.success());
    let wrong = check(b"heartbeat = 5\nheartbet = 6\n");
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(wrong.status.code() == Some(1) && said.contains("x.conf:2: unknown key 'heartbet'"), "{said}");
}
