//! How input is blocked and unblocked.

use leveret_queue::WaitReason;
use smallvec::SmallVec;

use super::held::{Answer, InputHold};
use super::session::Session;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;

impl Session {
    /// Blocks input; listings show it if it waits for a body file.
    pub(crate) fn hold(&mut self, held: InputHold, now: Now) {
        if matches!(held, InputHold::Upload | InputHold::Body) {
            self.client.show_wait(WaitReason::BodyFile, SmallVec::new(), now);
        }
        self.held = held;
    }

    /// Blocks publishes; listings and these queues show it.
    pub(crate) fn hold_publishes(&mut self, reason: WaitReason, queues: SmallVec<[QueueRef; 2]>, now: Now) {
        self.client.show_wait(reason, queues, now);
        self.held = InputHold::Publishes { reason };
    }

    /// Unblocks input; queues that showed the wait no longer do.
    pub(crate) fn end_hold(&mut self) -> InputHold {
        self.client.hide_wait();
        std::mem::take(&mut self.held)
    }

    /// Drops the pending answer on a channel that the broker closes: earlier requests of the client aren't answered any
    /// more. Input is still only unblocked when the change that it waits for is durable.
    pub(crate) fn withhold_answer(&mut self, number: u16, now: Now) {
        self.abandon_question(number, now);
        if let InputHold::Durable { answer, .. } = &mut self.held
            && answer.channel() == Some(number)
        {
            *answer = Answer::Nothing;
        }
    }
}
