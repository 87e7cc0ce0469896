//! Lifecycle of a node: waiting for it, stopping it, taking it out of service and back.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CHECK, CTL, Command, CommandGroup, LOOK};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::NodeClient;
use crate::failure::Failure;

/// Interval of polling for a node to start or stop.
pub(super) const STEP: Duration = Duration::from_millis(20);

/// Interval of polling for other nodes.
pub(super) const POLL: Duration = Duration::from_millis(200);

/// Default timeout of RabbitMQ's tools for the start or stop of a node.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "await_startup", CommandGroup::Nodes, "", "Waits until the node has started", await_startup),
    Command::new(CTL, "await_online_nodes", CommandGroup::Cluster, "<count>", "Waits for <count> nodes to join the cluster", await_online_nodes),
    Command::new(LOOK, "wait", CommandGroup::Nodes, "[<pidfile>] [--pid <pid>]", "Waits until the node of a process has started", wait),
    Command::new(CTL, "start_app", CommandGroup::Nodes, "", "Starts the node again after stop_app, with the data on its disk", start_app),
    Command::new(CTL, "stop_app", CommandGroup::Nodes, "", "Stops the node but not its process, which then only answers these tools", stop_app),
    Command::new(CTL, "stop", CommandGroup::Nodes, "[<pidfile>] [--idempotent]", "Stops the node and waits until it has; --idempotent takes one that doesn't run for stopped", stop),
    Command::new(CTL, "shutdown", CommandGroup::Nodes, "[--wait] [--no-wait]", "Stops the node and waits until it has", shutdown),
    Command::new(CTL, "suspend_listeners", CommandGroup::Operations, "", "Suspends the listeners, so that no client can connect", suspend),
    Command::new(CTL, "resume_listeners", CommandGroup::Operations, "", "Resumes the listeners", resume),
    Command::new(CHECK, "is_booting", CommandGroup::Monitoring, "", "Reports whether the node is booting", is_booting),
    Command::new(CHECK, "is_running", CommandGroup::Monitoring, "", "Reports whether the node is running", is_running),
    Command::new(CHECK, "check_running", CommandGroup::Monitoring, "", "Exits with a non-zero code if the node isn't running", check_running),
];

/// Waits for a node to respond.
fn until_started(call: &Call<'_>) -> Result<NodeClient, Failure> {
    let patience = call.options.timeout.unwrap_or(PATIENCE);
    let deadline = Instant::now() + patience;
    loop {
        match call.process() {
            Err(Failure::Unavailable(_)) if Instant::now() < deadline => thread::sleep(STEP),
            Err(Failure::Unavailable(text)) => return Err(Failure::Timeout(text)),
            // RabbitMQ's error; it doesn't wait either.
            Ok(process) if !process.is_running() => return Err(Failure::check("rabbit_is_not_running")),
            other => return other,
        }
    }
}

fn await_startup(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    until_started(call)?;
    Ok(CommandOutput::Done)
}

fn await_online_nodes(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let count: u64 = call
        .word("count")
        .parse()
        .map_err(|_| Failure::bad_argument("Bad argument: Argument must be a positive integer"))?;
    let node = call.node()?;
    let seconds = call.options.timeout.unwrap_or(PATIENCE).as_secs();
    let name = node.name();
    call.say(&format!(
        "Will wait for at least {count} nodes to join the cluster of {name}. Timeout: {seconds} seconds."
    ));
    let deadline = Instant::now() + Duration::from_secs(seconds);
    // One is there, since it has answered.
    let is_reached = || -> Result<bool, Failure> {
        let running = |nodes: Vec<Value>| nodes.iter().filter(|node| node["running"] == true).count() as u64;
        Ok(count <= 1 || running(node.list("/api/nodes?columns=name,running")?) >= count)
    };
    while !is_reached()? {
        if Instant::now() >= deadline {
            let text = format!("Error: timed out while waiting. Not enough nodes joined {name}'s cluster.");
            return Err(Failure::refused(&text));
        }
        thread::sleep(POLL);
    }
    Ok(CommandOutput::Done)
}

