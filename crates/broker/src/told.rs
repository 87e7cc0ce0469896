//! What the log says of connections, in RabbitMQ's words: people search for them.

use std::fmt;

use leveret_model::ConnectionId;

use crate::time::{Nanos, Now, SECOND};

pub(crate) mod changes;

/// Categories of lines, as `log.NAME.level` has them.
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

/// A connection, as lines name it.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// Its id.
    pub id: ConnectionId,
    /// Both addresses.
    pub name: &'a str,
    /// What its client calls it; empty if it doesn't.
    pub client_name: &'a str,
    /// Empty before it is entered.
    pub vhost: &'a str,
    /// Empty before a login.
    pub user: &'a str,
    /// When it was accepted.
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

/// `127.0.0.1:1 -> 127.0.0.1:2 - name, vhost: '/', user: 'guest'`, as far as it is known.
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

/// Tells that a connection is over, and why; the level of a line is part of its place in the code.
macro_rules! over {
    ($level:ident, $told:ident, $now:ident, $why:expr) => {
        tracing::$level!(
            target: CONNECTION,
            pid = $told.id.0,
            detail = $why,
            "closing AMQP connection <0.{}.0> ({}, duration: '{}'):",
            $told.id.0,
            Whole($told),
            $told.duration($now)
        )
    };
}

impl Told<'_> {
    /// Its first bytes are those of a protocol.
    pub(crate) fn accepted(self) {
        tracing::info!(target: CONNECTION, pid = self.id.0, "accepting AMQP connection {}", self.name);
    }

    /// Its client has a name for it.
    pub fn named(self) {
        if !self.client_name.is_empty() {
            let (name, client_name) = (self.name, self.client_name);
            tracing::info!(target: CONNECTION, pid = self.id.0, "connection {name} has a client-provided name: {client_name}");
        }
    }

    /// It may do what its user may.
    pub fn opened(self) {
        let (user, vhost) = (self.user, self.vhost);
        tracing::info!(
            target: CONNECTION,
            pid = self.id.0,
            "connection {self}: user '{user}' authenticated and granted access to vhost '{vhost}'"
        );
    }

    /// The same over AMQP 1.0.
    pub fn opened_by(self, container: &str, mechanism: &str) {
        let (name, user, vhost) = (self.name, self.user, self.vhost);
        tracing::info!(
            target: CONNECTION,
            pid = self.id.0,
            "Connection from AMQP 1.0 container '{container}': user '{user}' authenticated using SASL mechanism {mechanism} \
             and granted access to vhost '{vhost}' (connection {name})"
        );
    }

    /// It is over, as it should be.
    pub fn closed(self, now: Now) {
        let duration = self.duration(now);
        tracing::info!(
            target: CONNECTION,
            pid = self.id.0,
            "closing AMQP connection ({}, duration: '{duration}')",
            Whole(self)
        );
    }

    /// Its client is gone without a word.
    pub fn lost(self, now: Now) {
        over!(warn, self, now, "client unexpectedly closed TCP connection");
    }

    /// The same before it said anything, as those do that look whether a port is open.
    pub(crate) fn said_nothing(self, now: Now) {
        over!(debug, self, now, "connection_closed_with_no_data_received");
    }

    /// We end it without telling its client, who couldn't hear or understand it.
    pub fn cut(self, why: &str, now: Now) {
        over!(error, self, now, why);
    }

    /// Its client ends it, and says why.
    pub fn closed_with(self, condition: &str, why: &str) {
        let id = self.id.0;
        tracing::warn!(
            target: CONNECTION,
            pid = id,
            detail = %format_args!("{condition}: {why}"),
            "AMQP connection <0.{id}.0> ({}) is closed by its client:",
            Whole(self)
        );
    }

    /// We end it, and tell its client why.
    pub fn failed(self, state: &str, why: &str) {
        let id = self.id.0;
        tracing::error!(
            target: CONNECTION,
            pid = id,
            detail = why,
            "Error on AMQP connection <0.{id}.0> ({}, state: {state}):",
            Whole(self)
        );
    }

    /// Its client came to the wrong port.
    pub(crate) fn foreign(self, why: &str) {
        tracing::warn!(target: CONNECTION, pid = self.id.0, "closing AMQP connection ({}): {why}", Whole(self));
    }

    /// A channel ends.
    pub fn channel_failed(self, channel: u16, why: &str) {
        let id = self.id.0;
        tracing::error!(
            target: CHANNEL,
            pid = id,
            detail = why,
            "Channel error on connection <0.{id}.0> ({}), channel {channel}:",
            Whole(self)
        );
    }

    /// A session of AMQP 1.0 or a link ends, or may not begin.
    pub fn refused(self, what: fmt::Arguments<'_>, condition: &str, why: &str) {
        let id = self.id.0;
        tracing::warn!(
            target: CHANNEL,
            pid = id,
            detail = %format_args!("{condition}: {why}"),
            "{what} on connection <0.{id}.0> ({}):",
            Whole(self)
        );
    }

    /// Somebody logged in.
    pub fn authenticated(self, user: &str) {
        tracing::info!(target: USER, pid = self.id.0, "User '{user}' authenticated successfully");
    }

    /// Somebody tried to, who may have said by what name. The reason is one of `Authenticate`.
    pub fn not_authenticated(self, claimed: Option<&str>, reason: &str) {
        let user = claimed.unwrap_or_default();
        tracing::warn!(target: USER, pid = self.id.0, "User '{user}' failed to authenticate: {reason}");
    }

    /// As RabbitMQ writes it: `12ms`, `7s`, `3M, 7s`, `1D, 0H, 3M, 7s`.
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
