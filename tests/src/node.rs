//! A node of the real binary: started on free ports in a directory of its own, killed when dropped.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::PATIENCE;
use crate::http::Http;
use crate::secrets;
use crate::small_disk::SmallDisk;

/// The log line of a node that accepts connections.
const READY: &str = "Server startup complete";
/// A line of a node whose start takes long.
const STARTING: &str = "the node still starts";

/// The file from which the node reads alarms raised by a test.
const ALARMS_FILE: &str = "alarms-of-the-test";

/// Options of a node.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    alarms: bool,
    file: Option<PathBuf>,
    /// Files that the process sees in place of others.
    in_place: Vec<(PathBuf, PathBuf)>,
}

impl Options {
    /// The defaults: free ports, and no reserve of free disk space that a small test machine might lack.
    pub fn new() -> Self {
        Self::default().set("listeners.tcp.default", 0).set("management.tcp.port", 0).set("prometheus.tcp.port", 0)
    }

    /// Adds or replaces one `--set KEY=VALUE`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Adds or replaces all settings and variables of other options.
    #[must_use]
    pub fn with_all(self, other: &Self) -> Self {
        let set = other.settings.iter().fold(self, |options, (key, value)| options.set(key, value));
        other.variables.iter().fold(set, |options, (name, value)| options.with_variable(name, value))
    }

    /// The value of a key that was set.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Adds a variable of the environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.into(), value.to_string()));
        self
    }

    /// Lets the test raise alarms, see [`Node::raise_alarms`].
    #[must_use]
    pub fn with_alarms(mut self) -> Self {
        self.alarms = true;
        self
    }

    /// Reads a configuration file, too.
    #[must_use]
    pub fn with_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Has the process see each of these files in place of the other one. Takes root, and a system that lets a process have files of its
    /// own.
    #[must_use]
    pub fn with_files_in_place(mut self, files: Vec<(PathBuf, PathBuf)>) -> Self {
        self.in_place = files;
        self
    }

    /// The binary's command, without its words.
    fn command(&self) -> Command {
        if self.in_place.is_empty() {
            return Command::new(binary());
        }
        let mounts = r#"while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 1; shift 2; done; shift; exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", mounts, "sh"]);
        for (file, place) in &self.in_place {
            command.arg(file).arg(place);
        }
        command.arg("--").arg(binary());
        command
    }

    /// Removes one option.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self
    }

    /// The command line of the binary.
    pub fn arguments(&self, directory: &Path) -> Vec<String> {
        let mut arguments = vec!["server".to_owned(), "--data-dir".to_owned(), directory.display().to_string()];
        if self.alarms {
            arguments.push("--set".into());
            arguments.push(format!("debug.alarms_file={}", directory.join(ALARMS_FILE).display()));
        }
        if let Some(file) = &self.file {
            arguments.extend(["--config".into(), file.display().to_string()]);
        }
        let watched = secrets::log_of(directory);
        for (key, value) in watched.iter().chain(&self.settings) {
            if key == "default_pass" {
                secrets::used("", value);
            }
            arguments.push("--set".into());
            arguments.push(format!("{key}={value}"));
        }
        arguments
    }
}

/// The ports of a node, from its `ports.json`.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// AMQP.
    pub amqp: u16,
    /// AMQP over TLS.
    pub amqps: u16,
    /// The stream protocol.
    pub stream: u16,
    /// The stream protocol over TLS.
    pub stream_tls: u16,
    /// MQTT.
    pub mqtt: u16,
    /// MQTT over TLS.
    pub mqtt_tls: u16,
    /// Links between nodes.
    pub cluster: u16,
    /// The HTTP API.
    pub http: u16,
    /// Metrics.
    pub prometheus: u16,
    /// The process.
    pub pid: u32,
}

impl Ports {
    /// Reads `directory/ports.json`.
    ///
    /// # Panics
    /// If the file is missing or lacks a key: the test has failed then.
    pub fn read(directory: &Path) -> Self {
        let path = directory.join("ports.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("ports.json: {error}: {text}"));
        let field = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("ports.json has no {name}: {text}"));
        // 0 for a port that isn't open.
        let port = |name: &str| u16::try_from(json[name].as_u64().unwrap_or(0)).expect("a port");
        Self {
            amqp: port("amqp"),
            amqps: port("amqps"),
            stream: port("stream"),
            stream_tls: port("stream_tls"),
            mqtt: port("mqtt"),
            mqtt_tls: port("mqtt_tls"),
            cluster: port("cluster"),
            http: port("http"),
            prometheus: port("prometheus"),
            pid: u32::try_from(field("pid")).expect("a process id"),
        }
    }
}

