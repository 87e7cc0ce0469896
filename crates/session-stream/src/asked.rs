//! Commands whose stream, or the control plane, answers later. Until then the connection takes no further command.

use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::queue_handle::Ask;
use leveret_broker::time::Now;

use super::held::InputHold;
use super::questions::{AskedCommand, Looked, Looking};
use super::session::Session;

impl Session {
    /// Answers a command with what a stream says, once it is there.
    pub(crate) fn look<Q: Ask>(
        &mut self,
        correlation: u32,
        asked: NowOrLater<Q::Answer>,
        now_is: fn(Q::Answer) -> Looked,
        later_is: fn(Later<Q::Answer>) -> Looking,
    ) {
        match asked {
            NowOrLater::Now(answer) => self.looked(correlation, now_is(answer)),
            NowOrLater::Later(answer) => {
                answer.notify(self.client.outbox.clone(), 0);
                self.held = InputHold::Asked(Box::new(AskedCommand::Look { correlation, looking: later_is(answer) }));
            }
        }
    }

    /// Goes on with the command whose answer has come.
    pub(crate) fn take_answer(&mut self, now: Now) {
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

    fn looked(&mut self, correlation: u32, looked: Looked) {
        match looked {
            Looked::Offset(kept) => self.offset_found(correlation, kept),
            Looked::Resolve(found) => self.offset_resolved(correlation, found),
            Looked::Stats(status) => self.stats_found(correlation, status),
            Looked::Sequence(found) => self.sequence_found(correlation, found),
        }
    }

    /// Ends the wait of a connection that ends.
    pub(crate) fn abandon(&mut self, asked: AskedCommand, now: Now) {
        if let AskedCommand::Subscribe { subscribing, .. } = asked {
            // It comes behind the call that adds the consumer.
            let _left = subscribing.queue.cancel(subscribing.consumer, now.monotonic);
            self.not_subscribed();
        }
        // A change is made and published all the same.
    }
}
