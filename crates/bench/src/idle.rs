//! Connections that do nothing: what they take of a broker's memory and CPU, and how fast they come and go.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use leveret_strict_client::{amqp10, amqp091};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::process::{self, Memory};
use crate::round::{Load, Target};
use crate::scenario::Protocol;
use crate::{BenchArgs, BenchError};

/// How long a broker may take to free what dropped connections held.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);

/// What was measured.
pub(crate) struct IdleOutcome {
    protocol: Protocol,
    broker: String,
    connections: u32,
    sessions: u16,
    /// Until all were open.
    open_time: Duration,
    before: Option<Memory>,
    open: Option<Memory>,
    /// With one more session on each.
    one_more: Option<Memory>,
    /// After they were dropped at once.
    after: Option<Memory>,
    idle_time: Duration,
    /// While they were idle.
    idle_cpu: Option<Duration>,
}

/// Opens connections with sessions (channels), waits, opens one more on each, and drops all.
pub(crate) fn run(protocol: Protocol, args: &BenchArgs, target: &Target) -> Result<IdleOutcome, BenchError> {
    match protocol {
        Protocol::Amqp091 => run_as::<amqp091::Client>(protocol, args, target),
        Protocol::Amqp10 => run_as::<amqp10::Client>(protocol, args, target),
    }
}

fn run_as<L: Load>(protocol: Protocol, args: &BenchArgs, target: &Target) -> Result<IdleOutcome, BenchError> {
    raise_descriptors(args.connections)?;
    let memory = || target.pid.and_then(process::memory);
    let cpu = || target.pid.and_then(process::cpu_time);
    let before = memory();
    let start = Instant::now();
    let mut connections: Vec<Connection<L>> = Vec::new();
    for number in 0..args.connections {
        let mut connection = L::open(target, &format!("idle {number}"))?;
        for session in 1..args.sessions {
            L::open_session(&mut connection, session)?;
        }
        connections.push(connection);
    }
    let open_time = start.elapsed();
    let broker = format!("{}{}", target.label, connections.first().map_or("", |first| first.broker_name()));
    let cpu_before = cpu();
    let idle = Instant::now();
    thread::sleep(Duration::from_secs(args.idle_s));
    let (idle_time, idle_cpu) = (idle.elapsed(), cpu().zip(cpu_before).map(|(after, before)| after - before));
    let open = memory();
    for connection in &mut connections {
        L::open_session(connection, args.sessions)?;
    }
    let one_more = memory();
    drop(connections);
    let dropped = Instant::now();
    // As soon as nine tenths of the growth are given back, or when the time for it is over.
    let is_free = || {
        let (before, open, now) = (before?.resident, one_more?.resident, memory()?.resident);
        Some(now.saturating_sub(before) * 10 <= open.saturating_sub(before))
    };
    while dropped.elapsed() < RELEASE_PATIENCE && is_free() == Some(false) {
        thread::sleep(Duration::from_millis(100));
    }
    let sessions = args.sessions;
    let connections = args.connections;
    let after = memory();
    Ok(IdleOutcome {
        protocol,
        broker,
        connections,
        sessions,
        open_time,
        before,
        open,
        one_more,
        after,
        idle_time,
        idle_cpu,
    })
}

/// As many files as the system allows, if these connections need them.
fn raise_descriptors(connections: u32) -> Result<(), BenchError> {
    let needed = u64::from(connections) + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let allowed = limit.maximum.is_none_or(|maximum| maximum >= needed);
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    if allowed && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let maximum = limit.maximum.unwrap_or_default();
    Err(BenchError::Usage(format!(
        "{connections} connections take {needed} open files, the limit is {maximum} (ulimit -n)"
    )))
}

impl IdleOutcome {
    fn each(&self, memory: Option<Memory>, from: Option<Memory>) -> Option<f64> {
        let (memory, from) = (memory?.resident, from?.resident);
        Some(memory.saturating_sub(from) as f64 / f64::from(self.connections))
    }

    fn cores(&self) -> Option<f64> {
        self.idle_cpu.map(|cpu| cpu.as_secs_f64() / self.idle_time.as_secs_f64())
    }

    fn released(&self) -> Option<f64> {
        let (before, open, after) = (self.before?.resident, self.one_more?.resident, self.after?.resident);
        Some(1.0 - after.saturating_sub(before) as f64 / open.saturating_sub(before).max(1) as f64)
    }

    fn name(&self) -> &'static str {
        match self.protocol {
            Protocol::Amqp091 => "idle-amqp091",
            Protocol::Amqp10 => "idle-amqp10",
        }
    }

    /// The round as a paragraph.
    pub(crate) fn text(&self, round: u32) -> String {
        let mut out = format!("\n{} round {round}: {}\n", self.name(), self.broker);
        let mut line = |label: &str, value: String| {
            let _ = writeln!(out, "  {label:<18} {value}");
        };
        let opened = f64::from(self.connections) / self.open_time.as_secs_f64();
        line("load", format!("{} connections with {} sessions each", self.connections, self.sessions));
        line("opened", format!("{opened:.0} /s"));
        if let Some(bytes) = self.each(self.open, self.before) {
            line("memory", format!("{bytes:.0} bytes per connection"));
        }
        if let Some(bytes) = self.each(self.one_more, self.open) {
            line("one session more", format!("{bytes:.0} bytes per connection"));
        }
        if let Some(cores) = self.cores() {
            line("idle CPU", format!("{:.2} % of a core over {:.0} s", cores * 100.0, self.idle_time.as_secs_f64()));
        }
        if let Some(share) = self.released() {
            line("given back", format!("{:.0} % after they were dropped at once", share * 100.0));
        }
        out.pop();
        out
    }

    /// The round as an object.
    pub(crate) fn json(&self, round: u32) -> Value {
        json!({
            "scenario": self.name(),
            "round": round,
            "broker": self.broker,
            "connections": self.connections,
            "sessions": self.sessions,
            "opened_per_second": f64::from(self.connections) / self.open_time.as_secs_f64(),
            "bytes_per_connection": self.each(self.open, self.before),
            "bytes_per_further_session": self.each(self.one_more, self.open),
            "idle_cores": self.cores(),
            "idle_seconds": self.idle_time.as_secs_f64(),
            "given_back": self.released(),
        })
    }
}
