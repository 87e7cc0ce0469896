//! The binary seen from outside: its output, its files and its reaction to signals.

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
    /// Starts a node and returns once it has reported that it is up.
    fn start(directory: &Path, settings: &[&str]) -> Self {
        Self::started(&mut command(directory, settings))
    }

    /// The same for a given command line.
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
        // Both fail if it has ended already, which is fine.
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
fn a_node_prints_its_version_and_ports_and_stops_on_sigterm() {
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
    // The directory that it leaves can be started from.
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
fn an_unread_log_pipe_does_not_block_the_node() {
    let directory = tempfile::tempdir().expect("a directory");
    // The pipe is full after some 600 of the lines that refused connections write.
    let node = Node::start(directory.path(), &["log.level=debug"]);
    let port = ports(directory.path())["amqp"].as_u64().expect("is open");
    for _ in 0..3_000 {
        let mut client = TcpStream::connect(("127.0.0.1", u16::try_from(port).expect("a port"))).expect("connects");
        client.write_all(b"NOBODY KNOWS/1.1\r\n\r\n").expect("is sent");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("an orderly end");
        assert_eq!(answer, b"AMQP\x03\x01\0\0");
    }
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_service_manager_is_notified_of_ready_and_stopping() {
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
    for name in [
        "leveret",
        "rabbitmq-server",
        "rabbitmqctl",
        "rabbitmq-diagnostics",
        "rabbitmq-plugins",
        "rabbitmq-upgrade",
        "rabbitmq-queues",
        "rabbitmq-streams",
    ] {
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

#[test]
fn a_hangup_reloads_what_may_change_and_names_the_rest() {
    let parent = tempfile::tempdir().expect("a directory");
    let conf = parent.path().join("rabbitmq.conf");
    let write = |text: &str| std::fs::write(&conf, text).expect("is written");
    write("heartbeat = 1\ndisk_free_limit.absolute = 1MB\n");
    let directory = parent.path().join("data");
    let mut node = Node::started(command(&directory, &[]).arg("--config").arg(&conf));
    let hang_up = |node: &mut Node, told: &str| {
        let id = i32::try_from(node.process.id()).expect("a process id");
        kill_process(Pid::from_raw(id).expect("a process id"), Signal::HUP).expect("is sent");
        while !node.printed.contains(told) {
            let read = node.output.read_line(&mut node.printed).expect("is text");
            assert!(read > 0, "the node ended:\n{}", node.printed);
        }
    };
    write("heartbeat = 2\ndisk_free_limit.absolute = 2MB\nlog.level = debug\n");
    hang_up(&mut node, "these keys take effect with the next start: heartbeat");
    let told = "the configuration is reloaded; in effect now: disk_free_limit.absolute, log.level";
    assert!(node.printed.contains(told), "{}", node.printed);
    // The login guest:guest.
    let shown = effective(&directory, "Z3Vlc3Q6Z3Vlc3Q=");
    for part in ["disk_free_limit.absolute = 2MB", "log.level = debug", "heartbeat = 1"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    write("heartbeat = 3\ndisk_free_limit.absolute = 3MB\nnonsense = 1\n");
    hang_up(&mut node, "the configuration isn't reloaded: ");
    assert!(node.printed.contains("rabbitmq.conf:3: unknown key 'nonsense'"), "{}", node.printed);
    assert!(effective(&directory, "Z3Vlc3Q6Z3Vlc3Q=").contains("disk_free_limit.absolute = 2MB"));
    assert_eq!(node.stop(), Some(0));
}

/// The effective configuration, which includes the name of the node.
fn effective(directory: &Path, login: &str) -> String {
    let port = u16::try_from(ports(directory)["http"].as_u64().expect("is open")).expect("a port");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\nauthorization: Basic {login}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("is text");
        answer
    };
    get("/api/config/effective") + &get("/api/overview")
}

#[test]
fn rabbitmqs_files_and_variables_are_read_the_later_wins() {
    let parent = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = parent.path().join(name);
        std::fs::write(&path, text).expect("is written");
        path
    };
    let conf = file("rabbitmq.conf", "heartbeat = 1\nchannel_max = 11\nframe_max = 10000\ndefault_user = conf\n");
    file("advanced.config", "[{rabbit, [{channel_max, 12}, {credit_flow_default_credit, {400, 200}}]}].\n");
    let environment = file("rabbitmq-env.conf", "NODENAME=rabbit@file\nDEFAULT_USER=file\n");
    let directory = parent.path().join("data");
    let mut command = command(&directory, &["frame_max=20000"]);
    command
        .env("RABBITMQ_CONFIG_FILE", conf.with_extension(""))
        .env("RABBITMQ_ADVANCED_CONFIG_FILE", parent.path().join("advanced"))
        .env("RABBITMQ_CONF_ENV_FILE", environment)
        .env("RABBITMQ_NODENAME", "rabbit@there")
        .env("RABBITMQ_DEFAULT_PASS", "hush-hush")
        .env("RABBITMQ_ERLANG_COOKIE", "monster")
        .env("RABBITMQ_IO_THREAD_POOL_SIZE", "8")
        .env("HOME", parent.path());
    let node = Node::started(&mut command);
    let warned = node.printed.clone();
    for part in
        ["advanced.config:1: 'credit_flow_default_credit' has no effect", "RABBITMQ_IO_THREAD_POOL_SIZE has no effect"]
    {
        assert!(warned.contains(part), "{part} in\n{warned}");
    }
    // The login file:hush-hush.
    let shown = effective(&directory, "ZmlsZTpodXNoLWh1c2g=");
    for part in
        ["heartbeat = 1\n", "channel_max = 12\n", "frame_max = 20000\n", "default_user = file\n", "rabbit@there"]
    {
        assert!(shown.contains(&part.replace('\n', "\\n")) || shown.contains(part), "{part} in\n{shown}");
    }
    assert!(!shown.contains("hush-hush") && !warned.contains("hush-hush") && !warned.contains("monster"));
    assert!(!parent.path().join(".erlang.cookie").exists(), "the home's own is left alone");
    assert_eq!(node.stop(), Some(0));

    // All errors in all files are reported at once, and nothing is started.
    let advanced = file("wrong.config", "[{rabbit, [{heartbeet, 1}]}].");
    let refused = command_with(&directory, &advanced).output().expect("runs");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    for part in ["wrong.config:1: unknown key 'heartbeet'; did you mean 'heartbeat'?", "RABBITMQ_NODENAME: 'a@b@c'"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

fn command_with(directory: &Path, advanced: &Path) -> Command {
    let mut command = command(directory, &[]);
    command.env("RABBITMQ_NODENAME", "a@b@c").arg("--advanced-config").arg(advanced);
    command
}

/// Runs a command of rabbitmqctl on the node of a directory. Returns its exit code and its output.
fn ctl(directory: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    let output = command.args(["ctl", "--data-dir"]).arg(directory).args(words).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn files_that_variables_name_are_read_and_others_are_told() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = |name: &str| parent.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("is written");
    write("r.conf", "default_user = eve\ndefault_pass = $(EVES)\n");
    std::fs::create_dir(path("conf.d")).expect("is made");
    write("conf.d/20.conf", "default_vhost = prod\n");
    write("conf.d/10.conf", "default_vhost = early\n");
    write("conf.d/30.bak", "default_vhost = wrong\n");
    write("a.config", "[{rabbit, [{channel_max, 12}]}].");
    write("plugins", "[rabbitmq_prometheus].");
    let place = |name: &str| path(name).display().to_string();
    let lines = [
        format!("CONFIG_FILE={}", place("r.conf")),
        format!("CONFIG_FILES={}", place("conf.d/*.conf")),
        format!("ADVANCED_CONFIG_FILE={}", place("a")),
        format!("ENABLED_PLUGINS_FILE={}", place("plugins")),
        format!("MNESIA_BASE={}", place("base")),
        format!("PID_FILE={}", place("run/node.pid")),
        "QUORUM_DIR=/q\nNODENAM=x".to_owned(),
    ];
    write("env.conf", &lines.join("\n"));
    let directory = path("data");
    let mut command = command(&directory, &[]);
    let node = Node::started(command.arg("--env-file").arg(path("env.conf")).env("EVES", "se#cret"));
    assert_eq!(ctl(&directory, &["list_users", "-s"]), (Some(0), "eve\t[administrator]\n".to_owned()));
    assert_eq!(ctl(&directory, &["list_vhosts", "-s"]), (Some(0), "prod\n".to_owned()));
    assert_eq!(ctl(&directory, &["authenticate_user", "-q", "eve", "se#cret"]).0, Some(0));
    assert!(ctl(&directory, &["environment"]).1.contains("channel_max = 12\n"));
    assert!(ports(&directory)["http"].is_null(), "the plugin isn't listed");
    let pid = std::fs::read_to_string(path("run/node.pid")).expect("is written");
    assert_eq!(pid.trim(), node.process.id().to_string());
    for part in [
        "env.conf:7: RABBITMQ_QUORUM_DIR has no effect",
        "env.conf:8: RABBITMQ_NODENAM has no effect: there is no such variable; did you mean RABBITMQ_NODENAME?",
        "RABBITMQ_MNESIA_BASE have no effect: --data-dir or LEVERET_DATA_DIR says where",
    ] {
        assert!(node.printed.contains(part), "{part} in {}", node.printed);
    }
    assert_eq!(node.stop(), Some(0));
    assert!(!path("run/node.pid").exists());
}

#[test]
fn a_start_script_can_wait_before_its_node_is_started() {
    let parent = tempfile::tempdir().expect("a directory");
    let (directory, pid_file) = (parent.path().join("data"), parent.path().join("rabbitmq.pid"));
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_leveret"));
    waiting.args(["ctl", "wait", "--timeout", "60", "--data-dir"]).arg(&directory).arg(&pid_file);
    let mut waiting = waiting.stdout(Stdio::piped()).spawn().expect("starts");
    let node = Node::started(command(&directory, &[]).env("RABBITMQ_PID_FILE", &pid_file));
    let mut said = String::new();
    waiting.stdout.take().expect("is piped").read_to_string(&mut said).expect("is text");
    assert_eq!(waiting.wait().expect("ends").code(), Some(0), "{said}");
    for part in ["Waiting for pid file '", &format!("pid is {}", node.process.id()), "'rabbit_and_plugins' are running"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(node.stop(), Some(0));
    let pid_file = pid_file.display().to_string();
    let (exit, said) = ctl(&directory, &["wait", "--timeout", "0.05", &pid_file]);
    assert!(exit == Some(75) && said.contains("hasn't appeared in time"), "{said}");
    // The pid file of a killed node names a process that is gone.
    std::fs::write(&pid_file, "4194304\n").expect("is written");
    let (exit, said) = ctl(&directory, &["wait", &pid_file]);
    assert!(exit == Some(69) && said.contains("process 4194304 isn't running"), "{said}");
}

#[test]
fn a_detached_node_goes_on_when_its_command_has_returned() {
    let parent = tempfile::tempdir().expect("a directory");
    let (directory, server) = (parent.path().join("data"), parent.path().join("rabbitmq-server"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_leveret"), &server).expect("is linked");
    let log = format!("log.dir={}", parent.path().display());
    let start = |more: &[&str]| {
        let mut command = Command::new(&server);
        command.args(["-detached", "--data-dir"]).arg(&directory).args([
            "--set",
            &log,
            "--set",
            "listeners.tcp.1=127.0.0.1:0",
        ]);
        command.args(["--set", "management.tcp.port=0", "--set", "prometheus.tcp.port=0"]).args(more);
        command.env("RABBITMQ_CONF_ENV_FILE", "/dev/null").output().expect("runs")
    };
    let started = start(&[]);
    assert_eq!(started.status.code(), Some(0), "{started:?}");
    assert_eq!(ctl(&directory, &["ping"]).0, Some(0));
    let refused = start(&[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("is in use by process"), "{said}");
    assert_eq!(ctl(&directory, &["stop"]).0, Some(0));
    let refused = start(&["--set", "heartbeet=5"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("unknown key 'heartbeet'"), "{said}");
}

#[test]
fn a_removed_lock_file_lets_no_second_node_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start(directory.path(), &[]);
    std::fs::remove_file(directory.path().join("lock")).expect("is there");
    let second = command(directory.path(), &[]).output().expect("runs");
    let text = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(1) && text.contains(&format!("process {}", node.process.id())), "{text}");
    let verify =
        Command::new(env!("CARGO_BIN_EXE_leveret")).arg("verify").arg(directory.path()).output().expect("runs");
    assert_eq!(verify.status.code(), Some(2), "the directory is in use");
    assert_eq!(ctl(directory.path(), &["stop"]).0, Some(0), "it waits for the node's end without the file, too");
    drop(node);
    assert_eq!(Node::start(directory.path(), &[]).stop(), Some(0));
}

#[test]
fn a_deleted_user_and_a_changed_password_stay_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let restarted = |commands: &[&[&str]]| {
        let _ = std::fs::remove_dir_all(directory.path());
        let node = Node::start(directory.path(), &[]);
        for words in commands {
            let (exit, said) = ctl(directory.path(), words);
            assert_eq!(exit, Some(0), "{words:?}: {said}");
        }
        assert_eq!(node.stop(), Some(0));
        Node::start(directory.path(), &[])
    };
    let users = || ctl(directory.path(), &["list_users", "-s"]).1;
    let logs_in = || ctl(directory.path(), &["authenticate_user", "guest", "guest"]).0 == Some(0);
    let node = restarted(&[&["add_user", "ops", "pw"], &["delete_user", "guest"]]);
    assert_eq!(users(), "ops\t[]\n");
    drop(node);
    let node = restarted(&[&["change_password", "guest", "strong"], &["clear_permissions", "guest"]]);
    assert!(!logs_in() && users().starts_with("guest\t"));
    drop(node);
    let node = restarted(&[&["change_password", "guest", "strong"], &["add_vhost", "prod"], &["delete_vhost", "/"]]);
    assert!(!logs_in());
    drop(node);
    let node = restarted(&[&["delete_user", "guest"]]);
    assert_eq!(users(), "", "not even the last one comes back");
    drop(node);
}

#[test]
fn a_node_with_definitions_has_no_default_user_or_vhost() {
    let parent = tempfile::tempdir().expect("a directory");
    let (directory, file) = (parent.path().join("data"), parent.path().join("d.json"));
    let load = format!("load_definitions={}", file.display());
    std::fs::write(&file, r#"{"vhosts": [{"name": "prod"}], "queues": [{"name": "q", "vhost": "prod"}]}"#)
        .expect("is written");
    let node = Node::start(&directory, &[&load]);
    assert_eq!(ctl(&directory, &["list_users", "-s"]).1, "");
    assert_eq!(ctl(&directory, &["list_vhosts", "-s"]).1, "prod\n");
    assert_eq!(node.stop(), Some(0));
    // Nor does a later start without them.
    let node = Node::start(&directory, &[]);
    assert_eq!(ctl(&directory, &["list_users", "-s"]).1, "");
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn listeners_are_listed_and_reached_where_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = ["listeners.tcp.1=127.0.0.2:0", "listeners.tcp.2=[::1]:0", "management.tcp.ip=127.0.0.3"];
    let node = Node::start(directory.path(), &settings);
    let diagnose = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
        let output =
            command.args(["diagnostics", "--data-dir"]).arg(directory.path()).args(words).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (_, listed) = diagnose(&["-s", "listeners"]);
    let parts = ["Interface: 127.0.0.2, port: ", "Interface: [::1], port: ", "Interface: 127.0.0.3, port: "];
    for (part, count) in parts.into_iter().zip([3, 1, 1]) {
        assert_eq!(listed.matches(part).count(), count, "{part} in {listed}");
    }
    assert!(listed.contains("protocol: stream, purpose: stream\n"), "{listed}");
    assert!(listed.contains("protocol: mqtt, purpose: MQTT\n"), "{listed}");
    assert_eq!(listed.lines().count(), 6, "{listed}");
    let (exit, said) = diagnose(&["check_port_connectivity"]);
    assert_eq!(exit, Some(0), "{said}");
    let (_, shown) = ctl(directory.path(), &["status", "--formatter", "json"]);
    assert!(shown.contains(r#""interface":"127.0.0.2""#), "{shown}");
    assert_eq!(node.stop(), Some(0));
}
