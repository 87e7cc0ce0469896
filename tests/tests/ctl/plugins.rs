//! RabbitMQ's plugins: those built in, and the file that lists the enabled ones.

use std::fs;
use std::path::{Path, PathBuf};

use leveret_tests::node::{Node, Options, Ports, Process, new_directory};
use rustix::process::{Pid, Signal, kill_process};

use crate::effects::{exit, well};
use crate::tool::run;

/// A node with a file of plugins.
struct WithFile {
    process: Process,
    ports: Ports,
}

impl WithFile {
    fn start(directory: &Path, file: &Path) -> Self {
        let mut arguments = Options::new().arguments(directory);
        arguments.extend(["--enabled-plugins".to_owned(), file.display().to_string()]);
        let mut process = Process::spawn(&arguments);
        assert!(process.wait_for_line("Server startup complete"), "{}", process.log());
        WithFile { process, ports: Ports::read(directory) }
    }

    /// Its log.
    fn stop(mut self) -> String {
        let pid = i32::try_from(self.process.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::TERM).expect("is sent");
        assert!(self.process.wait().success(), "{}", self.process.log());
        self.process.log()
    }
}

#[test]
fn plugins_that_are_built_in_are_enabled_and_others_are_not() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmq-plugins set rabbitmq_management rabbitmq_prometheus");
    well(&node, "rabbitmq-plugins enable --offline rabbitmq_management");
    for line in ["enable", "enable --offline"] {
        let said = exit(&node, &format!("rabbitmq-plugins {line} rabbitmq_stomp rabbitmq_management"));
        assert!(said.exit == 70 && said.stderr.contains("aren't there yet: rabbitmq_stomp. "), "{line}: {said:?}");
    }
    // RabbitMQ warns about unknown names, and continues.
    for line in ["enable", "disable", "set"] {
        let said = well(&node, &format!("rabbitmq-plugins {line} none"));
        assert!(said.contains("WARNING - plugins currently enabled but missing: none"), "{line}: {said}");
    }
    let said = exit(&node, "rabbitmq-plugins disable rabbitmq_management");
    assert!(said.exit == 70 && said.stderr.contains("this node has no enabled_plugins file"), "{said:?}");
    assert_eq!(well(&node, "rabbitmq-plugins list -q -E -m"), "rabbitmq_management\nrabbitmq_prometheus\n");
    let running = well(&node, "rabbitmq-plugins list -q -e -m");
    assert!(running.starts_with("rabbitmq_amqp1_0\n") && !running.contains("stomp"), "{running}");
}

/// FP-05.
#[test]
fn a_file_of_plugins_sets_the_listeners_of_the_next_start() {
    let directory = new_directory();
    let file: PathBuf = directory.path().join("plugins");
    fs::write(&file, "%% by hand\n[rabbitmq_prometheus, rabbitmq_stomp, rabbitmq_managment].\n").expect("is written");
    let node = WithFile::start(directory.path(), &file);
    assert!(node.ports.amqp > 0 && node.ports.prometheus > 0);
    assert_eq!(node.ports.http, 0, "nobody asked for the HTTP API");
    let ask = |line: &str| {
        let said = run(directory.path(), &format!("rabbitmq-plugins {line}"), "");
        (said.exit, said.stdout)
    };
    let names = |list: &[&str]| (0, list.iter().map(|name| format!("{name}\n")).collect::<String>());
    assert_eq!(ask("list -q -E -m"), names(&["rabbitmq_prometheus", "rabbitmq_stomp"]));
    let (_, listed) = ask("list -q");
    for line in [
        "[E*] rabbitmq_prometheus ",
        "[e*] rabbitmq_management_agent ",
        "[E ] rabbitmq_stomp ",
        "[  ] rabbitmq_management ",
    ] {
        assert!(listed.contains(line), "{line} in {listed}");
    }
    assert_eq!(ask("is_enabled rabbitmq_management").0, 69);
    assert_eq!(ask("is_enabled rabbitmq_prometheus").0, 0);
    assert!(ask("directories -q").1.contains(&file.display().to_string()));
    assert_eq!(ask("disable rabbitmq_managment rabbitmq_stomp").0, 0);
    let (exit, said) = ask("enable rabbitmq_management");
    assert!(exit == 0 && said.contains("is written; the node reads it when it starts"), "{said}");
    let read = || fs::read_to_string(&file).expect("is there");
    assert_eq!(read(), "[rabbitmq_management,rabbitmq_prometheus].\n");
    assert!(ask("list -q").1.contains("[E ] rabbitmq_management "), "it doesn't run yet");
    let log = node.stop();
    assert!(log.contains("plugins:2: the plugin 'rabbitmq_stomp' isn't built yet"), "{log}");
    assert!(log.contains("'rabbitmq_managment' isn't known") && log.contains("is 'rabbitmq_management'"), "{log}");

    let node = WithFile::start(directory.path(), &file);
    assert!(node.ports.http > 0 && node.ports.prometheus > 0);
    assert_eq!(ask("set rabbitmq_prometheus").0, 0);
    node.stop();
    let node = WithFile::start(directory.path(), &file);
    assert_eq!(node.ports.http, 0);
    // Without the file all are on; disabling one creates the file.
    fs::remove_file(&file).expect("is removed");
    assert_eq!(ask("enable rabbitmq_management").0, 0);
    assert!(!file.exists());
    assert_eq!(ask("disable rabbitmq_prometheus").0, 0);
    assert_eq!(read(), "[rabbitmq_management].\n");
    node.stop();

    fs::write(&file, "rabbitmq_management.\n").expect("is written");
    let mut arguments = Options::new().arguments(directory.path());
    arguments.extend(["--enabled-plugins".to_owned(), file.display().to_string()]);
    let mut process = Process::spawn(&arguments);
    assert!(!process.wait().success());
    assert!(process.log().contains("expected a list of plugins"), "{}", process.log());
}
