//! Opens thousands of connections concurrently.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::Instant;

use super::Idle;
use crate::BenchError;
use crate::connection::{Client, Connection};
use crate::opening::Opening;
use crate::round::{Load, start};
use crate::target::TargetBroker;

/// Number of threads that open connections one after the other.
const OPENERS: usize = 32;
/// Connections per local address, which has about 28,000 ports, some of which are in use.
const PER_ADDRESS: u32 = 10_000;
/// Initial read size of an idle connection, which receives little.
const BUFFER: usize = 1024;

/// An idle connection.
pub(super) struct IdleConnection<L: Client> {
    pub(super) socket: Connection<L>,
    /// Time of the next heartbeat; `None` for never.
    pub(super) due: Option<Instant>,
}

/// Opens all connections with all sessions except the last.
pub(super) fn open_all<L: Load>(target: &TargetBroker, idle: &Idle<'_>) -> Result<Vec<IdleConnection<L>>, BenchError> {
    let openers = OPENERS.min(idle.connections as usize);
    let open = move |first: usize| -> Result<Vec<IdleConnection<L>>, BenchError> {
        let numbers = (first as u32..idle.connections).step_by(openers);
        numbers.map(|number| open_one(target, idle, number)).collect()
    };
    thread::scope(|scope| {
        let threads: Result<Vec<_>, BenchError> = (0..openers).map(|first| start(scope, move || open(first))).collect();
        let mut all = Vec::new();
        for thread in threads? {
            all.extend(thread.join().expect("no opener panics")?);
        }
        Ok(all)
    })
}

fn open_one<L: Load>(target: &TargetBroker, idle: &Idle<'_>, number: u32) -> Result<IdleConnection<L>, BenchError> {
    let name = format!("idle {number}");
    let opening = Opening { name: &name, heartbeat: idle.heartbeat, from: source(target, number), buffer: BUFFER };
    let mut socket = L::open(target, &opening)?;
    for session in 1..idle.sessions.saturating_sub(1) {
        L::open_session(&mut socket, session)?;
    }
    let due = socket.client.heartbeat_every().map(|every| Instant::now() + every);
    Ok(IdleConnection { socket, due })
}

/// A loopback address for every ten thousand connections, if the broker has a loopback address; otherwise the
/// system's choice.
fn source(target: &TargetBroker, number: u32) -> Option<IpAddr> {
    let host: IpAddr = target.uri.host.parse().ok()?;
    let is_loopback_v4 = host.is_ipv4() && host.is_loopback();
    is_loopback_v4.then(|| Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + number / PER_ADDRESS).into())
}

/// Opens the last session on each connection; its `number` counts from 0.
pub(super) fn last_session<L: Load>(connections: &mut [IdleConnection<L>], number: u16) -> Result<(), BenchError> {
    let share = connections.len().div_ceil(OPENERS).max(1);
    thread::scope(|scope| {
        let open = move |share: &mut [IdleConnection<L>]| -> Result<(), BenchError> {
            share.iter_mut().try_for_each(|held| L::open_session(&mut held.socket, number))
        };
        let shares = connections.chunks_mut(share);
        let threads: Result<Vec<_>, BenchError> = shares.map(|share| start(scope, move || open(share))).collect();
        threads?.into_iter().try_for_each(|thread| thread.join().expect("no opener panics"))
    })
}
