//! Signals to a consumer whose queue hasn't said yet that it has it.

use leveret_queue::Signal;

/// A consumer whose queue answers later, and what it was signalled since. The signals come before the answer, but a client knows
/// nothing of its consumer before that: they are handled behind it.
#[derive(Debug)]
pub struct EarlySignals {
    key: u64,
    signals: Vec<Signal>,
}

impl EarlySignals {
    /// None so far, to the consumer with this key.
    pub fn new(key: u64) -> Self {
        Self { key, signals: Vec::new() }
    }

    /// Keeps a signal to this consumer. False if it is one to another.
    pub fn keep(&mut self, signal: Signal) -> bool {
        let (Signal::Scheduled(key)
        | Signal::Cancelled(key)
        | Signal::Activity { key, .. }
        | Signal::Drained { key, .. }) = signal
        else {
            return false;
        };
        let is_its_own = key == self.key;
        if is_its_own {
            self.signals.push(signal);
        }
        is_its_own
    }

    /// The signals that were kept, in their order.
    pub fn into_signals(self) -> Vec<Signal> {
        self.signals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_one_consumer_are_kept_in_order() {
        let mut early = EarlySignals::new(7);
        assert!(early.keep(Signal::Scheduled(7)));
        assert!(!early.keep(Signal::Scheduled(8)), "another consumer goes on");
        assert!(!early.keep(Signal::Answered(7)), "keys of questions are others");
        assert!(early.keep(Signal::Cancelled(7)));
        assert_eq!(early.into_signals(), [Signal::Scheduled(7), Signal::Cancelled(7)]);
    }
}
