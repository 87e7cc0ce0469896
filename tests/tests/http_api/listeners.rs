//! Idle HTTP clients don't block others, even with few open files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leveret_tests::broker::is_given;
use leveret_tests::node::{binary, new_directory};
use serde_json::Value;

/// A node that may open 64 files.
struct Cramped {
    process: Child,
    directory: tempfile::TempDir,
    ports: Value,
}

impl Cramped {
    fn start() -> Self {
        let directory = new_directory();
        let data = directory.path().join("data");
        let mut process = Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
            .arg(binary())
            .args(["server", "--data-dir"])
            .arg(&data)
            .args(["--set", "listeners.tcp.default=127.0.0.1:0", "--set", "management.tcp.port=0"])
            .args(["--set", "prometheus.tcp.port=0", "--set", "cores=2"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("runs");
        let mut lines = BufReader::new(process.stdout.take().expect("is piped")).lines();
        let started = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("Server startup complete")));
        assert!(started.is_some(), "it starts");
        // Later output is read and discarded, because a full pipe would block the process.
        std::thread::spawn(move || lines.for_each(drop));
        let ports = std::fs::read_to_string(data.join("ports.json")).expect("is there");
        let ports = serde_json::from_str(&ports).expect("is JSON");
        Self { process, directory, ports }
    }

    fn connect(&self, port: &str) -> TcpStream {
        let port = self.ports[port].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
        stream
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn half_requests_take_no_files_from_amqp_and_commands() {
    if is_given() {
        return;
    }
    let node = Cramped::start();
    let half = |port| {
        let mut stream = node.connect(port);
        let _ = write!(stream, "GET /api/whoami HTTP/1.1\r\nx: ");
        stream
    };
    let _held: Vec<TcpStream> = (0..75).flat_map(|_| [half("http"), half("prometheus")]).collect();
    let mut amqp = node.connect("amqp");
    amqp.write_all(b"AMQP\0\0\x09\x01").expect("is sent");
    let mut first = [0; 1];
    amqp.read_exact(&mut first).expect("connection.start");
    assert_eq!(first, [1]);
    let ping = Command::new(binary())
        .args(["diagnostics", "--data-dir"])
        .arg(node.directory.path().join("data"))
        .args(["-q", "ping"])
        .output()
        .expect("runs");
    assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stderr));
}