/// A process of the binary, and its output.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    log: Vec<String>,
}

impl Process {
    /// Starts the binary with any arguments; its output is collected line by line.
    pub fn spawn(arguments: &[String]) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments);
        Self::of(command)
    }

    /// Starts any program; its output is collected line by line.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error} (is it built or installed?)"));
        let (sender, lines) = channel();
        forward(child.stdout.take().expect("stdout"), sender.clone());
        forward(child.stderr.take().expect("stderr"), sender);
        Self { child, lines, log: Vec::new() }
    }

    /// Starts the binary as these options say, on a directory.
    fn of_options(options: &Options, directory: &Path) -> Self {
        let mut command = options.command();
        command.args(options.arguments(directory));
        command.envs(options.variables.iter().map(|(name, value)| (name, value)));
        Self::of(command)
    }

    /// Waits for a line that contains `text`. Returns false if the process ended, or after [`PATIENCE`].
    pub fn wait_for_line(&mut self, text: &str) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = line.contains(text);
                    self.log.push(line);
                    if found {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// The output so far.
    pub fn log(&mut self) -> String {
        self.log.extend(self.lines.try_iter());
        self.log.join("\n")
    }

    /// Waits until the process has ended and its output is closed.
    ///
    /// # Panics
    /// If it is still running after [`PATIENCE`].
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        // The pipes close when the process ends: that is the event to wait for.
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.lines.recv_timeout(left) {
                Ok(line) => self.log.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().expect("wait for the child"),
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        panic!("process {} still runs after {PATIENCE:?}; it printed:\n{}", self.child.id(), self.log());
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM without waiting.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let raw = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(raw).expect("a process id"), signal).expect("signal the node");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let skip = log.len().saturating_sub(8000);
            eprintln!("--- what the node printed\n{}", log.get(skip..).unwrap_or(&log));
        }
    }
}

