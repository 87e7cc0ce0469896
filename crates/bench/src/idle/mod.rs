//! Idle connections: their memory and CPU usage in a broker, and how fast they are opened and closed.

mod alive;
mod drop_all;
mod listing;
mod opened;
mod outcome;

use std::thread;
use std::time::{Duration, Instant};

use leveret_strict_client::{amqp10, amqp091, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use outcome::IdleOutcome;

use crate::process::Processes;
use crate::round::Load;
use crate::settings::Protocol;
use crate::target::TargetBroker;
use crate::{BenchError, LoadArgs, Scenario};

/// Longest observation of a broker without connections, which is idle most of the time.
const BASELINE_MAX: Duration = Duration::from_secs(10);

/// CPU usage of a process while it is idle.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) time: Duration,
    pub(crate) cpu: Option<Duration>,
    /// Number of wake-ups of its threads.
    pub(crate) wake_ups: Option<u64>,
}

impl Usage {
    /// The usage of the processes while `wait` runs.
    fn during(processes: &Processes, wait: impl FnOnce() -> Result<(), BenchError>) -> Result<Self, BenchError> {
        let read = || (processes.cpu_time(), processes.wake_ups());
        let (start, (cpu, wake_ups)) = (Instant::now(), read());
        wait()?;
        let (time, (cpu_after, wake_ups_after)) = (start.elapsed(), read());
        Ok(Self {
            time,
            cpu: cpu_after.zip(cpu).map(|(after, before)| after.saturating_sub(before)),
            wake_ups: wake_ups_after.zip(wake_ups).map(|(after, before)| after.saturating_sub(before)),
        })
    }

    /// CPU seconds per second.
    pub(crate) fn cores(&self) -> Option<f64> {
        self.cpu.filter(|_| !self.time.is_zero()).map(|cpu| cpu.as_secs_f64() / self.time.as_secs_f64())
    }

    pub(crate) fn wake_ups_per_second(&self) -> Option<f64> {
        self.wake_ups.filter(|_| !self.time.is_zero()).map(|count| count as f64 / self.time.as_secs_f64())
    }
}

/// Opens connections with sessions (channels), each connection's last session only after all others; waits, lists
/// them, and drops all.
pub(crate) fn run(
    name: &str,
    scenario: Scenario,
    load: &LoadArgs,
    target: &TargetBroker,
) -> Result<IdleOutcome, BenchError> {
    let idle = Idle {
        name,
        protocol: scenario.protocol,
        connections: load.connections.unwrap_or(1000),
        sessions: load.sessions.unwrap_or(2),
        time: Duration::from_secs(load.idle_s.unwrap_or(10)),
        heartbeat: load.heartbeat.unwrap_or(0),
    };
    match scenario.protocol {
        Protocol::Amqp091 => idle.run_as::<amqp091::Client>(target),
        Protocol::Amqp10 => idle.run_as::<amqp10::Client>(target),
        Protocol::Stream => idle.run_as::<stream::Client>(target),
    }
}

/// The parameters of the run.
struct Idle<'r> {
    name: &'r str,
    protocol: Protocol,
    connections: u32,
    sessions: u16,
    time: Duration,
    /// Seconds, 0 for none.
    heartbeat: u16,
}

impl Idle<'_> {
    fn run_as<L: Load>(&self, target: &TargetBroker) -> Result<IdleOutcome, BenchError> {
        raise_descriptors(self.connections)?;
        let memory = || target.processes.memory();
        let without = Usage::during(&target.processes, || {
            if !target.processes.is_empty() {
                thread::sleep(self.time.min(BASELINE_MAX));
            }
            Ok(())
        })?;
        let before = memory();
        let start = Instant::now();
        let mut connections = opened::open_all::<L>(target, self)?;
        let open_time = start.elapsed();
        let mut one_fewer = None;
        // A client comes with its first session.
        if self.sessions > 1 {
            one_fewer = memory();
            opened::last_session(&mut connections, self.sessions - 1)?;
        }
        let open = memory();
        let broker = format!("{}{}", target.label, connections.first().map_or("", |first| first.socket.broker_name()));
        let with = Usage::during(&target.processes, || alive::keep(&mut connections, self.time))?;
        let listing = match target.management_port {
            Some(port) => Some(listing::of(self.protocol, &target.uri, port)?),
            None => None,
        };
        let dropped = drop_all::drop_all(connections, target, before.zip(open))?;
        Ok(IdleOutcome {
            name: self.name.to_owned(),
            protocol: self.protocol,
            broker,
            connections: self.connections,
            sessions: self.sessions,
            heartbeat: self.heartbeat,
            open_time,
            before,
            one_fewer,
            open,
            after: memory(),
            without,
            with,
            listing,
            dropped,
        })
    }
}

/// Raises the limit of open files as far as the system permits, if these connections need it.
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
