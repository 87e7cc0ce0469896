//! Links whose queue answers later: a frame that names such a link waits for the answer, and other links go on.

use super::connection::Connection;
use super::held::InputHold;
use super::link::Link;
use super::questions::Granting;
use leveret_broker::time::Now;

impl Connection {
    /// Handles answers that came for the link with this key, for management requests or for links that ended.
    pub(crate) fn answered(&mut self, key: u64, now: Now) {
        if let Some(&(channel, handle)) = self.links.get(&key)
            && let Some((Granting { credit: (seen, credit), drain, echo }, state)) =
                self.questions.take_credit(channel, handle)
            && let Some(mut session) = self.sessions.take(channel)
        {
            if let Some(Link::Consumer(consumer)) = session.link(handle) {
                consumer.granted(seen, credit);
            }
            self.granted(&mut session, handle, drain, echo, state);
            self.sessions.put(session);
        }
        self.take_request_answers(now);
        match &mut self.held {
            InputHold::Again { ticket } => {
                if let Some(gone_at) = self.going.ticket() {
                    *ticket = ticket.or_later(gone_at);
                }
            }
            held @ InputHold::Change => *held = InputHold::NextTurn,
            _ => {}
        }
    }
}
