//! A link on which the client sends: messages are assembled from transfers (specification 2.6.14), routed, and handed
//! to queues in runs.

use std::sync::Arc;

use bytes::Bytes;
use leveret_amqp10::performative::Transfer;
use leveret_amqp10::{SenderSettleMode, Serial};
use leveret_message::incoming::Incoming;
use leveret_message::{Batch, BatchBuilder, StoredMessage};
use leveret_queue::PublishSlot;

use super::assembly::{Assembly, Complete};
use super::error::Result;
use super::grant::{Grant, Pace};
use super::unconfirmed::{Alike, Due, PublishOutcome, Unconfirmed};
use leveret_broker::bodies::BodyFile;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::time::Nanos;
use leveret_broker::wait_for::{Reached, WaitFor};
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
    builder: BatchBuilder,
    route: Option<Arc<Route>>,
    /// Generation of the snapshot in which the link's further messages take this way, too; 0 if the way is that of one
    /// message.
    found_in: u64,
    /// Whether messages without headers, and such with some, take this way: see [`Route::leads_on`].
    leads_on: [bool; 2],
    persistent: bool,
    messages: Vec<Collected>,
    /// Number of messages at which the run is handed on.
    messages_max: usize,
    /// The body file of its only message, if that is a large one.
    file: Option<Box<BodyFile>>,
}

/// A run that was taken out to be handed to its queues. Its messages stay with the link.
pub(crate) struct TakenRun {
    pub route: Arc<Route>,
    pub batch: Arc<Batch>,
    pub persistent: bool,
    pub file: Option<BodyFile>,
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

    /// The way of the last message.
    pub(crate) fn route(&self) -> Option<&Arc<Route>> {
        self.route.as_ref()
    }

    /// Whether messages of this way are collected.
    pub(crate) fn is_of(&self, route: &Route, persistent: bool) -> bool {
        self.persistent == persistent && self.route.as_ref().is_some_and(|other| other.is_same_way(route))
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

    /// Whether nothing is collected.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
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

    /// Adds a message.
    #[inline]
    pub(crate) fn push(&mut self, collected: Collected, message: &StoredMessage<'_>) {
        self.builder.push_message(message);
        self.messages.push(collected);
    }

    /// Adds a message with a body of its own, which is written to a file, too.
    pub(crate) fn push_large(
        &mut self,
        collected: Collected,
        message: &StoredMessage<'_>,
        body: Bytes,
        file: BodyFile,
    ) {
        self.builder.push_large(message, body);
        self.file = Some(Box::new(file));
        self.messages.push(collected);
    }

    /// Adds a message whose body is on its way to a file, after these `fields`.
    pub(crate) fn push_file(
        &mut self,
        collected: Collected,
        message: &StoredMessage<'_>,
        fields: Bytes,
        file: BodyFile,
    ) {
        self.builder.push_file(message, file.body(fields));
        self.file = Some(Box::new(file));
        self.messages.push(collected);
    }

    /// Takes out what was collected, but for the list of its messages. `None` if there is nothing, or if it has to wait.
    pub(crate) fn take(&mut self) -> Option<TakenRun> {
        if self.messages.is_empty() || self.is_pending() {
            return None;
        }
        let file = self.file.take().map(|file| *file);
        let route = self.route.clone()?;
        Some(TakenRun { route, batch: Arc::new(self.builder.finish()), persistent: self.persistent, file })
    }

    /// Takes the list of its messages. [`keep_list`](Self::keep_list) gives its memory back.
    pub(crate) fn take_list(&mut self) -> Vec<Collected> {
        std::mem::take(&mut self.messages)
    }

    /// Goes on with an empty list.
    pub(crate) fn keep_list(&mut self, mut list: Vec<Collected>) {
        list.clear();
        self.messages = list;
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
    name: Arc<str>,
    address: Option<Arc<str>>,
    settle_mode: SenderSettleMode,
    destination: Destination,
    /// The key of the link in its target queue's signals, if it has such a queue.
    key: u64,
    grant: Grant,
    assembly: Assembly,
    run: PublishRun,
    unconfirmed: Unconfirmed,
    /// The slot of its last message, if its queue's publishers are paced.
    slot: PublishSlot,
    own_rate: OwnRate,
    /// The client has to be sent a flow with its credit.
    flow_due: bool,
    dynamic: bool,
}

/// The target of a publisher's link.
pub(crate) struct PublisherTarget {
    /// Its address, as the client sent it.
    pub address: Option<Arc<str>>,
    pub destination: Destination,
    /// The key of the link in its queue's signals, if it has a queue.
    pub key: u64,
    /// The queue is deleted with the link.
    pub dynamic: bool,
}

impl Publisher {
    /// A publisher whose client has to be told its credit.
    pub(crate) fn new(
        name: Arc<str>,
        target: PublisherTarget,
        settle_mode: SenderSettleMode,
        grant: Grant,
        assembly: Assembly,
    ) -> Self {
        let PublisherTarget { address, destination, key, dynamic } = target;
        Self {
            name,
            address,
            settle_mode,
            destination,
            key,
            grant,
            assembly,
            run: PublishRun::default(),
            unconfirmed: Unconfirmed::default(),
            slot: PublishSlot::default(),
            own_rate: OwnRate::default(),
            flow_due: true,
            dynamic,
        }
    }

    /// The link's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The address of its target, as the client sent it.
    pub(crate) fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref()
    }

    /// `unsettled`, `settled` or `mixed`.
    pub(crate) fn settle_mode(&self) -> &'static str {
        match self.settle_mode {
            SenderSettleMode::Unsettled => "unsettled",
            SenderSettleMode::Settled => "settled",
            SenderSettleMode::Mixed => "mixed",
        }
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Takes the destination out, so that it can be read while the link changes. [`put_destination`](Self::put_destination) puts it back.
    pub(crate) fn take_destination(&mut self) -> Destination {
        std::mem::replace(&mut self.destination, Destination::Anonymous)
    }

    pub(crate) fn put_destination(&mut self, destination: Destination) {
        self.destination = destination;
    }

    /// The key of the link in its target queue's signals.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// The target queue is deleted with the link.
    pub(crate) fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    #[inline]
    pub(crate) fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    #[inline]
    pub(crate) fn run(&self) -> &PublishRun {
        &self.run
    }

    #[inline]
    pub(crate) fn run_mut(&mut self) -> &mut PublishRun {
        &mut self.run
    }

    /// The destination, and what assembles messages for it.
    pub(crate) fn assembling(&mut self) -> (&Destination, &mut Assembly) {
        (&self.destination, &mut self.assembly)
    }

    /// The parts that a message passes which came in one transfer.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Destination, &mut Assembly, &mut Grant, &mut PublishRun) {
        (&self.destination, &mut self.assembly, &mut self.grant, &mut self.run)
    }

