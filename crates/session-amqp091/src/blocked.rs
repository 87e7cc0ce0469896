//! Resource alarms: a connection that publishes while an alarm is raised isn't read until the last one clears.
//! `connection.blocked` (RabbitMQ's extension of the specification) notifies its client.

use leveret_amqp091::method::connection;
use leveret_amqp091::{Frame, FrameKind, Method, encode_method};
use leveret_queue::WaitReason;

use super::held::InputHold;
use super::session::{Phase, Session};
use leveret_broker::time::Now;

/// Class and method of `basic.publish`, as a method frame begins with them.
const BASIC_PUBLISH: [u8; 4] = [0, 60, 0, 40];

impl Session {
    /// Whether this frame is part of a publish that an alarm blocks.
    pub(crate) fn is_held_by_alarm(&self, frame: &Frame<'_>) -> bool {
        self.alarm.is_raised()
            && self.phase == Phase::Running
            && match frame.kind {
                FrameKind::Method => frame.payload.starts_with(&BASIC_PUBLISH),
                FrameKind::Header | FrameKind::Body => frame.channel != 0,
                FrameKind::Heartbeat => false,
            }
    }

    /// Blocks input from this publish on. The client is notified once.
    pub(crate) fn hold_for_alarm(&mut self, now: Now) {
        self.flush_run(now);
        self.hold_publishes(WaitReason::Alarm, self.published_to(), now);
        self.tell_blocked();
    }

    /// Handles the begin or end of an alarm, which blocks publishing on the whole node.
    pub(crate) fn note_alarm(&mut self) {
        self.alarm.note(self.client.broker.alarms.publishing_blocked());
        if self.alarm.is_raised() {
            // The log may have blocked publishes before the alarm came, since the disk is full.
            if let InputHold::Publishes { .. } = self.held {
                self.tell_blocked();
            }
            return;
        }
        if let InputHold::Publishes { reason: WaitReason::Alarm } = self.held {
            self.end_hold();
        }
        if self.alarm.tell_end() && self.phase == Phase::Running {
            encode_method(self.client.output.buffer(), 0, &Method::ConnectionUnblocked(connection::Unblocked {}));
        }
    }
}
