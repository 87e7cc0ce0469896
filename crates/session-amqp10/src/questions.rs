//! Questions of links to their queues that are answered later.

use leveret_queue::CreditState;
use rustc_hash::FxHashMap;

use leveret_broker::asked::Later;

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
    pub(super) fn take_credit(&mut self, channel: u16, handle: u32) -> Option<(Granting, Option<CreditState>)> {
        let Some(Question::Credit(granting, answer)) = self.0.get(&(channel, handle)) else { return None };
        let taken = (*granting, answer.take()?);
        self.0.remove(&(channel, handle));
        Some(taken)
    }
}
