//! The time from which on queues are gone that are deleted together with a consumer, channel, link or connection.

use std::sync::Arc;

use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::outbox::Outbox;
use leveret_broker::ticket::Ticket;

/// The ticket from which on queues are gone, some of which answer later.
#[derive(Default)]
pub struct GoneAt {
    ticket: Ticket,
    /// None if all queues have answered, as nearly always.
    going: Option<Box<Going>>,
}

struct Going {
    later: Vec<Later<Ticket>>,
}

impl GoneAt {
    /// Adds further queues.
    #[inline]
    pub fn and(&mut self, other: impl Into<Self>) {
        let other = other.into();
        self.ticket = self.ticket.or_later(other.ticket);
        if let Some(going) = other.going {
            self.wait_for(going);
        }
    }

    #[cold]
    fn wait_for(&mut self, other: Box<Going>) {
        match &mut self.going {
            Some(going) => going.later.extend(other.later),
            None => self.going = Some(other),
        }
    }

    /// The ticket, if all queues have answered.
    #[inline]
    pub fn ticket(&mut self) -> Option<Ticket> {
        if self.going.is_some() {
            self.take_answers();
        }
        self.going.is_none().then_some(self.ticket)
    }

    #[cold]
    fn take_answers(&mut self) {
        let Self { ticket, going: Some(going) } = self else { return };
        going.later.retain(|later| match later.take() {
            Some(gone_at) => {
                *ticket = ticket.or_later(gone_at);
                false
            }
            None => true,
        });
        if going.later.is_empty() {
            self.going = None;
        }
    }

    /// Signals `outbox` with `key` for each answer that comes.
    pub fn notify(&self, outbox: &Arc<Outbox>, key: u64) {
        let later = self.going.iter().flat_map(|going| &going.later);
        later.for_each(|later| later.notify(outbox.clone(), key));
    }
}

impl From<Ticket> for GoneAt {
    #[inline]
    fn from(ticket: Ticket) -> Self {
        Self { ticket, going: None }
    }
}

impl From<NowOrLater<Ticket>> for GoneAt {
    #[inline]
    fn from(asked: NowOrLater<Ticket>) -> Self {
        match asked {
            NowOrLater::Now(ticket) => ticket.into(),
            NowOrLater::Later(later) => {
                Self { ticket: Ticket::default(), going: Some(Box::new(Going { later: vec![later] })) }
            }
        }
    }
}
