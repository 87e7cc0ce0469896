use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use leveret_tests::broker::Broker;
use leveret_tests::cell;
use leveret_tests::http::Http;
use leveret_tests::node::{Options, new_directory};
use serde_json::Value;
use tempfile::TempDir;

/// The program and the broker that it connects to.
pub(super) struct Admin {
    pub(super) broker: Broker,
    pub(super) http: Http,
    program: PathBuf,
    home: TempDir,
    ran: RefCell<BTreeSet<String>>,
}

impl Admin {
    pub(super) fn start() -> Self {
        let broker = Broker::start_with(Options::new().with_alarms());
        let program = cell::clients().join(".installed/rabbitmqadmin-v2");
        Self { http: broker.http(), broker, program, home: new_directory(), ran: RefCell::default() }
    }

    pub(super) fn finish(self) {
        self.broker.finish("");
    }

    /// A folder for files of the test, which is the program's home directory.
    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs a command as guest. Returns its output, as an error if it failed. Words are separated by spaces; `NODE`
    /// is replaced by the node's name.
    pub(super) fn try_run(&self, command: &str, arguments: &str) -> Result<String, String> {
        let words = format!("{command} {arguments}");
        let words = if words.contains("NODE") { words.replace("NODE", &self.node_name()) } else { words };
        self.ran.borrow_mut().insert(command.to_owned());
        let (host, port) = self.http.authority.rsplit_once(':').expect("host:port");
        let of_broker = ["--host", host, "--port", port, "--non-interactive"];
        self.output(of_broker.into_iter().chain(words.split(' ').filter(|word| !word.is_empty())))
    }

    /// The output of a command, which has to succeed.
    pub(super) fn run(&self, command: &str, arguments: &str) -> String {
        self.try_run(command, arguments).unwrap_or_else(|error| panic!("rabbitmqadmin {command} {arguments}: {error}"))
    }

    /// The words of each output line of a command, without commas.
    pub(super) fn rows(&self, command: &str, arguments: &str) -> Vec<Vec<String>> {
        let printed = self.run(command, arguments);
        let rows = printed
            .lines()
            .map(|line| line.split_whitespace().map(|word| word.trim_end_matches(',').to_owned()).collect::<Vec<_>>());
        rows.filter(|words| !words.is_empty()).collect()
    }

    /// Asserts that a command prints a line with these words.
    pub(super) fn lists(&self, command: &str, arguments: &str, words: &[&str]) {
        let rows = self.rows(command, arguments);
        let found = rows.iter().any(|row| words.iter().all(|word| row.iter().any(|other| other == word)));
        assert!(found, "{command} {arguments}: no line has {words:?}: {rows:?}");
    }

    /// Asserts that a command fails with these words.
    pub(super) fn fails(&self, command: &str, arguments: &str, words: &str) {
        let printed = self.try_run(command, arguments).expect_err("a failure");
        assert!(printed.contains(words), "{command} {arguments}: {words:?} isn't in {printed}");
    }

    /// Runs the program with these options before the command instead of those for the broker.
    pub(super) fn with(&self, options: &[&str], command: &str, arguments: &[&str]) -> Result<String, String> {
        self.ran.borrow_mut().insert(command.to_owned());
        self.output(options.iter().copied().chain(command.split(' ')).chain(arguments.iter().copied()))
    }

    fn output<'a>(&self, words: impl Iterator<Item = &'a str>) -> Result<String, String> {
        let output = Command::new(&self.program).env_clear().env("HOME", self.home.path()).args(words).output();
        let output = output.unwrap_or_else(|error| {
            panic!("{}: {error} (run `make -C tests/clients install`)", self.program.display());
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout) + &text(&output.stderr);
        if output.status.success() { Ok(printed) } else { Err(printed) }
    }

    /// Whether a command was run.
    pub(super) fn ran(&self, command: &str) -> bool {
        self.ran.borrow().contains(command)
    }

    /// Every command in the program's shell completion.
    pub(super) fn commands(&self) -> BTreeSet<String> {
        let script = self.with(&[], "shell completions", &["--shell", "bash"]).expect("a script");
        let paths = script.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("cmd=\"rabbitmqadmin__subcmd__")?.strip_suffix('"')?;
            Some(path.replace("__subcmd__", " "))
        });
        let all: BTreeSet<String> = paths.filter(|path| !path.split(' ').any(|word| word == "help")).collect();
        let is_group = |path: &String| all.iter().any(|other| other.starts_with(&format!("{path} ")));
        all.iter().filter(|path| !is_group(path)).cloned().collect()
    }

    pub(super) fn node_name(&self) -> String {
        self.get("overview")["node"].as_str().expect("a name").to_owned()
    }

    /// The body of a response that is 200.
    pub(super) fn get(&self, path: &str) -> Value {
        let answer = self.http.get(&format!("/api/{path}")).expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    pub(super) fn status(&self, path: &str) -> u16 {
        self.http.get(&format!("/api/{path}")).expect("an answer").status
    }

    /// Creates an object over HTTP by PUT.
    pub(super) fn put(&self, path: &str, body: Value) {
        let answer = self.http.put(&format!("/api/{path}"), &body).expect("an answer");
        assert!(matches!(answer.status, 201 | 204), "{path}: {answer:?}");
    }

    /// Creates an object over HTTP by POST.
    pub(super) fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.http.post(&format!("/api/{path}"), &body).expect("an answer");
        assert!(matches!(answer.status, 200 | 201 | 204), "{path}: {answer:?}");
        answer.json()
    }
}

/// A name unique to a command's row.
pub(super) fn name(command: &str) -> String {
    command.replace([' ', '_'], "-")
}
