//! The result of a run with idle connections.

use std::time::Duration;

use super::Usage;
use super::drop_all::Dropped;
use super::listing::Listing;
use crate::process::Memory;
use crate::report::{self, Asked, Extrapolated, Idle, Machine, Record};
use crate::settings::Protocol;

/// The number of connections that other brokers' figures are published for; more than a process may have open here.
const EXTRAPOLATED: u32 = 40_000;

/// The measurements.
pub(crate) struct IdleOutcome {
    pub(super) name: String,
    pub(super) protocol: Protocol,
    pub(super) broker: String,
    pub(super) connections: u32,
    pub(super) sessions: u16,
    /// Seconds, 0 for none.
    pub(super) heartbeat: u16,
    /// Time until all were open.
    pub(super) open_time: Duration,
    pub(super) before: Option<Memory>,
    /// With one session fewer on each connection, if each has several.
    pub(super) one_fewer: Option<Memory>,
    pub(super) open: Option<Memory>,
    /// After all were dropped.
    pub(super) after: Option<Memory>,
    /// Before any was open.
    pub(super) without: Usage,
    /// While all were idle.
    pub(super) with: Usage,
    pub(super) listing: Option<Listing>,
    pub(super) dropped: Dropped,
}

impl IdleOutcome {
    fn each(&self, memory: Option<Memory>, from: Option<Memory>) -> Option<f64> {
        let (memory, from) = (memory?.resident, from?.resident);
        Some(memory.saturating_sub(from) as f64 / f64::from(self.connections))
    }

    /// Additional memory for the last session of each connection relative to that of the connections before, from 0
    /// to 1.
    fn growth(&self) -> Option<f64> {
        let each = self.each(self.one_fewer, self.before).filter(|each| *each > 0.0)?;
        Some(self.each(self.open, self.one_fewer)? / each)
    }

    /// The freed fraction of the growth, from 0 to 1.
    fn given_back(&self) -> Option<f64> {
        let (before, open, after) = (self.before?.resident, self.open?.resident, self.after?.resident);
        Some(1.0 - after.saturating_sub(before) as f64 / open.saturating_sub(before).max(1) as f64)
    }

    /// Number of open sessions when they were listed.
    fn open_sessions(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.sessions)
    }

    /// Estimated usage of 40,000 connections.
    fn extrapolated(&self) -> Option<Extrapolated> {
        let times = f64::from(EXTRAPOLATED) / f64::from(self.connections);
        let cores = self.with.cores().zip(self.without.cores());
        (times > 1.0).then(|| Extrapolated {
            connections: EXTRAPOLATED,
            bytes: self.each(self.open, self.before).map(|each| each * f64::from(EXTRAPOLATED)),
            idle_cores: cores.map(|(with, without)| without + (with - without).max(0.0) * times),
        })
    }

    /// The record for the report.
    pub(crate) fn record(&self, round: u32, machine: &Machine) -> Record {
        let (target, broker) = report::target_and_broker(&self.broker);
        let (connections, sessions) = (self.connections, self.sessions);
        let what = if self.protocol == Protocol::Amqp091 { "channels" } else { "sessions" };
        let heartbeat = if self.heartbeat == 0 { "no".into() } else { format!("{} s", self.heartbeat) };
        let logins = &self.dropped.logins;
        let millis = |nanos: u64| (!logins.is_empty()).then_some(nanos as f64 / 1e6);
        Record {
            scenario: self.name.clone(),
            round,
            target,
            broker,
            protocol: report::protocol_name(self.protocol).into(),
            machine: machine.clone(),
            asked: Asked {
                description: format!("{connections} connections with {sessions} {what} each, {heartbeat} heartbeats"),
                ..Asked::default()
            },
            idle: Idle {
                connections: Some(connections),
                sessions: Some(sessions),
                heartbeat_seconds: Some(self.heartbeat),
                opened_per_second: Some(f64::from(connections) / self.open_time.as_secs_f64()),
                bytes_per_connection: self.each(self.open, self.before),
                bytes_per_further_session: self.each(self.open, self.one_fewer),
                growth_by_further_session: self.growth(),
                idle_cores: self.with.cores(),
                idle_wake_ups_per_second: self.with.wake_ups_per_second(),
                idle_seconds: Some(self.with.time.as_secs_f64()),
                cores_without_connections: self.without.cores(),
                wake_ups_per_second_without_connections: self.without.wake_ups_per_second(),
                sessions_open: Some(self.open_sessions()),
                sessions_listed: self.listing.map(|listing| listing.sessions),
                listing_seconds: self.listing.map(|listing| listing.time.as_secs_f64()),
                drop_seconds: Some(self.dropped.time.as_secs_f64()),
                logins_while_dropping: Some(logins.len()),
                login_while_dropping_ms_p50: millis(logins.value_at_percentile(50.0)),
                login_while_dropping_ms_max: millis(logins.max()),
                given_back: self.given_back(),
                given_back_90_percent_seconds: self.dropped.release_time.map(|time| time.as_secs_f64()),
                extrapolated: self.extrapolated(),
            },
            ..Record::default()
        }
    }
}
