//! A session of a peer: its links, and its open requests.

use std::collections::BTreeMap;

use leveret_amqp10::Serial;

use super::filter::Filter;
use super::transact::Transaction;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Stamp};
use crate::peer::{Holdings, UNLIMITED};
use crate::quiet::Shown;
use crate::streams::{self, StreamReader};
use crate::topology::{dead_letters_of, is_single_active};
use crate::world::World;

/// The state of a session or link, by the client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It doesn't exist and isn't requested.
    Absent,
    /// It was requested.
    Coming,
    There,
    /// Its end was requested.
    Going,
}

/// The outcome that a client requested for a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Accept,
    Reject,
    /// It is to be requeued.
    Return,
    /// It is to be requeued, and delivered after this time, in milliseconds since the Unix epoch.
    Delay(u64),
    /// As `Delay`, with a token by which it may come sooner.
    Defer,
}

impl Wish {
    pub(super) fn returns(self) -> bool {
        matches!(self, Self::Return | Self::Delay(_) | Self::Defer)
    }
}

/// A delivery for which the client hasn't sent an outcome.
#[derive(Clone, Debug)]
pub(super) struct HeldDelivery {
    pub id: Serial,
    pub handle: u32,
    pub queue: String,
    pub message: MessageId,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// The publisher's number in the ledger.
    pub publisher: u64,
    pub exchange: String,
    pub key: String,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub queue: String,
    /// The broker sends deliveries settled.
    pub settled: bool,
    /// The stamp at which it was requested.
    pub since: Stamp,
    /// Highest message of each publisher that it got for the first time.
    pub last: BTreeMap<u64, MessageId>,
    /// Its place in a stream.
    pub reader: Option<StreamReader>,
    /// The messages that it wants of another queue; all if there is none.
    pub filter: Option<Filter>,
    /// Deliveries that the last grant still allows. The strict client counts with the highest grant that, for the
    /// broker, may not have been replaced yet.
    pub credit: u32,
    /// A drain was requested and isn't answered.
    pub drains: bool,
    /// Whether it is the active consumer of its queue, as it was told last.
    pub active: Option<bool>,
}

#[derive(Debug)]
pub(super) enum LinkEnd {
    Sender(Sender),
    Receiver(Receiver),
    /// The link controls transactions.
    Coordinator,
}

#[derive(Debug)]
pub(super) struct Link {
    pub stage: Stage,
    pub end: LinkEnd,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub channel: u16,
    pub stage: Stage,
    pub links: BTreeMap<u32, Link>,
    /// Handle and message of publishes that aren't answered, by delivery-id.
    pub unconfirmed: BTreeMap<u32, (u32, MessageId)>,
    pub held: Vec<HeldDelivery>,
    /// Unsettled dispositions that aren't answered, by delivery-id.
    pub asked: BTreeMap<u32, (HeldDelivery, Wish)>,
    pub transaction: Option<Transaction>,
}

/// All delivery-ids of a range.
pub(super) fn ids(first: Serial, last: Serial) -> impl Iterator<Item = Serial> {
    (0..=last.since(first)).map(move |at| first.add(at))
}

impl Session {
    pub(super) fn new(channel: u16) -> Self {
        Self {
            channel,
            stage: Stage::Absent,
            links: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            held: Vec::new(),
            asked: BTreeMap::new(),
            transaction: None,
        }
    }

    /// Number of its unanswered requests.
    pub(super) fn open(&self) -> usize {
        self.unconfirmed.len() + self.asked.values().filter(|(held, _)| !self.is_in_transaction(held)).count()
    }

    /// Links that exist, with their handles.
    pub(super) fn attached(&self) -> impl Iterator<Item = (u32, &LinkEnd)> {
        let there = self.links.iter().filter(|(_, link)| link.stage == Stage::There);
        there.map(|(handle, link)| (*handle, &link.end))
    }

    /// Notes that the broker has detached a link: it may not have received the outcomes of its deliveries in a
    /// transaction.
    pub(super) fn doubt_link(&mut self, handle: u32) {
        if let Some(transaction) = &mut self.transaction {
            let unsure = transaction.settled.extract_if(.., |(held, _)| held.handle == handle);
            transaction.unsure.extend(unsure);
        }
    }

