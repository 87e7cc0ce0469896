//! Log lines about connections, worded as RabbitMQ words them, because operators grep for them.

use std::fmt;

use leveret_model::ConnectionId;

use crate::time::{Nanos, Now, SECOND};

pub(crate) mod changes;
pub mod overdue;
pub mod redeclared;

/// Categories of log lines, as in `log.NAME.level`.
pub mod category {
    /// Connections of clients.
    pub const CONNECTION: &str = "rabbitmq.connection";
    /// Channels, sessions and links.
    pub const CHANNEL: &str = "rabbitmq.channel";
    /// Queues.
    pub const QUEUE: &str = "rabbitmq.queue";
    /// Users and their logins.
    pub const USER: &str = "rabbitmq.user";
}

use category::{CHANNEL, CONNECTION, USER};

/// A connection, as log lines name it.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// Its id.
    pub id: ConnectionId,
    /// Both addresses.
    pub name: &'a str,
    /// The name given by its client; empty if there is none.
    pub client_name: &'a str,
    /// The vhost; empty before it is opened.
    pub vhost: &'a str,
    /// The user; empty before a login.
    pub user: &'a str,
    /// Time when it was accepted.
    pub connected: Nanos,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if !self.client_name.is_empty() {
            write!(f, " - {}", self.client_name)?;
        }
        Ok(())
    }
}

/// `127.0.0.1:1 -> 127.0.0.1:2 - name, vhost: '/', user: 'guest'`, as far as known.
struct Whole<'a>(Told<'a>);

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        let told = self.0;
        if !told.vhost.is_empty() {
            write!(f, ", vhost: '{}'", told.vhost)?;
        }
        if !told.user.is_empty() {
            write!(f, ", user: '{}'", told.user)?;
        }
        Ok(())
    }
}

/// Logs the end of a connection and the reason. A macro, because the level is part of a log call's static metadata.
macro_rules! over {
    ($level:ident, $told:ident, $now:ident, $why:expr) => {
        tracing::$level!(
            target: CONNECTION,
            pid = $told.id.counter(),
            detail = $why,
            "closing AMQP connection <0.{}.0> ({}, duration: '{}'):",
            $told.id.counter(),
            Whole($told),
            $told.duration($now)
        )
    };
}

