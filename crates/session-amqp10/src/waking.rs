//! Sessions whose parked consumers are being woken.

use leveret_broker::turn_budget::{WOKEN_FIRST, WOKEN_MAX};

/// A session whose parked consumers are being woken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waking {
    channel: u16,
    /// Number of consumers that are woken next.
    next: usize,
    /// Number of consumers that haven't been woken yet.
    left: usize,
}

impl Waking {
    fn first(channel: u16, left: usize) -> Self {
        Self { channel, next: WOKEN_FIRST, left }
    }

    /// The session's channel.
    pub(super) fn channel(&self) -> u16 {
        self.channel
    }

    /// Number of consumers that are woken now, of so many that are parked.
    pub(super) fn count(&self, parked: usize) -> usize {
        self.next.min(self.left).min(parked)
    }
}

/// The sessions whose parked consumers are being woken, each once.
#[derive(Default)]
pub(crate) struct WakingSessions {
    all: Vec<Waking>,
}

impl WakingSessions {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// There is room for so many parked consumers of this session. Returns those that are woken now; none if some are being woken:
    /// consumers that were woken and are parked again stand behind the others.
    pub(super) fn begin(&mut self, channel: u16, parked: usize) -> Option<Waking> {
        match self.all.iter_mut().find(|waking| waking.channel == channel) {
            Some(waking) => {
                waking.left = parked;
                None
            }
            None => Some(Waking::first(channel, parked)),
        }
    }

    /// So many of a session's consumers were woken, and so many are parked. If some weren't woken yet, twice as many are next.
    pub(super) fn woken(&mut self, waking: Waking, count: usize, parked: usize) {
        let left = waking.left - count;
        if left > 0 && parked > 0 {
            self.all.push(Waking { next: WOKEN_MAX.min(2 * count), left, ..waking });
        }
    }

    /// So many consumers of this session are parked, and are woken in the next turn.
    pub(super) fn later(&mut self, channel: u16, parked: usize) {
        if parked > 0 && self.all.iter().all(|waking| waking.channel != channel) {
            self.all.push(Waking::first(channel, parked));
        }
    }

    /// Takes out all of them.
    pub(super) fn take(&mut self) -> Vec<Waking> {
        std::mem::take(&mut self.all)
    }
}
