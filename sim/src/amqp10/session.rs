//! A session of a peer: its links, and what is open in it.

use std::collections::BTreeMap;

use leveret_amqp10::Serial;

use super::transact::Transaction;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Stamp};
use crate::peer::{Holdings, UNLIMITED};
use crate::quiet::Shown;
use crate::topology::dead_letters_of;
use crate::world::World;

/// Where a session or link is in its life, as far as the client has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not there, and not asked for.
    Absent,
    /// Asked for.
    Coming,
    There,
    /// Its end was asked for.
    Going,
}

/// What a client asked for of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Accept,
    Reject,
    /// Back to its queue.
    Return,
}

/// A delivery of which the client hasn't said anything.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub id: Serial,
    pub handle: u32,
    pub queue: String,
    pub message: MessageId,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Its number in the ledger.
    pub publisher: u64,
    pub exchange: String,
    pub key: String,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub queue: String,
    /// The broker settles what it sends.
    pub settled: bool,
    /// When it was asked for.
    pub since: Stamp,
    /// Highest message of each publisher that it got for the first time.
    pub last: BTreeMap<u64, MessageId>,
    /// Deliveries that the last grant still allows. The strict client counts with the highest one that the broker may
    /// not have seen replaced.
    pub credit: u32,
    /// A drain was asked for and isn't answered.
    pub drains: bool,
}

#[derive(Debug)]
pub(super) enum LinkEnd {
    Sender(Sender),
    Receiver(Receiver),
    /// It controls transactions.
    Coordinator,
}

#[derive(Debug)]
pub(super) struct Link {
    pub stage: Stage,
    pub end: LinkEnd,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Session {
    pub channel: u16,
    pub stage: Stage,
    pub links: BTreeMap<u32, Link>,
    /// Published and not answered, by delivery-id: handle and message.
    pub unconfirmed: BTreeMap<u32, (u32, MessageId)>,
    pub held: Vec<Held>,
    /// Unsettled dispositions that aren't answered, by delivery-id.
    pub asked: BTreeMap<u32, (Held, Wish)>,
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

    /// How much of it is unanswered.
    pub(super) fn open(&self) -> usize {
        self.unconfirmed.len() + self.asked.values().filter(|(held, _)| !self.is_in_transaction(held)).count()
    }

    /// Handles of links that are there.
    pub(super) fn attached(&self) -> impl Iterator<Item = (u32, &LinkEnd)> {
        let there = self.links.iter().filter(|(_, link)| link.stage == Stage::There);
        there.map(|(handle, link)| (*handle, &link.end))
    }

    /// The broker has detached a link: it may not have heard what was said of its deliveries in a transaction.
    pub(super) fn doubt_link(&mut self, handle: u32) {
        if let Some(transaction) = &mut self.transaction {
            let unsure = transaction.settled.extract_if(.., |(held, _)| held.handle == handle);
            transaction.unsure.extend(unsure);
        }
    }

    /// A link is over: what was under way on it stays unknown.
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
                    // What it had been given and wasn't sent yet went with it.
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

    /// The session is over.
    pub(super) fn lose(&mut self, ledger: &mut Ledger) {
        for handle in self.links.keys().copied().collect::<Vec<_>>() {
            self.lose_link(handle, ledger);
        }
        self.stage = Stage::Absent;
    }

    /// Whether what becomes of a delivery waits for the end of a transaction.
    fn is_in_transaction(&self, held: &Held) -> bool {
        let settled = self.transaction.iter().flat_map(|transaction| &transaction.settled);
        settled.into_iter().any(|(other, _)| other.id == held.id && other.handle == held.handle)
    }

    /// Adds what it holds of each queue, also what waits for the end of a transaction.
    pub(super) fn add_held(&self, held: &mut Holdings) {
        let transacted = self.transaction.iter().flat_map(|transaction| &transaction.settled).map(|(held, _)| held);
        let asked = self.asked.values().map(|(held, _)| held).filter(|held| !self.is_in_transaction(held));
        for one in self.held.iter().chain(transacted).chain(asked) {
            let (least, most) = held.entry(one.queue.clone()).or_default();
            (*least, *most) = (*least + 1, *most + 1);
        }
        for (one, _) in self.transaction.iter().flat_map(|transaction| &transaction.unsure) {
            held.entry(one.queue.clone()).or_default().1 += 1;
        }
    }

    /// Nothing moves any more: everything is answered, and nobody is left with nothing to go on with.
    pub(super) fn rest(&self, link: usize, world: &mut World, shown: &Shown) -> Result<(), Failure> {
        let stuck = |what: String| Err(Failure::new(Check::Answered, format!("nothing moves any more; {what}")));
        // What can't be moved since the queue for it has stopped isn't settled.
        let waits = |held: &Held, wish: &Wish| {
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
        let client = &world.links[link].amqp10().client;
        if client.window(self.channel) == 0 {
            return stuck(String::from("the broker's incoming window is shut"));
        }
        for (handle, link) in &self.links {
            match (&link.end, link.stage) {
                (end @ (LinkEnd::Sender(_) | LinkEnd::Coordinator), Stage::There)
                    if client.credit(self.channel, *handle) == 0 =>
                {
                    return stuck(format!("{end:?} has no credit"));
                }
                (LinkEnd::Receiver(receiver), Stage::There) => {
                    let Some(status) = shown.of(&receiver.queue) else { continue };
                    let waits = receiver.drains || receiver.credit > 0 && status.ready > 0;
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
