//! Blocked input: the connection isn't read until the event that it waits for.

use leveret_broker::time::Now;
use leveret_queue::WaitReason;
use leveret_session::driven::Steps as _;
use smallvec::SmallVec;

use super::input_hold::MqttHold;
use super::session::Session;

impl Session {
    /// Goes on with what waited for the disk, if it has been reached.
    pub(crate) fn end_reached_hold(&mut self, now: Now) {
        match &self.held {
            MqttHold::Durable(waiting) if self.client.broker.streams.have(&waiting.0) => {
                let MqttHold::Durable(waiting) = std::mem::take(&mut self.held) else { return };
                self.client.broker.registry.publish();
                self.client.last_input = now.monotonic;
                self.proceed(waiting.1, now);
            }
            MqttHold::Publishes(WaitReason::LogFull | WaitReason::DiskFull) if !self.publishes_wait() => {
                self.end_hold();
            }
            MqttHold::Body if !self.run_is_pending() => {
                self.end_hold();
                self.flush_in_parts(now);
            }
            _ => {}
        }
    }

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
