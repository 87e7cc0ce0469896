//! Resource alarms: while one is raised, publishing is blocked; consumers and everything else continue.
//!
//! The node measures resources and sets alarms ([`crate::Broker::set_alarm`]). Each source is raised and cleared on its own,
//! and publishing continues when none is left. In a cluster, alarms of other nodes may block as well
//! ([`crate::Broker::set_alarms_elsewhere`]). Every connection is notified through its outbox
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
    /// Alarms of other nodes that block publishers of this one.
    elsewhere: AtomicU8,
}

impl Alarms {
    /// Whether publishing is blocked.
    pub fn publishing_blocked(&self) -> bool {
        self.blocking_bits() != 0
    }

    /// Whether this source's alarm blocks publishers, whichever node it is raised on.
    pub fn blocks(&self, source: AlarmSource) -> bool {
        self.blocking_bits() & source.bit() != 0
    }

    /// The alarms that block publishers, whichever node they are raised on.
    pub fn blocking(&self) -> impl Iterator<Item = AlarmSource> {
        let bits = self.blocking_bits();
        AlarmSource::ALL.into_iter().filter(move |source| bits & source.bit() != 0)
    }

    fn blocking_bits(&self) -> u8 {
        self.raised.load(Ordering::SeqCst) | self.elsewhere.load(Ordering::SeqCst)
    }

    /// Whether this source's alarm is raised on this node.
    pub fn is_raised(&self, source: AlarmSource) -> bool {
        self.raised.load(Ordering::SeqCst) & source.bit() != 0
    }

    /// The alarms that are raised on this node.
    pub fn raised(&self) -> impl Iterator<Item = AlarmSource> {
        let raised = self.raised.load(Ordering::SeqCst);
        AlarmSource::ALL.into_iter().filter(move |source| raised & source.bit() != 0)
    }

    /// The reason why publishers wait, in RabbitMQ's words, such as `low on disk & memory`.
    pub fn reason(&self) -> String {
        let names: Vec<&str> = self.blocking().map(AlarmSource::name).collect();
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

    /// Sets the alarms of other nodes that block publishers of this one. Returns whether they were others before.
    pub(crate) fn set_elsewhere(&self, raised: impl Fn(AlarmSource) -> bool) -> bool {
        let raised = AlarmSource::ALL.into_iter().filter(|source| raised(*source));
        let bits = raised.fold(0, |bits, source| bits | source.bit());
        self.elsewhere.swap(bits, Ordering::SeqCst) != bits
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

    #[test]
    fn alarms_elsewhere_block_and_are_not_this_nodes() {
        let alarms = Alarms::default();
        assert!(alarms.set_elsewhere(|source| source == AlarmSource::Memory));
        assert!(!alarms.set_elsewhere(|source| source == AlarmSource::Memory));
        assert!(alarms.publishing_blocked() && alarms.blocks(AlarmSource::Memory) && !alarms.blocks(AlarmSource::Disk));
        assert!(!alarms.is_raised(AlarmSource::Memory) && alarms.raised().next().is_none());
        assert_eq!(alarms.reason(), "low on memory");
        assert!(alarms.set_elsewhere(|_| false) && !alarms.publishing_blocked());
    }
}
