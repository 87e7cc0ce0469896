//! Answers of streams and of the control plane that come later, and other signals.

use leveret_queue::Signal;

use super::input_hold::InputHold;
use super::questions::AskedCommand;
use super::session::{Session, StreamPhase};
use leveret_broker::time::Now;

impl Session {
    /// Handles a signal that waits for no answer.
    pub(crate) fn signalled(&mut self, signal: Signal, now: Now) {
        match signal {
            Signal::Scheduled(key) => self.client.turns.schedule(key),
            Signal::Cancelled(key) => {
                if self.phase == StreamPhase::Open {
                    self.stream_gone(key);
                }
            }
            Signal::Activity { key, active, change, .. } => {
                if self.phase == StreamPhase::Open {
                    self.activity(key, active, change, now);
                }
            }
            Signal::Answered(_) if self.phase == StreamPhase::Open => self.take_answer(now),
            // Nothing of this protocol asks for the others.
            Signal::Answered(_) | Signal::Loaded(_) | Signal::Drained { .. } => {}
        }
    }

    /// Goes on with the command whose answer has come.
    fn take_answer(&mut self, now: Now) {
        let asked = match std::mem::take(&mut self.held) {
            InputHold::Asked(asked) => asked,
            // The answer isn't wanted any more.
            other => return self.held = other,
        };
        match *asked {
            AskedCommand::Change { change, changing } => self.take_change(change, changing, now),
            AskedCommand::Subscribe { answer, subscribing, early } => match answer.take() {
                Some(added) => {
                    self.subscribed(*subscribing, added, now);
                    early.into_signals().into_iter().for_each(|signal| self.signalled(signal, now));
                }
                None => self.held = InputHold::Asked(Box::new(AskedCommand::Subscribe { answer, subscribing, early })),
            },
            AskedCommand::Look { correlation, looking } => match looking.take() {
                Some(looked) => self.looked(correlation, looked),
                None => self.held = InputHold::Asked(Box::new(AskedCommand::Look { correlation, looking })),
            },
        }
    }
}
