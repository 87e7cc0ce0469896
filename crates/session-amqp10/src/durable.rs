//! Input that waits for the disk, and goes on.

use super::connection::Connection;
use super::held::InputHold;
use super::link::Link;
use leveret_broker::time::Now;
use leveret_session::driven::Steps;

impl Connection {
    /// Unblocks input if what it waits for has been reached.
    pub(crate) fn end_reached_hold(&mut self, now: Now) {
        let goes_on = match self.held {
            InputHold::Again { ticket } => match self.going.ticket() {
                Some(gone_at) => {
                    // An answer may be there before its signal.
                    let ticket = ticket.or_later(gone_at);
                    self.held = InputHold::Again { ticket };
                    self.client.broker.streams.is_durable(ticket)
                }
                None => false,
            },
            InputHold::LogRoom => !self.publishes_wait(),
            InputHold::Upload => self.client.unwritten.is_low(),
            InputHold::Body { channel, handle } => self.body_is_written(channel, handle, now),
            InputHold::Asked { channel, handle } => !self.questions.hold(channel, handle),
            InputHold::Removal => !self.is_removing(),
            InputHold::No | InputHold::NextTurn | InputHold::Change => false,
        };
        if goes_on {
            self.client.broker.registry.publish();
            self.held = InputHold::No;
            // The broker didn't read, so the client isn't to blame for the silence.
            self.client.silence.heard(now);
        }
    }

    /// Hands a large message to its queues when its body file is written. If its link is gone, the message is dropped.
    fn body_is_written(&mut self, channel: u16, handle: u32, now: Now) -> bool {
        let Some(mut session) = self.sessions.take(channel) else { return true };
        let is_pending =
            matches!(session.link(handle), Some(Link::Publisher(publisher)) if publisher.run().is_pending());
        if !is_pending {
            self.flush_link(&mut session, handle, Self::flush_run_in_parts, now);
        }
        self.sessions.put(session);
        !is_pending
    }
}