fn forward(stream: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

/// A running node with its directory.
#[derive(Debug)]
pub struct Node {
    /// `None` only between a kill and the restart.
    process: Option<Process>,
    /// The mounted disk, if the directory isn't on the machine's own.
    small_disk: Option<SmallDisk>,
    directory: TempDir,
    options: Options,
    ports: Ports,
    /// Its ports while it is down: the system would give them to others, and a restart would find them taken.
    held: Vec<OwnedFd>,
}

impl Node {
    /// Starts a node in a new temporary directory and returns once it accepts connections.
    ///
    /// # Panics
    /// If it doesn't start; the panic contains its output.
    pub fn start(options: Options) -> Self {
        Self::start_in(new_directory(), options)
    }

    /// Starts a node on an existing directory.
    ///
    /// # Panics
    /// When it doesn't start.
    pub fn start_in(directory: TempDir, options: Options) -> Self {
        let (process, ports) = launch(directory.path(), &options);
        Self { process: Some(process), small_disk: None, directory, options, ports, held: Vec::new() }
    }

    /// As [`Node::start`], with a disk of its own of this size. Returns `None` and says so if nothing can be mounted.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub fn start_on_small_disk(options: Options, bytes: u64) -> Option<Self> {
        let directory = new_directory();
        let small_disk = SmallDisk::mount(directory.path(), bytes)?;
        let (process, ports) = launch(directory.path(), &options);
        Some(Self { process: Some(process), small_disk: Some(small_disk), directory, options, ports, held: Vec::new() })
    }

    /// Its small disk.
    ///
    /// # Panics
    /// If it was started without one.
    pub fn small_disk(&self) -> &SmallDisk {
        self.small_disk.as_ref().expect("a disk of its own")
    }

    /// Its ports and process.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Its data directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The AMQP address.
    pub fn amqp(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.amqp))
    }

    /// The AMQP address for TLS.
    pub fn amqps(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.amqps))
    }

    /// The address of the stream protocol.
    pub fn streams(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.stream))
    }

    /// The address of MQTT.
    pub fn mqtt(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.mqtt))
    }

    /// The HTTP API as guest.
    pub fn http(&self) -> Http {
        Http::guest(format!("127.0.0.1:{}", self.ports.http))
    }

    /// Its metrics port, which requires no password.
    pub fn prometheus(&self) -> Http {
        Http::guest(format!("127.0.0.1:{}", self.ports.prometheus))
    }

    /// The value of a metric without labels, as text.
    pub fn metric(&self, name: &str) -> String {
        let text = self.prometheus().get("/metrics").expect("metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }

    /// The value of a metric that is a whole number.
    pub fn count(&self, name: &str) -> u64 {
        let value = self.metric(name);
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
    }

    /// Whether it has printed a line that contains `text`, or does so within [`PATIENCE`]: log lines are written by a
    /// separate thread.
    pub fn wait_for_line(&mut self, text: &str) -> bool {
        self.process.as_mut().is_some_and(|process| process.log().contains(text) || process.wait_for_line(text))
    }

    /// Its output so far.
    pub fn log(&mut self) -> String {
        self.process.as_mut().map(Process::log).unwrap_or_default()
    }

    /// Raises the alarms with these names, `memory` and `disk`, and clears others.
    ///
    /// # Panics
    /// When the file can't be written.
    pub fn raise_alarms(&self, names: &str) {
        // Renamed into place, so that the node never reads half of it.
        let (file, new) = (self.directory().join(ALARMS_FILE), self.directory().join("alarms-of-the-test.new"));
        fs::write(&new, names).and_then(|()| fs::rename(&new, &file)).expect("write the alarms");
    }

    /// Sends SIGKILL, and waits until the process has ended.
    pub fn kill(&mut self) {
        self.process = None;
        self.hold_ports();
    }

    /// Sends SIGTERM; returns the status once the process has ended.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("a running node");
        process.signal(Signal::TERM);
        let status = process.wait();
        self.hold_ports();
        status
    }

    /// Has it stand still by SIGSTOP, until [`Node::resume`].
    pub fn pause(&self) {
        self.process.as_ref().expect("a running node").signal(Signal::STOP);
    }

    /// Has it go on.
    pub fn resume(&self) {
        self.process.as_ref().expect("a running node").signal(Signal::CONT);
    }

    /// Sends SIGHUP: it reloads its files.
    pub fn hang_up(&self) {
        self.process.as_ref().expect("a running node").signal(Signal::HUP);
    }

    /// Sends SIGTERM without waiting, for a test that observes the connections.
    pub fn ask_to_stop(&self) {
        self.process.as_ref().expect("a running node").signal(Signal::TERM);
    }

    /// Waits for the end requested by [`Node::ask_to_stop`].
    pub fn terminate_asked(&mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("a running node");
        let status = process.wait();
        self.hold_ports();
        status
    }

    /// Holds the ports that a restart needs, by sockets that don't listen: the system neither gives such a port to
    /// anybody who asks for a free one nor connects from it, and a listener that names it gets it.
    fn hold_ports(&mut self) {
        if self.held.is_empty() {
            let Ports { amqp, amqps, stream, stream_tls, mqtt, mqtt_tls, http, .. } = self.ports;
            let ports = [amqp, amqps, stream, stream_tls, mqtt, mqtt_tls, http];
            self.held = ports.into_iter().filter(|port| *port != 0).filter_map(hold).collect();
        }
    }

    /// Restarts it on the same directory and the same AMQP and HTTP ports.
    pub fn restart(&mut self) {
        self.kill();
        let options = self.options_with_ports();
        let (process, ports) = launch(self.directory.path(), &options);
        self.process = Some(process);
        self.ports = ports;
    }

    /// As [`Node::restart`], with another setting.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub fn restart_with(&mut self, key: &str, value: impl ToString) {
        self.options = self.options.clone().set(key, value);
        self.restart();
    }

    fn options_with_ports(&self) -> Options {
        let options = self
            .options
            .clone()
            .set("listeners.tcp.default", self.ports.amqp)
            .set("stream.listeners.tcp.default", self.ports.stream)
            .set("management.tcp.port", self.ports.http);
        let others = [
            ("listeners.ssl.default", self.ports.amqps),
            ("stream.listeners.ssl.default", self.ports.stream_tls),
            ("mqtt.listeners.tcp.default", self.ports.mqtt),
            ("mqtt.listeners.ssl.default", self.ports.mqtt_tls),
        ];
        others.into_iter().filter(|(_, port)| *port != 0).fold(options, |options, (key, port)| options.set(key, port))
    }

    /// Starts it on the same directory and kills it before it serves: at its first output, if there is any.
    pub fn start_and_kill(&mut self) {
        let mut process = Process::of_options(&self.options, self.directory.path());
        process.wait_for_line("");
    }

    /// Restarts it on the same directory and ports; returns false if it ends before it accepts connections.
    pub fn try_restart(&mut self) -> bool {
        self.kill();
        let _ = fs::remove_file(self.directory.path().join("ports.json"));
        let options = self.options_with_ports();
        let (process, is_ready) = begin(&options, self.directory.path());
        self.ports.pid = process.pid();
        self.process = Some(process);
        is_ready
    }

    /// Resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> u64 {
        memory_bytes(self.ports.pid, "VmRSS:")
    }

    /// Its resident memory in bytes, once that is at most `bytes_max` or after ten seconds. The allocator returns
    /// freed memory a moment later, while it is used, so each iteration sends the node a request.
    ///
    /// # Panics
    /// When the node doesn't answer.
    pub fn resident_bytes_within(&self, bytes_max: u64) -> u64 {
        let begin = Instant::now();
        loop {
            let resident = self.resident_bytes();
            if resident <= bytes_max || begin.elapsed() > Duration::from_secs(10) {
                return resident;
            }
            self.http().get("/api/overview").expect("the node answers");
        }
    }

    /// Resets the peak of [`Node::resident_bytes_max`].
    ///
    /// # Panics
    /// If the system refuses.
    pub fn forget_resident_bytes_max(&self) {
        // The value 5 resets the peak, see proc(5).
        fs::write(format!("/proc/{}/clear_refs", self.ports.pid), "5").expect("the peak is forgotten");
    }

    /// Processor time that the process has used, in hundredths of a second.
    ///
    /// # Panics
    /// If the system doesn't say.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.ports.pid)).expect("the process");
        // The user and system time, fields 14 and 15 of proc(5); the name before them may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')').expect("its name").1.split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
    }

    /// Voluntary context switches of the thread with this name.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn sleeps_of(&self, thread: &str) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.ports.pid)).expect("the node's threads");
        let is_named = |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread);
        let task = tasks.flatten().map(|task| task.path()).find(is_named).expect("a thread of that name");
        status_number(&task, "voluntary_ctxt_switches:")
    }

    /// The peak resident memory of the process, in bytes.
    pub fn resident_bytes_max(&self) -> u64 {
        memory_bytes(self.ports.pid, "VmHWM:")
    }
}

