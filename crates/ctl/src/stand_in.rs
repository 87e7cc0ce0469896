//! A stand-in for a node: it answers requests at its socket with what a test tells it.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::tool::Tool;

#[derive(Default)]
struct Script {
    /// Answers by method and path, each given once.
    answers: HashMap<String, VecDeque<(u16, String)>>,
    /// Bodies of the requests.
    asked: HashMap<String, Vec<Value>>,
}

/// A stand-in for a node.
pub(crate) struct StandIn {
    directory: tempfile::TempDir,
    script: Arc<Mutex<Script>>,
}

impl StandIn {
    /// A running node of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self::begin(name, true)
    }

    /// A process whose node was stopped.
    pub(crate) fn stopped(name: &str) -> Self {
        Self::begin(name, false)
    }

    fn begin(name: &str, is_running: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("control")).expect("is made");
        let listener = UnixListener::bind(directory.path().join("control/socket")).expect("listens");
        let script = Arc::new(Mutex::new(Script::default()));
        let (given, node) = (Arc::clone(&script), json!({"name": name, "running": is_running}).to_string());
        // It ends with the process: nothing else holds the socket.
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &given, &node)));
        StandIn { directory, script }
    }

    /// The next answer to requests of this method and path. One that isn't given is 404.
    pub(crate) fn answers(&self, request: &str, status: u16, body: &str) {
        let mut script = self.script.lock().expect("no panic");
        script.answers.entry(request.to_owned()).or_default().push_back((status, body.to_owned()));
    }

    /// The bodies of the requests of this method and path since the last call.
    pub(crate) fn asked(&self, request: &str) -> Vec<Value> {
        self.script.lock().expect("no panic").asked.remove(request).unwrap_or_default()
    }

    /// Runs a command of rabbitmqctl.
    pub(crate) fn run(&self, line: &str) -> Result<String, Failure> {
        self.run_as(Tool::Ctl, line)
    }

    /// Runs a command of a tool.
    pub(crate) fn run_as(&self, tool: Tool, line: &str) -> Result<String, Failure> {
        let directory = ["--data-dir".into(), self.directory.path().into()];
        let words = directory.into_iter().chain(line.split(' ').map(OsString::from)).collect();
        let mut output = String::new();
        crate::answer(tool, words, &mut output).map(|()| output)
    }
}

fn answer(mut stream: UnixStream, script: &Mutex<Script>, node: &str) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    let (head, body) = loop {
        let read = stream.read(&mut part).expect("a request");
        bytes.extend_from_slice(&part[..read]);
        let text = String::from_utf8(bytes.clone()).expect("text");
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let words: Vec<&str> = head.split_ascii_whitespace().take(2).collect();
    let request = words.join(" ");
    let header = head.lines().find_map(|line| line.strip_prefix("leveret-node: "));
    let (status, body) = {
        let mut script = script.lock().expect("no panic");
        let sent = serde_json::from_str(&body).unwrap_or_default();
        script.asked.entry(request.clone()).or_default().push(sent);
        let given = script.answers.get_mut(&request).and_then(VecDeque::pop_front);
        match (request.as_str(), header) {
            // A member that it forwards to.
            ("GET /local/node", Some(other)) if other == "rabbit@far" => {
                (200, json!({"name": other, "running": false}).to_string())
            }
            ("GET /local/node", _) => (200, node.to_owned()),
            _ => given.unwrap_or((404, String::new())),
        }
    };
    let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
}
