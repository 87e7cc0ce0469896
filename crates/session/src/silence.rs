//! The times of a connection: how long either side has been silent, and may be, and the deadline that the client has to keep.

use leveret_broker::time::{Nanos, Now, SECOND};

/// Time between two heartbeats to a client whose input waits, if it wants none or rarer ones. The end of a peer that left stands behind
/// its unread input, which may fill the socket's buffers: then only an answer to something that we send shows that it is gone.
pub const PROBE_EVERY: Nanos = 10 * SECOND;

/// The silence of both sides of a connection, and the deadline of its client. All times are monotonic, in nanoseconds.
pub struct Silence {
    last_input: Nanos,
    last_output: Nanos,
    /// The client is silent for at most so long; 0 is any time.
    input_every: Nanos,
    /// We are silent for at most so long; 0 is any time.
    output_every: Nanos,
    deadline: Option<Nanos>,
    /// The time since when its input isn't read.
    unread_since: Option<Nanos>,
}

impl Silence {
    /// The times of a connection that was accepted now, and has to be open by this deadline.
    pub(crate) fn new(now: Now, deadline: Nanos) -> Self {
        let now = now.monotonic;
        let deadline = Some(deadline);
        Self { last_input: now, last_output: now, input_every: 0, output_every: 0, deadline, unread_since: None }
    }

    /// The client sent something, or wasn't to blame for its silence until now.
    #[inline]
    pub fn heard(&mut self, now: Now) {
        self.last_input = now.monotonic;
    }

    /// Something is sent to the client.
    #[inline]
    pub(crate) fn sent(&mut self, now: Now) {
        self.last_output = now.monotonic;
    }

    /// From now on the client may be silent for `input_every` nanoseconds, and we for `output_every`; 0 is any time.
    pub fn agree(&mut self, input_every: Nanos, output_every: Nanos, now: Now) {
        (self.input_every, self.output_every) = (input_every, output_every);
        (self.last_input, self.last_output) = (now.monotonic, now.monotonic);
    }

    /// How long the client may be silent, in nanoseconds; 0 is any time.
    pub fn input_every(&self) -> Nanos {
        self.input_every
    }

    /// The end of the handshake, the answer to our close, or whatever else the client owes, is due at this time; nothing is due without one.
    pub fn expect_by(&mut self, deadline: Option<Nanos>) {
        self.deadline = deadline;
    }

    /// Nothing is due from the client any more: it has opened its connection.
    pub fn opened(&mut self, now: Now) {
        self.deadline = None;
        self.heard(now);
    }

    /// The time at which the client's next answer is due.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// The time at which the client has been silent for too long, if that counts.
    #[inline]
    pub(crate) fn input_due(&self) -> Option<Nanos> {
        (self.input_every > 0).then(|| self.last_input + self.input_every)
    }

    /// The time at which we have been silent for too long, if that counts.
    #[inline]
    pub(crate) fn output_due(&self) -> Option<Nanos> {
        (self.output_every > 0).then(|| self.last_output + self.output_every)
    }

    /// The time at which a client whose input isn't read is sent something, to learn whether it is gone.
    #[inline]
    pub(crate) fn probe_due(&self) -> Option<Nanos> {
        self.unread_since.map(|since| since.max(self.last_output) + PROBE_EVERY)
    }

    /// Notes whether the client's input is read from now on.
    #[inline]
    pub(crate) fn note_read(&mut self, is_read: bool, now: Now) {
        match is_read {
            true => self.unread_since = None,
            false => _ = self.unread_since.get_or_insert(now.monotonic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic: Nanos) -> Now {
        Now { monotonic, wall_ms: 0 }
    }

    #[test]
    fn silence_counts_once_it_is_agreed_on_and_from_then_on() {
        let mut silence = Silence::new(at(5), 100);
        assert_eq!((silence.input_due(), silence.output_due(), silence.deadline()), (None, None, Some(100)));
        silence.agree(10, 4, at(20));
        assert_eq!((silence.input_due(), silence.output_due()), (Some(30), Some(24)));
        silence.heard(at(22));
        silence.sent(at(23));
        assert_eq!((silence.input_due(), silence.output_due()), (Some(32), Some(27)));
        silence.opened(at(25));
        assert_eq!((silence.input_due(), silence.deadline()), (Some(35), None));
    }

    #[test]
    fn a_client_is_probed_from_when_its_input_is_not_read() {
        let mut silence = Silence::new(at(5), 100);
        assert_eq!(silence.probe_due(), None);
        silence.note_read(false, at(7));
        silence.note_read(false, at(9));
        assert_eq!(silence.probe_due(), Some(7 + PROBE_EVERY));
        silence.sent(at(11));
        assert_eq!(silence.probe_due(), Some(11 + PROBE_EVERY));
        silence.note_read(true, at(12));
        assert_eq!(silence.probe_due(), None);
    }
}