/// Waits for the pid file and for its process to respond. Fails at once if that process has ended.
fn wait(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let deadline = Instant::now() + call.options.timeout.unwrap_or(PATIENCE);
    let pid: u32 = match (call.given("pid").map(str::to_owned), call.given("pidfile").map(str::to_owned)) {
        (Some(pid), _) => {
            pid.trim().parse().map_err(|_| Failure::bad_argument(&format!("Bad argument: '{pid}' is no process id")))?
        }
        (None, Some(file)) => {
            call.say(&format!("Waiting for pid file '{file}' to appear"));
            pid_of(Path::new(&file), deadline)?
        }
        (None, None) => return Err(Failure::Usage("Error (argument validation): not enough arguments.".to_owned())),
    };
    call.say(&format!("pid is {pid}"));
    loop {
        match call.process() {
            Ok(node) if node.is_running() => {
                let found = node.node["pid"].as_u64().unwrap_or_default();
                // The process in a pid file may be the parent of the node, such as a shell.
                if found != u64::from(pid) && !is_alive(pid) {
                    return Err(Failure::check(&format!("process {pid} is not the node, which is {found}")));
                }
                call.say(&format!("Applications 'rabbit_and_plugins' are running on {}", node.name()));
                return Ok(CommandOutput::Done);
            }
            Ok(_) | Err(Failure::Unavailable(_)) if !is_alive(pid) => {
                return Err(Failure::check(&format!("process {pid} isn't running, and no node answers")));
            }
            Ok(_) | Err(Failure::Unavailable(_)) if Instant::now() < deadline => thread::sleep(STEP),
            Ok(node) => {
                return Err(Failure::Timeout(format!("Error: node {} hasn't started in time", node.name())));
            }
            Err(Failure::Unavailable(text)) => return Err(Failure::Timeout(text)),
            Err(other) => return Err(other),
        }
    }
}

/// The process id in a file that may not be written yet.
fn pid_of(file: &Path, deadline: Instant) -> Result<u32, Failure> {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if !text.trim().is_empty() => {
                let garbage = || Failure::Data(format!("Error:\nno process id in pid file {}", file.display()));
                return text.trim().parse().map_err(|_| garbage());
            }
            Err(reason) if reason.kind() != ErrorKind::NotFound => {
                return Err(Failure::Data(format!("Error:\ncannot read pid file {}: {reason}", file.display())));
            }
            _ if Instant::now() >= deadline => {
                return Err(Failure::Timeout(format!("Error: pid file {} hasn't appeared in time", file.display())));
            }
            _ => thread::sleep(STEP),
        }
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn start_app(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let process = call.process()?;
    call.say(&format!("Starting node {} ...", process.name()));
    if !process.is_running() {
        ask(&process, "/local/app/start")?;
        until(call, |process| match (process.is_running(), process.node["start_error"].as_str()) {
            (true, _) => Ok(true),
            (false, Some(reason)) => Err(Failure::refused(reason)),
            (false, None) => Ok(false),
        })?;
    }
    Ok(CommandOutput::Done)
}

fn stop_app(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let process = call.process()?;
    call.say(&format!("Stopping rabbit application on node {} ...", process.name()));
    if process.is_running() {
        ask(&process, "/local/app/stop")?;
        until(call, |process| Ok(!process.is_running()))?;
    }
    Ok(CommandOutput::Done)
}

/// Sends a request that ends the responding process: the response may be lost.
fn ask(process: &NodeClient, path: &str) -> Result<(), Failure> {
    match process.change("POST", path, json!({})) {
        Err(Failure::Unavailable(_)) => Ok(()),
        other => other,
    }
}