/// A socket that holds a port for all addresses; `None` if somebody else has it.
fn hold(port: u16) -> Option<OwnedFd> {
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
    set_ipv6_v6only(&socket, false).ok()?;
    set_socket_reuseaddr(&socket, true).ok()?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0)).ok()?;
    Some(socket)
}

/// A temporary directory for a node.
///
/// # Panics
/// When there is no room for it.
pub fn new_directory() -> TempDir {
    tempfile::Builder::new().prefix("leveret-test-").tempdir().expect("a temporary directory")
}

/// Runs the binary to its end. Returns exit status, standard output, standard error.
///
/// # Panics
/// When it can't be run or is killed.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("run the binary");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit status"), text(output.stdout), text(output.stderr))
}

fn memory_bytes(pid: u32, field: &str) -> u64 {
    1024 * status_number(Path::new(&format!("/proc/{pid}")), field)
}

/// A number in the `status` of a process or thread, see proc(5).
fn status_number(of: &Path, field: &str) -> u64 {
    let status = fs::read_to_string(of.join("status")).expect("a status");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// Starts a node, and says whether it is ready. A connection of another program may have one of its ports for a moment.
fn begin(options: &Options, directory: &Path) -> (Process, bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut process = Process::of_options(options, directory);
        let mut is_ready = process.wait_for_line(READY);
        // A busy disk may hold it up for as long as it likes.
        while !is_ready && process.log().lines().last().is_some_and(|line| line.contains(STARTING)) {
            is_ready = process.wait_for_line(READY);
        }
        let is_taken = !is_ready && process.log().contains("Address already in use");
        if !is_taken || Instant::now() >= deadline {
            return (process, is_ready);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn launch(directory: &Path, options: &Options) -> (Process, Ports) {
    // The file of an earlier run must not be taken for this one's.
    let _ = fs::remove_file(directory.join("ports.json"));
    let (mut process, is_ready) = begin(options, directory);
    if !is_ready {
        panic!("the node didn't say '{READY}'; it printed:\n{}", process.log());
    }
    // The file may be renamed into place a moment after the line.
    let deadline = Instant::now() + PATIENCE;
    while !directory.join("ports.json").exists() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let ports = Ports::read(directory);
    assert_eq!(ports.pid, process.pid(), "ports.json names another process");
    (process, ports)
}

/// The binary under test: `LEVERET_BIN`, or the newest-profile `leveret` next to the running test (release first).
pub fn binary() -> PathBuf {
    if let Some(path) = env::var_os("LEVERET_BIN") {
        return path.into();
    }
    let test = env::current_exe().expect("the test's own path");
    let profile = test.ancestors().find(|path| path.join("deps").is_dir()).expect("a target directory");
    let release = profile.with_file_name("release").join("leveret");
    if release.exists() { release } else { profile.join("leveret") }
}
