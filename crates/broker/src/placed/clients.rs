//! What clients of this node hold of a replicated queue, and what they decided about it that may not be committed yet.
//!
//! A leader tells its replicas what has left a queue, not what it has handed out. So after a change of the leader each node says what its
//! clients hold before anything is handed out again, and sends their last decisions once more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leveret_message::Added;
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, CreditState, HeldSet, Link, Run, Signal, Taken,
};

use crate::planted::{Bug, is_planted};
use crate::remote::CallKind;
use crate::settlement::Settlement;
use crate::ticket::{StreamId, Ticket};

/// One who holds messages: a consumer, or those who get messages one by one, of a core.
pub(super) type HolderKey = (usize, Option<ConsumerId>);

/// All of this node's, of one queue.
#[derive(Default)]
pub(super) struct Clients {
    holders: BTreeMap<HolderKey, Holder>,
    /// The oldest first.
    decided: VecDeque<Decided>,
    /// Number of decisions so far.
    count: u64,
    /// Lanes whose other end was asked which of them are committed.
    asked: BTreeSet<StreamId>,
}

/// One who holds messages.
#[derive(Default)]
pub(super) struct Holder {
    /// The consumer, until it leaves.
    pub consumer: Option<Registered>,
    /// The stream of the machine, or of the lane, where it is known.
    pub at: Option<StreamId>,
    held: HeldSet,
}

/// A consumer as it is registered.
pub(super) struct Registered {
    pub options: ConsumerOptions,
    /// The delivery-count of its link (AMQP 1.0, 2.6.7).
    pub delivery_count: u32,
    /// The receiver's delivery-count and credit as last granted, and whether unused credit is given up.
    pub granted: Option<(u32, u32, bool)>,
}

/// A decision about messages that were held.
struct Decided {
    number: u64,
    by: HolderKey,
    runs: Vec<Run>,
    what: Decision,
    sent: Option<Sent>,
}

/// A decision.
#[derive(Clone)]
pub(super) enum Decision {
    Settle(Settlement),
    /// They return with annotations.
    Modify {
        failed: bool,
        added: Arc<Added>,
    },
}

/// Where a decision was sent.
#[derive(Clone, Copy)]
pub(super) enum Sent {
    /// To a machine of this node, which had appended it before this place.
    Here(Ticket),
    /// On this lane.
    Away(StreamId),
}

impl Holder {
    /// It took messages. Returns whether it is a consumer for which they are settled by that.
    #[must_use]
    pub(super) fn takes(&mut self, taken: &[Taken]) -> bool {
        let mut is_settled = false;
        if let Some(consumer) = &mut self.consumer {
            let count: u32 = taken.iter().map(|taken| taken.count).sum();
            consumer.delivery_count = consumer.delivery_count.wrapping_add(count);
            is_settled = consumer.options.automatic_ack;
            if is_settled || consumer.options.mode == ConsumerMode::Copy {
                return is_settled;
            }
        }
        taken.iter().for_each(|taken| self.held.add(taken.runs()));
        is_settled
    }

    /// It got a message.
    pub(super) fn gets(&mut self, taken: &Taken) {
        self.held.add(taken.runs());
    }
}

impl Registered {
    /// Its options as it is to be registered now.
    pub(super) fn options_now(&self) -> ConsumerOptions {
        let mut options = self.options.clone();
        if options.flow.is_credit() {
            options.flow = ConsumerFlow::Credit { delivery_count: self.delivery_count };
        }
        options
    }

    /// If unused credit was to be given up, it is. Returns what its link is told then.
    pub(super) fn give_up_credit(&mut self) -> Option<(Arc<dyn Link>, Signal)> {
        let (counted, credit, _) = self.granted.take_if(|(.., drain)| *drain)?;
        self.delivery_count = counted.wrapping_add(credit);
        let (key, delivery_count) = (self.options.key, self.delivery_count);
        Some((self.options.link.clone(), Signal::Drained { key, delivery_count, available: 0 }))
    }
}

