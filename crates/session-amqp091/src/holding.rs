//! How input is blocked and unblocked.

use leveret_amqp091::method::connection;
use leveret_amqp091::{Method, ShortStr, encode_method};
use leveret_queue::WaitReason;
use smallvec::SmallVec;

use super::held::InputHold;
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

    /// Notifies the client, once, that an alarm is raised.
    pub(crate) fn tell_blocked(&mut self) {
        if self.negotiated.knows_blocked() && self.alarm.tell() {
            let reason = self.client.broker.alarms.reason();
            let blocked = connection::Blocked { reason: ShortStr::truncated(&reason) };
            encode_method(self.client.output.buffer(), 0, &Method::ConnectionBlocked(blocked));
        }
    }
}