impl Told<'_> {
    /// Its first bytes belong to a protocol.
    pub(crate) fn accepted(self) {
        tracing::info!(target: CONNECTION, pid = self.id.counter(), "accepting AMQP connection {}", self.name);
    }

    /// Its client gave it a name.
    pub fn named(self) {
        if !self.client_name.is_empty() {
            let (name, client_name) = (self.name, self.client_name);
            tracing::info!(target: CONNECTION, pid = self.id.counter(), "connection {name} has a client-provided name: {client_name}");
        }
    }

    /// It is open.
    pub fn opened(self) {
        let (user, vhost) = (self.user, self.vhost);
        tracing::info!(
            target: CONNECTION,
            pid = self.id.counter(),
            "connection {self}: user '{user}' authenticated and granted access to vhost '{vhost}'"
        );
    }

    /// It is open over AMQP 1.0.
    pub fn opened_by(self, container: &str, mechanism: &str) {
        let (name, user, vhost) = (self.name, self.user, self.vhost);
        tracing::info!(
            target: CONNECTION,
            pid = self.id.counter(),
            "Connection from AMQP 1.0 container '{container}': user '{user}' authenticated using SASL mechanism {mechanism} \
             and granted access to vhost '{vhost}' (connection {name})"
        );
    }

    /// Its client renewed the secret it logged in with, and gave a reason.
    pub fn secret_updated(self, reason: &str) {
        let user = self.user;
        tracing::info!(
            target: CONNECTION,
            pid = self.id.counter(),
            "connection {self}: user '{user}' updated secret, reason: {reason}"
        );
    }

    /// The secret with which its client would have gone on was refused.
    pub fn secret_refused(self, reason: &str) {
        let user = self.user;
        tracing::error!(
            target: CONNECTION,
            pid = self.id.counter(),
            "connection {self}: secret update was refused for user '{user}': {reason}"
        );
    }

    /// It was closed normally.
    pub fn closed(self, now: Now) {
        let duration = self.duration(now);
        tracing::info!(
            target: CONNECTION,
            pid = self.id.counter(),
            "closing AMQP connection ({}, duration: '{duration}')",
            Whole(self)
        );
    }

    /// Its client disconnected without closing it.
    pub fn lost(self, now: Now) {
        over!(warn, self, now, "client unexpectedly closed TCP connection");
    }

    /// Its client disconnected without sending anything, like a port check.
    pub(crate) fn said_nothing(self, now: Now) {
        over!(debug, self, now, "connection_closed_with_no_data_received");
    }

    /// We close it without notifying its client, which couldn't receive or understand that.
    pub fn cut(self, why: &str, now: Now) {
        over!(error, self, now, why);
    }

    /// Its client closes it with an error.
    pub fn closed_with(self, condition: &str, why: &str) {
        let id = self.id.counter();
        tracing::warn!(
            target: CONNECTION,
            pid = id,
            detail = %format_args!("{condition}: {why}"),
            "AMQP connection <0.{id}.0> ({}) is closed by its client:",
            Whole(self)
        );
    }

    /// We close it with an error.
    pub fn failed(self, state: &str, why: &str) {
        let id = self.id.counter();
        tracing::error!(
            target: CONNECTION,
            pid = id,
            detail = why,
            "Error on AMQP connection <0.{id}.0> ({}, state: {state}):",
            Whole(self)
        );
    }

    /// Its client connected to the wrong port.
    pub(crate) fn foreign(self, why: &str) {
        tracing::warn!(target: CONNECTION, pid = self.id.counter(), "closing AMQP connection ({}): {why}", Whole(self));
    }

    /// A channel is closed with an error.
    pub fn channel_failed(self, channel: u16, why: &str) {
        let id = self.id.counter();
        tracing::error!(
            target: CHANNEL,
            pid = id,
            detail = why,
            "Channel error on connection <0.{id}.0> ({}), channel {channel}:",
            Whole(self)
        );
    }

    /// An AMQP 1.0 session or link is ended or refused.
    pub fn refused(self, what: fmt::Arguments<'_>, condition: &str, why: &str) {
        let id = self.id.counter();
        tracing::warn!(
            target: CHANNEL,
            pid = id,
            detail = %format_args!("{condition}: {why}"),
            "{what} on connection <0.{id}.0> ({}):",
            Whole(self)
        );
    }

    /// A user logged in.
    pub fn authenticated(self, user: &str) {
        tracing::info!(target: USER, pid = self.id.counter(), "User '{user}' authenticated successfully");
    }

    /// A login failed; `claimed` is the user name, if given. The reason is that of `Authenticate`.
    pub fn not_authenticated(self, claimed: Option<&str>, reason: &str) {
        let user = claimed.unwrap_or_default();
        tracing::warn!(target: USER, pid = self.id.counter(), "User '{user}' failed to authenticate: {reason}");
    }

    /// The duration in RabbitMQ's format: `12ms`, `7s`, `3M, 7s`, `1D, 0H, 3M, 7s`.
    fn duration(self, now: Now) -> String {
        let length = now.monotonic.saturating_sub(self.connected);
        let seconds = length / SECOND;
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
        let (minute, hour, second) = (minutes % 60, hours % 24, seconds % 60);
        match (days, hours, minutes, seconds) {
            (0, 0, 0, 0) => format!("{}ms", length / 1_000_000),
            (0, 0, 0, _) => format!("{second}s"),
            (0, 0, ..) => format!("{minute}M, {second}s"),
            (0, ..) => format!("{hour}H, {minute}M, {second}s"),
            _ => format!("{days}D, {hour}H, {minute}M, {second}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_names_look_as_in_rabbitmq() {
        let told = Told { id: ConnectionId(1), name: "a -> b", client_name: "", vhost: "", user: "", connected: 5 };
        let after = |length: Nanos| told.duration(Now { monotonic: 5 + length, wall_ms: 0 });
        assert_eq!(after(999_999_999), "999ms");
        assert_eq!(after(6 * SECOND + 5), "6s");
        assert_eq!(after(187 * SECOND), "3M, 7s");
        assert_eq!(after(3607 * SECOND), "1H, 0M, 7s");
        assert_eq!(after(90_000 * SECOND), "1D, 1H, 0M, 0s");
        assert_eq!(Whole(told).to_string(), "a -> b");
        let told = Told { client_name: "me", vhost: "/", user: "guest", ..told };
        assert_eq!(Whole(told).to_string(), "a -> b - me, vhost: '/', user: 'guest'");
    }
}
