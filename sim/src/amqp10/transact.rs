//! Transactions of a session: one at a time, declared, filled and discharged as the seed says.

use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::performative::Attach;
use leveret_amqp10::transaction::{Coordinator, Declare, Discharge, TransactionRequest};
use leveret_amqp10::{Role, Serial, Source, TargetArchetype};
use leveret_strict_client::amqp10::{Send, State};

use super::peer::Peer;
use super::session::{HeldDelivery, Link, LinkEnd, Session, Stage, Wish};
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Stamp};
use crate::tally::Tally;
use crate::world::World;

/// The beginning of the answer to a discharge of which a queue that stopped meanwhile has a part, and all others have everything.
const PARTIAL: &str = "partial transaction completion: a queue stopped";

/// The state of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Requested, by this delivery.
    Declaring(Serial),
    /// Open, with this id.
    Open(Vec<u8>),
    /// Its end was requested, by this delivery.
    Discharging { request: Serial, commits: bool },
}

/// A transaction of a session.
#[derive(Debug)]
pub(super) struct Transaction {
    pub phase: Phase,
    /// Its publisher's number in the ledger: messages of a transaction only keep their order among themselves.
    pub publisher: u64,
    pub published: Vec<MessageId>,
    pub settled: Vec<(HeldDelivery, Wish)>,
    /// Deliveries whose link the broker detached: their outcomes came before that, or had no effect.
    pub unsure: Vec<(HeldDelivery, Wish)>,
}

impl Transaction {
    /// Its id, while it is open.
    pub(super) fn id(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Open(id) => Some(id),
            _ => None,
        }
    }
}

impl Session {
    /// The id of the transaction that is open, unless its coordinator is about to end.
    pub(super) fn open_transaction(&self) -> Option<Vec<u8>> {
        let is_there = self.attached().any(|(_, end)| matches!(end, LinkEnd::Coordinator));
        self.transaction.as_ref().filter(|_| is_there).and_then(Transaction::id).map(<[u8]>::to_vec)
    }

    /// Handles the end of the coordinator's link, or the request for it. Requests under way may still be answered.
    pub(super) fn abandon_transaction(&mut self, ledger: &mut Ledger) {
        if let Some(transaction) = self.transaction.take_if(|transaction| transaction.id().is_some()) {
            self.undo(&transaction, ledger);
        }
    }

    /// Notes that a transaction never takes effect.
    fn undo(&mut self, transaction: &Transaction, ledger: &mut Ledger) {
        transaction.published.iter().for_each(|id| ledger.never(*id));
        for (held, _) in &transaction.settled {
            if let Some((_, wish)) = self.asked.get_mut(&held.id.0) {
                *wish = Wish::Return;
            }
        }
    }

    /// Handles the coordinator's answer to a request; false if it wasn't one.
    pub(super) fn coordinated(
        &mut self,
        id: Serial,
        answer: Option<&State>,
        ledger: &mut Ledger,
        tally: &mut Tally,
        at: Stamp,
    ) -> Result<bool, Failure> {
        let Some(transaction) = &mut self.transaction else { return Ok(false) };
        match (&transaction.phase, answer) {
            (Phase::Declaring(request), Some(State::Declared { txn_id })) if *request == id => {
                transaction.phase = Phase::Open(txn_id.clone());
            }
            (Phase::Discharging { request, commits }, Some(State::Accepted)) if *request == id => {
                let commits = *commits;
                let Some(transaction) = self.transaction.take() else { return Ok(true) };
                tally.hit(if commits { "transactions committed" } else { "transactions rolled back" });
                if commits {
                    transaction.published.iter().for_each(|id| ledger.confirm(*id, at));
                    for (held, _) in transaction.settled.iter().filter(|(_, wish)| !wish.returns()) {
                        ledger.settled(&held.queue, held.message, at);
                    }
                }
            }
            (Phase::Discharging { request, .. }, Some(State::Rejected(error)))
                if *request == id && transaction.published.iter().any(|id| ledger.may_be_refused(*id)) =>
            {
                tally.hit("transactions refused by a stopped queue");
                let is_partial = error.as_ref().is_some_and(|error| error.description.starts_with(PARTIAL));
                let Some(transaction) = self.transaction.take() else { return Ok(true) };
                match is_partial {
                    true => transaction.published.iter().for_each(|id| ledger.leaves_commit(*id)),
                    false => self.undo(&transaction, ledger),
                }
            }
            (Phase::Declaring(request) | Phase::Discharging { request, .. }, other) if *request == id => {
                let detail = format!("{:?} was answered with {other:?}", transaction.phase);
                return Err(Failure::new(Check::Protocol, detail));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The next action on transactions: a coordinator, a declaration, or a discharge.
pub(super) fn transact(peer: &mut Peer, at: usize, world: &mut World, ledger: &mut Ledger) -> usize {
    let coordinator =
        |(handle, link): (&u32, &Link)| matches!(link.end, LinkEnd::Coordinator).then_some((*handle, link.stage));
    let session = &peer.sessions[at];
    let Some((handle, stage)) = session.links.iter().find_map(coordinator) else {
        return attach_coordinator(peer, at, world);
    };
    if stage != Stage::There {
        return 0;
    }
    let channel = session.channel;
    let mut payload = Vec::new();
    let commits = world.random.below(4) > 0;
    match session.transaction.as_ref().map(|transaction| &transaction.phase) {
        None => write_value_raw(&mut payload, |out| TransactionRequest::Declare(Declare::default()).encode(out)),
        Some(Phase::Open(txn_id)) => {
            let discharge = Discharge { txn_id, fail: !commits };
            write_value_raw(&mut payload, |out| TransactionRequest::Discharge(discharge).encode(out));
        }
        Some(_) => return 0,
    }
    let client = &mut world.links[peer.link].amqp10().client;
    let Some(request) = client.send(channel, handle, b"request", &payload, &Send::default()) else { return 0 };
    let stamp = world.disk.count();
    let session = &mut peer.sessions[at];
    let Some(mut transaction) = session.transaction.take() else {
        let (phase, publisher) = (Phase::Declaring(request), ledger.publisher());
        session.transaction =
            Some(Transaction { phase, publisher, published: Vec::new(), settled: Vec::new(), unsure: Vec::new() });
        return 1;
    };
    transaction.phase = Phase::Discharging { request, commits };
    if commits {
        ledger.commit(&transaction.published, stamp);
        for (held, wish) in transaction.settled.iter().chain(&transaction.unsure) {
            match wish {
                Wish::Accept => ledger.settle(&held.queue, held.message, stamp),
                Wish::Reject => ledger.reject(&held.queue, held.message, stamp),
                Wish::Return | Wish::Delay(_) | Wish::Defer => {}
            }
        }
    } else {
        session.undo(&transaction, ledger);
    }
    session.transaction = Some(transaction);
    1
}

fn attach_coordinator(peer: &mut Peer, at: usize, world: &mut World) -> usize {
    let Some(handle) = peer.free_handle(at) else { return 0 };
    let (name, channel) = (peer.name(), peer.sessions[at].channel);
    let attach = Attach {
        name: &name,
        handle,
        role: Role::Sender,
        source: Some(Source::default()),
        target: Some(TargetArchetype::Coordinator(Coordinator::default())),
        initial_delivery_count: Some(0),
        ..Attach::default()
    };
    world.links[peer.link].amqp10().client.attach(channel, &attach);
    peer.sessions[at].links.insert(handle, Link { stage: Stage::Coming, end: LinkEnd::Coordinator });
    1
}