impl Decision {
    fn returns(&self) -> bool {
        matches!(self, Self::Settle(Settlement::Requeue { .. }))
    }

    /// It as a call on the leader's node.
    pub(super) fn call(&self, consumer: Option<ConsumerId>, runs: Vec<Run>) -> CallKind {
        match self {
            Self::Settle(how) => CallKind::Settle { consumer, runs, how: *how, group: None },
            Self::Modify { failed, added } => {
                CallKind::Modify { consumer, runs, failed: *failed, added: added.clone() }
            }
        }
    }
}

impl Clients {
    /// A consumer comes.
    pub(super) fn add(&mut self, key: HolderKey, consumer: Registered, at: Option<StreamId>) {
        self.holders.insert(key, Holder { consumer: Some(consumer), at, held: HeldSet::default() });
    }

    /// A consumer leaves. What it holds stays with it until it is settled.
    pub(super) fn leave(&mut self, key: HolderKey) -> Option<Registered> {
        let left = self.holders.get_mut(&key)?.consumer.take();
        self.forget_if_over(key);
        left
    }

    /// The queue is gone. Returns its consumers.
    pub(super) fn leave_all(&mut self) -> Vec<(HolderKey, Registered)> {
        self.decided.clear();
        let holders = std::mem::take(&mut self.holders);
        holders.into_iter().filter_map(|(key, holder)| Some((key, holder.consumer?))).collect()
    }

    pub(super) fn holder(&mut self, key: HolderKey) -> Option<&mut Holder> {
        self.holders.get_mut(&key)
    }

    pub(super) fn holder_or_new(&mut self, key: HolderKey, at: StreamId) -> &mut Holder {
        self.holders.entry(key).or_insert_with(|| Holder { at: Some(at), ..Holder::default() })
    }

    pub(super) fn consumer(&mut self, key: HolderKey) -> Option<&mut Registered> {
        self.holders.get_mut(&key)?.consumer.as_mut()
    }

    pub(super) fn consumers(&self) -> impl Iterator<Item = &Registered> {
        self.holders.values().filter_map(|holder| holder.consumer.as_ref())
    }

    /// Notes the state of a link as its queue has answered.
    pub(super) fn granted(&mut self, key: HolderKey, state: Option<CreditState>) {
        if let Some(state) = state
            && state.credit == 0
            && let Some(consumer) = self.consumer(key)
        {
            consumer.delivery_count = state.delivery_count;
            consumer.granted = None;
        }
    }

    /// Where it is known, or what it decides is sent.
    pub(super) fn at(&self, key: HolderKey) -> Option<StreamId> {
        self.holders.get(&key)?.at
    }

    /// Those of these messages that it holds: it doesn't any more.
    pub(super) fn release(&mut self, key: HolderKey, runs: &[Run]) -> Vec<Run> {
        self.holders.get_mut(&key).map_or_else(Vec::new, |holder| holder.held.remove(runs))
    }

    fn forget_if_over(&mut self, key: HolderKey) {
        let is_over = |holder: &Holder| holder.consumer.is_none() && holder.held.is_empty();
        if self.holders.get(&key).is_some_and(is_over) && !self.decided.iter().any(|decided| decided.by == key) {
            self.holders.remove(&key);
        }
    }

    /// Keeps a decision until it is known to be committed.
    pub(super) fn decided(&mut self, by: HolderKey, runs: Vec<Run>, what: Decision, sent: Option<Sent>) {
        self.count += 1;
        self.decided.push_back(Decided { number: self.count, by, runs, what, sent });
    }

    /// Forgets the oldest ones that a machine of this node has committed.
    pub(super) fn forget_committed(&mut self, is_reached: impl Fn(Ticket) -> bool) {
        let is_committed =
            |decided: &mut Decided| matches!(decided.sent, Some(Sent::Here(ticket)) if is_reached(ticket));
        while let Some(Decided { by, .. }) = self.decided.pop_front_if(is_committed) {
            self.forget_if_over(by);
        }
    }

