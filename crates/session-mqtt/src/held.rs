//! Blocking and unblocking input.

use leveret_queue::WaitReason;
use smallvec::SmallVec;

use super::input_hold::MqttHold;
use super::session::Session;
use leveret_broker::time::Now;

impl Session {
    /// Blocks publishes; listings show it.
    pub(crate) fn hold_publishes(&mut self, now: Now) {
        let reason = if self.alarm { WaitReason::Alarm } else { self.client.log_wait().0 };
        let queues: SmallVec<_> = self.published_to();
        self.client.show_wait(reason, queues, now);
        self.held = MqttHold::Publishes(reason);
    }

    /// Unblocks input.
    pub(crate) fn end_hold(&mut self) -> MqttHold {
        self.client.hide_wait();
        std::mem::take(&mut self.held)
    }

    /// Handles the begin or end of an alarm.
    pub(crate) fn note_alarm(&mut self) {
        self.alarm = self.client.broker.alarms.publishing_blocked();
        if !self.alarm && matches!(self.held, MqttHold::Publishes(WaitReason::Alarm)) {
            self.end_hold();
        }
    }
}
