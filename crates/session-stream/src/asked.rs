//! Commands whose stream answers later. Until then the connection takes no further command.

use super::input_hold::InputHold;
use super::questions::{AskedCommand, Looked, Looking};
use super::session::Session;
use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::queue_handle::Ask;

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

    pub(crate) fn looked(&mut self, correlation: u32, looked: Looked) {
        match looked {
            Looked::Offset(kept) => self.offset_found(correlation, kept),
            Looked::Resolve(found) => self.offset_resolved(correlation, found),
            Looked::Stats(status) => self.stats_found(correlation, status),
            Looked::Sequence(found) => self.sequence_found(correlation, found),
        }
    }
}
