//! Resource alarms: while one is raised, publishing is blocked; consumers and everything else continue.
//!
//! The node measures resources and sets alarms ([`crate::Broker::set_alarm`]). Each source is raised and cleared on its own,
//! and publishing continues when none is left. Every connection is notified through its outbox
//! ([`crate::outbox::Event::Alarm`]) and checks [`Alarms::publishing_blocked`].

use std::sync::atomic::{AtomicU8, Ordering};

/// The scarce resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmSource {
    /// Free space on the file system of the data directory.
    Disk,
    /// Memory of the process.
    Memory,
}

impl AlarmSource {
    /// Every source, in the order in which they are named.
    pub const ALL: [Self; 2] = [Self::Disk, Self::Memory];

    /// RabbitMQ's word for it in logs and in the reason of `connection.blocked`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }

    /// RabbitMQ's word for it in health checks.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Disk => "disk space",
            Self::Memory => "memory",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Disk => 1,
            Self::Memory => 2,
        }
    }
}

/// The alarms that are raised.
#[derive(Debug, Default)]
pub struct Alarms {
    raised: AtomicU8,
}

impl Alarms {
    /// Whether publishing is blocked.
    pub fn publishing_blocked(&self) -> bool {
        self.raised.load(Ordering::SeqCst) != 0
    }

    /// Whether this source's alarm is raised.
    pub fn is_raised(&self, source: AlarmSource) -> bool {
        self.raised.load(Ordering::SeqCst) & source.bit() != 0
    }

    /// The raised alarms.
    pub fn raised(&self) -> impl Iterator<Item = AlarmSource> {
        let raised = self.raised.load(Ordering::SeqCst);
        AlarmSource::ALL.into_iter().filter(move |source| raised & source.bit() != 0)
    }

    /// The reason why publishers wait, in RabbitMQ's words, such as `low on disk & memory`.
    pub fn reason(&self) -> String {
        let names: Vec<&str> = self.raised().map(AlarmSource::name).collect();
        format!("low on {}", names.join(" & "))
    }

    /// Sets the state of a source. Returns whether it wasn't in this state before.
    pub(crate) fn set(&self, source: AlarmSource, raised: bool) -> bool {
        let before = match raised {
            true => self.raised.fetch_or(source.bit(), Ordering::SeqCst),
            false => self.raised.fetch_and(!source.bit(), Ordering::SeqCst),
        };
        (before & source.bit() != 0) != raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_continues_when_the_last_alarm_clears() {
        let alarms = Alarms::default();
        assert!(!alarms.publishing_blocked());
        assert!(alarms.set(AlarmSource::Memory, true));
        assert!(!alarms.set(AlarmSource::Memory, true));
        assert_eq!(alarms.reason(), "low on memory");
        assert!(alarms.set(AlarmSource::Disk, true));
        assert_eq!(alarms.reason(), "low on disk & memory");
        assert!(alarms.set(AlarmSource::Memory, false));
        assert!(alarms.publishing_blocked() && !alarms.is_raised(AlarmSource::Memory));
        assert!(alarms.set(AlarmSource::Disk, false));
        assert!(!alarms.publishing_blocked());
    }
}
