//! The state of a connection, as listings show it.

use leveret_queue::QueueWait;

/// RabbitMQ's states of an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Its input is read.
    Running,
    /// An alarm is raised; the connection is blocked as soon as it publishes.
    Blocking,
    /// It published while an alarm was raised and isn't read until the last one clears.
    Blocked,
    /// It isn't read until its publishes have reached the disk.
    Flow,
}

impl ConnectionState {
    /// RabbitMQ's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Blocking => "blocking",
            Self::Blocked => "blocked",
            Self::Flow => "flow",
        }
    }
}

/// A connection's state, and the reason why its input waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The state.
    pub state: ConnectionState,
    /// The reason why its input waits, and since when.
    pub wait: Option<QueueWait>,
}

impl ConnectionStatus {
    /// The state of a connection whose input waits for this reason, or doesn't wait.
    pub fn new(wait: Option<QueueWait>, publishing_blocked: bool) -> Self {
        use leveret_queue::WaitReason::{Alarm, DiskFull};
        let state = match wait {
            Some(QueueWait { reason: Alarm | DiskFull, .. }) => ConnectionState::Blocked,
            _ if publishing_blocked => ConnectionState::Blocking,
            Some(_) => ConnectionState::Flow,
            None => ConnectionState::Running,
        };
        Self { state, wait }
    }
}

#[cfg(test)]
mod tests {
    use leveret_queue::WaitReason;

    use super::*;

    #[test]
    fn states_are_rabbitmqs() {
        let state = |reason: Option<WaitReason>, alarm| {
            ConnectionStatus::new(reason.map(|reason| QueueWait { reason, since: 1 }), alarm).state.name()
        };
        assert_eq!(state(None, false), "running");
        assert_eq!(state(None, true), "blocking");
        assert_eq!(state(Some(WaitReason::Alarm), true), "blocked");
        assert_eq!(state(Some(WaitReason::DiskFull), false), "blocked");
        assert_eq!(state(Some(WaitReason::LogFull), false), "flow");
    }
}