    /// The other end of a lane is to be asked how far it has committed decisions. Returns the number of the last one; `None` if it was asked
    /// already, or there are none.
    pub(super) fn ask(&mut self, lane: StreamId) -> Option<u64> {
        let of_lane = |decided: &&Decided| matches!(decided.sent, Some(Sent::Away(at)) if at == lane);
        let last = self.decided.iter().rev().find(of_lane)?.number;
        self.asked.insert(lane).then_some(last)
    }

    /// It has answered: those up to this number are committed, or it can't say.
    pub(super) fn answered(&mut self, lane: StreamId, through: Option<u64>) {
        self.asked.remove(&lane);
        if let Some(through) = through {
            let is_over = |decided: &Decided| {
                matches!(decided.sent, Some(Sent::Away(at)) if at == lane) && decided.number <= through
            };
            let mut over = BTreeSet::new();
            self.decided.retain(|decided| {
                let is_over = is_over(decided);
                if is_over {
                    over.insert(decided.by);
                }
                !is_over
            });
            over.into_iter().for_each(|key| self.forget_if_over(key));
        }
    }

    /// All messages that may still be in the queue and aren't ready: those that are held, and those about which was decided that they leave
    /// it or change.
    pub(super) fn report(&self) -> Vec<Run> {
        let decided = self.decided.iter().filter(|decided| !decided.what.returns()).flat_map(|decided| &decided.runs);
        self.holders.values().flat_map(|holder| holder.held.runs()).chain(decided.copied()).collect()
    }

    /// Those who hold something, or did when they decided about it. Decisions are forgotten by which messages returned that somebody has been
    /// given since.
    pub(super) fn keys(&mut self) -> BTreeSet<HolderKey> {
        let mut given = HeldSet::default();
        given.add(self.report());
        for decided in self.decided.iter_mut().filter(|decided| decided.what.returns()) {
            let runs = std::mem::take(&mut decided.runs);
            decided.runs = runs.into_iter().flat_map(|run| given.without(run)).collect();
        }
        self.decided.retain(|decided| !decided.runs.is_empty());
        self.holders.keys().copied().chain(self.decided.iter().map(|decided| decided.by)).collect()
    }

    /// All that it holds, or has decided about.
    pub(super) fn all_of(&self, key: HolderKey) -> Vec<Run> {
        let held = self.holders.get(&key).into_iter().flat_map(|holder| holder.held.runs());
        let decided = self.decided.iter().filter(|decided| decided.by == key).flat_map(|decided| &decided.runs);
        held.chain(decided.copied()).collect()
    }

    /// A machine of this node knows it from now on, with these messages and no others.
    pub(super) fn known_with(&mut self, key: HolderKey, at: StreamId, runs: &[Run]) {
        let mut left = HeldSet::default();
        left.add(runs.to_vec());
        for decided in self.decided.iter_mut().filter(|decided| decided.by == key) {
            decided.runs = left.remove(&decided.runs);
        }
        self.decided.retain(|decided| !decided.runs.is_empty());
        if let Some(holder) = self.holders.get_mut(&key) {
            (holder.at, holder.held) = (Some(at), left);
        }
        self.forget_if_over(key);
    }

    /// Its decisions so far, the oldest first, to be sent again: `send` says where.
    pub(super) fn send_again(&mut self, key: HolderKey, mut send: impl FnMut(&[Run], &Decision) -> Sent) {
        let of_key = |decided: &&mut Decided| decided.by == key && !is_planted(Bug::ForgetDecisions);
        for decided in self.decided.iter_mut().filter(of_key) {
            decided.sent = Some(send(&decided.runs, &decided.what));
        }
    }
}
