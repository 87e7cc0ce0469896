//! Input that waits for the disk, and goes on.

use leveret_amqp091::ReplyCode;

use super::error::ProtocolError;
use super::held::{Answer, InputHold};
use super::session::Session;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitEnd;
use leveret_session::commit::PartialReason;
use leveret_session::driven::Steps;

impl Session {
    /// Answers, or unblocks input, if what it waits for has been reached.
    pub(crate) fn end_reached_hold(&mut self, now: Now) {
        match &self.held {
            InputHold::Durable { wait, .. } if let Some(end) = wait.end(&self.client.applied()) => {
                let InputHold::Durable { answer, .. } = std::mem::take(&mut self.held) else { return };
                self.answer_at_end(answer, &end, now);
                self.end_consumers_after_answer(now);
            }
            InputHold::Publishes { reason } if reason.is_for_room() && !self.publishes_wait() => {
                self.end_hold();
            }
            InputHold::Upload if self.client.unwritten.is_low() => {
                self.end_hold();
            }
            InputHold::Body if !self.run.is_pending() => {
                self.end_hold();
                self.flush_in_parts(now);
            }
            _ => {}
        }
    }

    /// Answers when its wait is over.
    fn answer_at_end(&mut self, answer: Answer, end: &WaitEnd, now: Now) {
        match (answer, PartialReason::of(end)) {
            (answer, None) => {
                self.client.broker.registry.publish();
                self.answer(answer);
            }
            (Answer::TxCommitOk { channel }, Some(reason)) => self.commit_is_partial(channel, reason, now),
            // The log left that it waited for. Without an answer the client would wait for ever, and a wrong one would be worse.
            (_, Some(_)) => self.fail(0, ProtocolError::new(ReplyCode::InternalError, WaitEnd::GONE_TEXT), now),
        }
    }
}