    /// Handles the end of a link: the fate of everything under way on it stays unknown.
    pub(super) fn lose_link(&mut self, handle: u32, ledger: &mut Ledger) {
        for (_, (_, message)) in self.unconfirmed.extract_if(.., |_, (of, _)| *of == handle) {
            // It may have come before the end of its link, or not.
            if let Some(transaction) = &mut self.transaction {
                transaction.published.retain(|id| *id != message);
            }
        }
        self.held.retain(|held| held.handle != handle);
        self.asked.retain(|_, (held, _)| held.handle != handle);
        match self.links.remove(&handle).map(|link| link.end) {
            Some(LinkEnd::Receiver(receiver)) => {
                ledger.disorder(&receiver.queue);
                if receiver.settled {
                    // Messages that it had been given and wasn't sent yet are gone with it.
                    ledger.excuse_all(&receiver.queue, receiver.since);
                    ledger.end_reading(&receiver.queue, UNLIMITED);
                }
            }
            Some(LinkEnd::Coordinator) => {
                self.abandon_transaction(ledger);
                self.transaction = None;
            }
            Some(LinkEnd::Sender(_)) | None => {}
        }
    }

    /// Handles the end of the session.
    pub(super) fn lose(&mut self, ledger: &mut Ledger) {
        for handle in self.links.keys().copied().collect::<Vec<_>>() {
            self.lose_link(handle, ledger);
        }
        self.stage = Stage::Absent;
    }

    /// Whether the outcome of a delivery waits for the end of a transaction.
    fn is_in_transaction(&self, held: &HeldDelivery) -> bool {
        let settled = self.transaction.iter().flat_map(|transaction| &transaction.settled);
        settled.into_iter().any(|(other, _)| other.id == held.id && other.handle == held.handle)
    }

    /// Adds the deliveries that it holds of each queue, including those that wait for the end of a transaction.
    pub(super) fn add_held(&self, held: &mut Holdings) {
        let transacted = self.transaction.iter().flat_map(|transaction| &transaction.settled).map(|(held, _)| held);
        let asked = self.asked.values().map(|(held, _)| held).filter(|held| !self.is_in_transaction(held));
        for one in self.held.iter().chain(transacted).chain(asked) {
            held.entry(one.queue.clone()).or_default().add(one.message, true);
        }
        for (one, _) in self.transaction.iter().flat_map(|transaction| &transaction.unsure) {
            held.entry(one.queue.clone()).or_default().add(one.message, false);
        }
    }

    /// Checks the session at rest: everything is answered, and no link is left waiting without a reason.
    pub(super) fn rest(&self, link: usize, world: &mut World, shown: &Shown, ledger: &Ledger) -> Result<(), Failure> {
        let stuck = |what: String| Err(Failure::new(Check::Answered, format!("nothing moves any more; {what}")));
        // Messages that can't be moved, since the queue for them has stopped, aren't settled.
        let waits = |held: &HeldDelivery, wish: &Wish| {
            *wish == Wish::Reject && dead_letters_of(&held.queue).is_some_and(|dead| world.failed.contains(&dead))
        };
        let mut asked = self.asked.values();
        let asked = asked.any(|(held, wish)| !self.is_in_transaction(held) && !waits(held, wish));
        if !self.unconfirmed.is_empty() || asked || matches!(self.stage, Stage::Coming | Stage::Going) {
            return stuck(format!("{self:?}"));
        }
        if let Some(transaction) = self.transaction.as_ref().filter(|transaction| transaction.id().is_none()) {
            return stuck(format!("{transaction:?}"));
        }
        if self.stage == Stage::Absent {
            return Ok(());
        }
        if world.links[link].amqp10().client.window(self.channel) == 0 {
            return stuck(String::from("the broker's incoming window is shut"));
        }
        let number = link;
        for (handle, link) in &self.links {
            match (&link.end, link.stage) {
                (end @ (LinkEnd::Sender(_) | LinkEnd::Coordinator), Stage::There)
                    if world.links[number].amqp10().client.credit(self.channel, *handle) == 0 =>
                {
                    return stuck(format!("{end:?} has no credit"));
                }
                (LinkEnd::Receiver(receiver), Stage::There) => {
                    let Some(status) = shown.of(&receiver.queue) else { continue };
                    let is_served = !is_single_active(&receiver.queue);
                    let has_more = match &receiver.reader {
                        Some(reader) => streams::extent(world, &receiver.queue)
                            .is_some_and(|(first, next, _)| reader.is_behind(&receiver.queue, (first, next), ledger)),
                        None => match receiver.filter.filter(|_| is_served && receiver.credit > 0) {
                            Some(filter) => {
                                world.tally.hit("filters compared with their queues");
                                shown.has_ready(&receiver.queue, ledger, |message| filter.matches(message))
                            }
                            None => status.ready > 0,
                        },
                    };
                    let waits = receiver.drains || is_served && receiver.credit > 0 && has_more;
                    if waits && !world.failed.contains(&receiver.queue) {
                        return stuck(format!("{receiver:?}; {} are ready for {:?}", status.ready, status.consumers));
                    }
                }
                (_, Stage::There) => {}
                (end, stage) => return stuck(format!("{end:?} is {stage:?}")),
            }
        }
        Ok(())
    }
}
