//! Links whose queue answers later: a frame that names such a link waits for the answer, and other links go on.

use leveret_queue::CreditState;
use rustc_hash::FxHashMap;

use super::connection::Connection;
use super::held::InputHold;
use super::link::Link;
use leveret_broker::asked::Later;
use leveret_broker::time::Now;

/// The question of a link.
pub(crate) enum Question {
    /// The state of a consumer's link after a flow. Until it is there the queue goes by the grant before.
    Credit(Granting, Later<Option<CreditState>>),
    /// The response to a management request waits for a queue.
    Request,
}

/// A receiver's flow that a queue hasn't seen yet.
#[derive(Clone, Copy)]
pub(crate) struct Granting {
    /// Its delivery-count and link-credit.
    pub credit: (u32, u32),
    pub drain: bool,
    pub echo: bool,
}

/// Questions by channel and handle of their link.
#[derive(Default)]
pub(crate) struct Questions(FxHashMap<(u16, u32), Question>);

impl Questions {
    /// Notes the question of a link.
    pub(crate) fn ask(&mut self, channel: u16, handle: u32, question: Question) {
        self.0.insert((channel, handle), question);
    }

    /// Whether a frame that names this link has to wait.
    #[inline]
    pub(crate) fn hold(&self, channel: u16, handle: u32) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(channel, handle))
    }

    /// Forgets the question of a link that ends.
    pub(crate) fn forget(&mut self, channel: u16, handle: u32) {
        if !self.0.is_empty() {
            self.0.remove(&(channel, handle));
        }
    }

    /// Forgets a management request that its queue has answered.
    pub(crate) fn forget_request(&mut self, channel: u16, handle: u32) {
        if let Some(Question::Request) = self.0.get(&(channel, handle)) {
            self.0.remove(&(channel, handle));
        }
    }

    /// The flow and the state of a link, if its question was about that and is answered.
    fn take_credit(&mut self, channel: u16, handle: u32) -> Option<(Granting, Option<CreditState>)> {
        let Some(Question::Credit(granting, answer)) = self.0.get(&(channel, handle)) else { return None };
        let taken = (*granting, answer.take()?);
        self.0.remove(&(channel, handle));
        Some(taken)
    }
}

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
