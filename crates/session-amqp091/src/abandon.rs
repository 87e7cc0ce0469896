//! Channels that end while they wait for a late answer.

use super::held::InputHold;
use super::questions::{Getting, Question, Questions};
use super::session::Session;
use leveret_broker::time::Now;

impl Session {
    /// Ends the wait of a channel that ends, without an answer to its client.
    pub(super) fn abandon_question(&mut self, channel: u16, now: Now) {
        let Some(question) = self.questions.take(channel) else { return };
        if matches!(self.held, InputHold::Asked) {
            self.held = InputHold::No;
        }
        match question {
            Question::Get { queue, no_ack, state: Getting::Asked { answer, .. } } => {
                queue.give_back(answer, no_ack, now.monotonic);
            }
            Question::Consume { consuming, .. } => {
                // It comes behind the call that adds the consumer.
                let left = consuming.queue.cancel(consuming.id, now.monotonic);
                self.client.delete_if_unused(&consuming.queue, left, now);
                self.not_consumed();
            }
            // A change is made and published all the same.
            Question::Declare { .. } | Question::Change { .. } => {}
            Question::Get { .. } | Question::Purge { .. } | Question::End { .. } => {}
        }
    }

    /// Ends the waits of all channels.
    pub(super) fn abandon_questions(&mut self, now: Now) {
        for channel in self.questions.channels() {
            self.abandon_question(channel, now);
        }
        self.questions = Questions::default();
    }
}