/// Waits until the process has reached a state. Between two states it doesn't respond.
fn until(call: &Call<'_>, is_there: impl Fn(&NodeClient) -> Result<bool, Failure>) -> Result<(), Failure> {
    let patience = call.options.timeout.unwrap_or(PATIENCE);
    let deadline = Instant::now() + patience;
    loop {
        match call.process() {
            Ok(process) if is_there(&process)? => return Ok(()),
            Err(Failure::Unavailable(text)) if Instant::now() >= deadline => return Err(Failure::Unavailable(text)),
            Ok(_) | Err(Failure::Unavailable(_)) if Instant::now() < deadline => thread::sleep(STEP),
            Ok(_) => {
                let seconds = patience.as_secs_f64();
                return Err(Failure::Timeout(format!("Error: the node isn't there yet after {seconds} s")));
            }
            Err(other) => return Err(other),
        }
    }
}

fn stop(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    match end(call, true) {
        Err(Failure::Unavailable(_)) if call.has("idempotent") => {
            call.say("Node is already stopped");
            Ok(CommandOutput::Done)
        }
        other => other,
    }
}

fn shutdown(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let waits = !call.has("no-wait");
    end(call, waits)
}

fn end(call: &mut Call<'_>, waits: bool) -> Result<CommandOutput, Failure> {
    let node = call.process()?;
    call.say(&format!("Stopping and halting node {} ...", node.name()));
    match node.change("POST", "/local/stop", json!({})) {
        // It responded a moment ago: a node without anything to close may be gone before it can respond.
        Ok(_) | Err(Failure::Unavailable(_)) => {}
        Err(failure) => return Err(failure),
    }
    if waits {
        let directory = node.node["data_directory"].as_str().unwrap_or_default();
        until_stopped(Path::new(directory), call.options.timeout.unwrap_or(PATIENCE))?;
    }
    Ok(CommandOutput::Done)
}

/// Waits until the lock on the data directory is free: the kernel releases it when the process has ended.
fn until_stopped(directory: &Path, patience: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + patience;
    let lock = File::open(directory)
        .map_err(|reason| Failure::check(&format!("cannot open {}: {reason}", directory.display())))?;
    while lock.try_lock_shared().is_err() {
        if Instant::now() >= deadline {
            return Err(Failure::Timeout(format!("Error: the node hasn't stopped after {} s", patience.as_secs_f64())));
        }
        thread::sleep(STEP);
    }
    Ok(())
}

fn suspend(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!(
        "Will suspend client connection listeners on node {}. The node will no longer accept client connections!",
        node.name()
    ));
    node.change("POST", "/local/listeners/suspend", json!({}))?;
    Ok(CommandOutput::Done)
}

fn resume(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!(
        "Will resume client connection listeners on node {}. The node will now accept client connections",
        node.name()
    ));
    node.change("POST", "/local/listeners/resume", json!({}))?;
    Ok(CommandOutput::Done)
}

fn is_booting(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.process()?.name();
    call.say(&format!("Asking node {name} for its boot status ..."));
    Ok(CommandOutput::Report {
        text: format!(
            "RabbitMQ on node {name} is fully booted (check with is_running), stopped or has not started booting yet"
        ),
        value: json!(false),
    })
}

fn is_running(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let process = call.process()?;
    let name = process.name();
    call.say(&format!("Asking node {name} for its status ..."));
    match process.is_running() {
        true => Ok(running(&name)),
        false => Ok(CommandOutput::Report { text: not_running(&name), value: json!(false) }),
    }
}

fn check_running(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let process = call.process()?;
    let name = process.name();
    call.say(&format!("Checking if RabbitMQ is running on node {name} ..."));
    match process.is_running() {
        true => Ok(running(&name)),
        false => Err(Failure::check(&not_running(&name))),
    }
}

fn not_running(name: &str) -> String {
    format!("RabbitMQ on node {name} is not running or has not fully booted yet (check with is_booting)")
}

fn running(name: &str) -> CommandOutput {
    let text = format!("RabbitMQ on node {name} is fully booted and running");
    CommandOutput::Report { value: json!({"result": "ok", "message": text}), text }
}
