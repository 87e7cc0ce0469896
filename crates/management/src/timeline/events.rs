//! Events of a node that explain why its numbers changed.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Most events; the oldest go first.
const EVENTS_MAX: usize = 1000;
/// Longest text of an event, in bytes.
const TEXT_BYTES_MAX: usize = 512;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimelineEvent {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    /// `node_started`, `node_stopped`, `alarm_raised`, `alarm_cleared`, `policy_set`, `policy_deleted`, `mass_disconnect` or
    /// `clock_set`.
    pub(crate) kind: String,
    /// The object, such as the resource of an alarm.
    pub(crate) what: String,
}

impl TimelineEvent {
    pub(crate) fn new(at: u64, kind: &str, what: impl Into<String>) -> Self {
        let mut what = what.into();
        let end = (0..=TEXT_BYTES_MAX.min(what.len())).rev().find(|end| what.is_char_boundary(*end));
        what.truncate(end.unwrap_or(0));
        Self { at, kind: kind.to_owned(), what }
    }
}

/// The last events, oldest first.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<TimelineEvent>);

impl Events {
    pub(super) fn add(&mut self, event: TimelineEvent) {
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    pub(super) fn within(&self, range: RangeInclusive<u64>) -> Vec<TimelineEvent> {
        self.0.iter().filter(|event| range.contains(&event.at)).cloned().collect()
    }

    /// Puts events of an earlier time before the others.
    pub(super) fn put_before(&mut self, earlier: Vec<TimelineEvent>) {
        let later = std::mem::take(&mut self.0);
        earlier.into_iter().chain(later).for_each(|event| self.add(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_go_first() {
        let mut events = Events::default();
        (0..=EVENTS_MAX as u64).for_each(|at| events.add(TimelineEvent::new(at, "node_started", "x")));
        let seen = events.within(0..=5);
        assert_eq!(seen.iter().map(|event| event.at).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(events.0.len(), EVENTS_MAX);
        assert_eq!(TimelineEvent::new(0, "policy_set", "ä".repeat(400)).what.len(), TEXT_BYTES_MAX);
    }
}
