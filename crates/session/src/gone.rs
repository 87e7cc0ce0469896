//! The time from which on queues are gone that are deleted together with a consumer, channel, link or connection.

use std::sync::Arc;

use leveret_broker::outbox::Outbox;
use leveret_broker::queue_handle::{Asked, Later};
use leveret_broker::ticket::Ticket;

/// The ticket from which on queues are gone, some of which answer later.
#[derive(Default)]
pub struct GoneAt {
    ticket: Ticket,
    later: Vec<Later<Ticket>>,
}

impl GoneAt {
    /// Adds further queues.
    pub fn and(&mut self, other: impl Into<Self>) {
        let other = other.into();
        self.ticket = self.ticket.or_later(other.ticket);
        self.later.extend(other.later);
    }

    /// The ticket, if all queues have answered.
    pub fn ticket(&mut self) -> Option<Ticket> {
        let ticket = &mut self.ticket;
        self.later.retain(|later| match later.take() {
            Some(gone_at) => {
                *ticket = ticket.or_later(gone_at);
                false
            }
            None => true,
        });
        self.later.is_empty().then_some(self.ticket)
    }

    /// Signals `outbox` with `key` for each answer that comes.
    pub fn notify(&self, outbox: &Arc<Outbox>, key: u64) {
        self.later.iter().for_each(|later| later.notify(outbox.clone(), key));
    }
}

impl From<Ticket> for GoneAt {
    fn from(ticket: Ticket) -> Self {
        Self { ticket, later: Vec::new() }
    }
}

impl From<Asked<Ticket>> for GoneAt {
    fn from(asked: Asked<Ticket>) -> Self {
        match asked {
            Asked::Now(ticket) => ticket.into(),
            Asked::Later(later) => Self { ticket: Ticket::default(), later: vec![later] },
        }
    }
}
