//! Blocking and unblocking input.

use leveret_queue::WaitReason;
use leveret_stream_protocol::{ResponseCode, answers};
use smallvec::SmallVec;

use super::input_hold::{DurableAnswer, InputHold};
use super::session::Session;
use leveret_broker::alarms::AlarmSource;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_session::driven::Steps as _;

impl Session {
    /// Answers now, or blocks input until what the answer tells is durable.
    pub(crate) fn answer_when_durable(&mut self, wait: impl Into<WaitFor>, answer: DurableAnswer) {
        let wait = wait.into();
        match self.client.broker.streams.end(&wait) {
            Some(end) => self.answer_at_end(answer, end.is_reached()),
            None => self.held = InputHold::Durable { wait, answer },
        }
    }

    /// Answers when its wait is over.
    fn answer_at_end(&mut self, answer: DurableAnswer, is_reached: bool) {
        match (is_reached, answer) {
            (true, answer) => {
                self.client.broker.registry.publish();
                self.answer(answer);
            }
            (false, DurableAnswer::Changed { key, correlation, .. }) => {
                self.respond(key, correlation, ResponseCode::InternalError);
            }
            (false, DurableAnswer::Sequence { correlation, .. }) => {
                let code = ResponseCode::StreamNotAvailable;
                answers::sequence(self.client.output.buffer(), correlation, code, 0);
            }
        }
    }

    fn answer(&mut self, answer: DurableAnswer) {
        match answer {
            DurableAnswer::Changed { key, correlation, deleted } => {
                self.respond(key, correlation, ResponseCode::Ok);
                for stream in deleted {
                    self.end_of_stream(&stream, ResponseCode::StreamNotAvailable);
                }
            }
            DurableAnswer::Sequence { correlation, sequence } => {
                answers::sequence(self.client.output.buffer(), correlation, ResponseCode::Ok, sequence);
            }
        }
    }

    /// Answers, or unblocks input, if what it waits for has been reached.
    pub(crate) fn end_reached_hold(&mut self) {
        match &self.held {
            InputHold::Durable { wait, .. } if let Some(end) = self.client.broker.streams.end(wait) => {
                let InputHold::Durable { answer, .. } = std::mem::take(&mut self.held) else { return };
                self.answer_at_end(answer, end.is_reached());
            }
            InputHold::Publishes { reason } if reason.is_for_room() && !self.publishes_wait() => {
                self.end_hold();
            }
            _ => {}
        }
    }

    /// Blocks publishes; listings and these streams show it.
    pub(crate) fn hold_publishes(&mut self, reason: WaitReason, streams: SmallVec<[QueueRef; 2]>, now: Now) {
        self.client.show_wait(reason, streams, now);
        self.held = InputHold::Publishes { reason };
    }

    /// Unblocks input; streams that showed the wait no longer do.
    pub(crate) fn end_hold(&mut self) -> InputHold {
        self.client.hide_wait();
        std::mem::take(&mut self.held)
    }

    /// Handles the begin or end of an alarm. Only that of the disk blocks publishers of this protocol, as in RabbitMQ: what they send
    /// goes to the disk, and is in memory for a moment.
    pub(crate) fn note_alarm(&mut self) {
        self.alarm = self.client.broker.alarms.blocks(AlarmSource::Disk);
        if !self.alarm && matches!(self.held, InputHold::Publishes { reason: WaitReason::Alarm }) {
            self.end_hold();
        }
    }
}
