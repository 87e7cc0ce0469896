//! A link on which the client sends: messages are assembled from transfers (specification 2.6.14), routed, and handed
//! to queues in runs.

use std::sync::Arc;

use leveret_amqp10::{Serial, performative::Transfer};
use leveret_message::BatchBuilder;
use leveret_message::incoming::Incoming;
use leveret_queue::PublishSlot;

use super::assembly::{Assembly, Complete};
use super::error::Result;
use super::grant::{Grant, Pace};
use super::unconfirmed::Unconfirmed;
use leveret_broker::bodies::BodyFile;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::time::Nanos;
use leveret_session::fan_out::{self, FanOut};
use leveret_session::pace::OwnRate;

/// The destination of a link's messages.
pub(crate) enum Destination {
    /// An exchange, and the routing key; without a key, each message's subject is its routing key.
    Exchange { exchange: Arc<str>, key: Option<Arc<str>> },
    /// A queue by name.
    Queue(QueueRef),
    /// The address in each message's `to` (anonymous terminus).
    Anonymous,
}

impl Destination {
    /// Exchange and key, if they are the same for all messages.
    #[inline]
    pub(crate) fn fixed(&self) -> Option<(&str, &str)> {
        match self {
            Self::Exchange { exchange, key: Some(key) } => Some((exchange, key)),
            Self::Queue(queue) => Some(("", &queue.info().name)),
            Self::Exchange { key: None, .. } | Self::Anonymous => None,
        }
    }
}

/// A message of the run that is being collected.
#[derive(Clone, Copy)]
pub(crate) struct Collected {
    pub id: Serial,
    pub settled: bool,
}

impl Collected {
    /// Whether both may be answered in one disposition.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.id.next() == next.id && self.settled == next.settled
    }
}

/// Messages of the same [way](Route::is_same_way) that go to their queues together.
#[derive(Default)]
pub(crate) struct PublishRun {
    pub builder: BatchBuilder,
    pub route: Option<Arc<Route>>,
    /// Generation of the snapshot in which the link's further messages take this way, too; 0 if the way is that of one
    /// message.
    found_in: u64,
    /// Whether messages without headers, and such with some, take this way: see [`Route::leads_on`].
    leads_on: [bool; 2],
    pub persistent: bool,
    pub messages: Vec<Collected>,
    /// Number of messages at which the run is handed on.
    messages_max: usize,
    /// The body file of its only message, if that is a large one.
    pub file: Option<Box<BodyFile>>,
}

impl PublishRun {
    /// Makes an empty run take this way.
    pub(crate) fn turn_to(&mut self, route: Arc<Route>, found_in: u64, persistent: bool) {
        self.messages_max = fan_out::messages_max(&route);
        self.leads_on = [false, true].map(|has_headers| route.leads_on(has_headers));
        self.route = Some(route);
        self.found_in = found_in;
        self.persistent = persistent;
    }

    /// Whether a message of a link with a fixed exchange and key takes the run's way in this generation of the
    /// snapshot. Then the way needn't be looked up: with many queues, their names would be fetched from memory that
    /// other cores write to.
    pub(crate) fn goes_on_with(&self, message: &Incoming<'_>, generation: u64) -> bool {
        !message.has_further_keys() && self.goes_on(message.durable, !message.headers.is_empty(), generation)
    }

    /// Like [`goes_on_with`](Self::goes_on_with), for a message without further keys.
    #[inline]
    pub(crate) fn goes_on(&self, durable: bool, has_headers: bool, generation: u64) -> bool {
        self.found_in == generation && self.persistent == durable && self.leads_on[usize::from(has_headers)]
    }

    /// Whether it has to be handed on before more is collected.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.messages.len() >= self.messages_max || self.builder.is_full()
    }

    /// Whether it waits for its body file.
    pub(crate) fn is_pending(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_pending())
    }
}

/// A run that its queues get in parts, and the data that is needed when all have it.
pub(crate) struct WideRun {
    pub channel: u16,
    pub handle: u32,
    pub messages: Vec<Collected>,
    pub fan_out: FanOut,
}

/// The receiving endpoint of a publisher's link.
pub(crate) struct Publisher {
    /// The link's name.
    pub name: Arc<str>,
    /// The address of its target, as the client sent it.
    pub address: Option<Arc<str>>,
    /// `unsettled`, `settled` or `mixed`.
    pub settle_mode: &'static str,
    pub destination: Destination,
    /// The key of the link in its target queue's signals, if it has such a queue.
    pub key: u64,
    pub grant: Grant,
    pub assembly: Assembly,
    pub run: PublishRun,
    pub unconfirmed: Unconfirmed,
    /// The slot of its last message, if its queue's publishers are paced.
    pub slot: PublishSlot,
    pub own_rate: OwnRate,
    /// The client has to be sent a flow with its credit.
    pub flow_due: bool,
    /// The target queue is deleted with the link.
    pub dynamic: bool,
}

impl Publisher {
    /// Messages whose outcome isn't decided yet.
    pub(crate) fn unconfirmed(&self) -> u32 {
        self.unconfirmed.count() + self.run.messages.len() as u32
    }

    /// Grants more credit if it is due; a sync takes about `sync`.
    #[inline]
    pub(crate) fn top_up(&mut self, now: Nanos, sync: Nanos) {
        if self.grant.is_ample() {
            return;
        }
        self.grant.came(now);
        if self.slot.grants_at() > now {
            return;
        }
        let unconfirmed = self.unconfirmed();
        let oldest = self.unconfirmed.oldest().unwrap_or(now);
        let pace = Pace::of(now.saturating_sub(oldest), sync);
        let burst = if self.slot.at == 0 { u32::MAX } else { self.slot.burst };
        self.flow_due |= self.grant.top_up(unconfirmed, pace, burst, now);
    }

    /// Like [`Assembly::receive`].
    ///
    /// # Errors
    /// The same.
    pub(crate) fn receive<'a>(
        &mut self,
        transfer: &Transfer<'a>,
        payload: &'a [u8],
        size_max: u64,
    ) -> Result<Option<Complete<'a>>> {
        self.assembly.receive(transfer, payload, size_max, &mut self.grant)
    }
}
