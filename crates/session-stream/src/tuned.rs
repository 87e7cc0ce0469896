//! Limits that a connection and its client have agreed on.

/// The limits of a connection, and the newest frames that its client knows.
pub(crate) struct Tuned {
    frame_max: u32,
    heartbeat_s: u32,
    deliver_version: u16,
}

impl Tuned {
    /// Before the client has said anything, frames have at most `frame_max` bytes.
    pub(crate) fn new(frame_max: u32) -> Self {
        Self { frame_max, heartbeat_s: 0, deliver_version: 1 }
    }

    /// Both sides have agreed on these limits.
    pub(crate) fn tune(&mut self, frame_max: u32, heartbeat_s: u32) {
        (self.frame_max, self.heartbeat_s) = (frame_max, heartbeat_s);
    }

    /// The client knows the second version of `Deliver`.
    pub(crate) fn take_newer_deliveries(&mut self) {
        self.deliver_version = 2;
    }

    /// Largest frame in bytes; 0 is no limit.
    pub(crate) fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Interval of heartbeats in seconds; 0 is off.
    pub(crate) fn heartbeat_s(&self) -> u32 {
        self.heartbeat_s
    }

    /// The version of `Deliver` that the client knows.
    pub(crate) fn deliver_version(&self) -> u16 {
        self.deliver_version
    }
}
