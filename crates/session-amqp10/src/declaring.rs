//! A queue that is being declared for the attach at the head of the input.

use std::sync::Arc;

use leveret_broker::asked::Later;
use leveret_broker::registry::ChangeOutcome;
use leveret_broker::ticket::Ticket;

/// The queue that the attach at the head of the input needs, on its way.
pub(crate) struct Declaring {
    /// Channel and handle of the link that is to be attached.
    link: (u16, u32),
    name: Arc<str>,
    declared: Step,
    /// The binding, if it has one.
    bound: Step,
}

/// A change that an attach needs.
pub(super) enum Step {
    Unasked,
    Asked(Later<ChangeOutcome>),
    /// It is durable with this ticket.
    Made(Ticket),
}

impl Declaring {
    pub(super) fn new(link: (u16, u32), name: Arc<str>) -> Self {
        Self { link, name, declared: Step::Unasked, bound: Step::Unasked }
    }

    /// Channel and handle of the link that is to be attached.
    pub(super) fn link(&self) -> (u16, u32) {
        self.link
    }

    /// The queue's name.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The declaration of the queue.
    pub(super) fn declared(&mut self) -> &mut Step {
        &mut self.declared
    }

    /// The binding of the queue, if it has one.
    pub(super) fn bound(&mut self) -> &mut Step {
        &mut self.bound
    }
}