    /// A message of this many bytes came.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.grant.received(bytes);
    }

    /// Whether the client has to be sent a flow with its credit.
    #[inline]
    pub(crate) fn is_flow_due(&self) -> bool {
        self.flow_due
    }

    /// The client may have asked for the state of the link.
    pub(crate) fn echo(&mut self, is_asked: bool) {
        self.flow_due |= is_asked;
    }

    /// The credit that the client has to be sent, if it has to.
    pub(crate) fn take_flow(&mut self) -> Option<&Grant> {
        std::mem::take(&mut self.flow_due).then_some(&self.grant)
    }

    /// Notes messages whose outcome is decided, or waits for a condition.
    pub(crate) fn add_outcome(&mut self, alike: Alike, wait: WaitFor, outcome: &PublishOutcome, now: Nanos) {
        self.unconfirmed.add(alike, wait, outcome, now);
    }

    /// Whether outcomes wait.
    pub(crate) fn awaits_outcomes(&self) -> bool {
        self.unconfirmed.count() > 0
    }

    /// Adds the outcomes that are due, and grants credit for them; a sync takes about `sync`.
    pub(crate) fn take_due(&mut self, reached: &impl Reached, sync: Nanos, now: Nanos, due: &mut Vec<Due>) {
        if let Some(confirmed) = self.unconfirmed.take_due(reached, now, due) {
            self.grant.confirmed(confirmed, sync, now);
            self.top_up(now, sync);
        } else if self.slot.at != 0 {
            self.top_up(now, sync);
        }
    }

    /// The time of its slot, from which on it gets credit.
    pub(crate) fn grants_at(&self) -> Nanos {
        self.slot.grants_at()
    }

    /// Its queues gave it a slot for this many messages.
    pub(crate) fn paced(&mut self, slot: PublishSlot, queues: usize, messages: u32, now: Nanos) -> PublishSlot {
        self.slot = self.own_rate.slot(slot, queues, messages, now);
        self.slot
    }

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
