//! Messages that clients of this node hold of a replicated queue, and decisions about them that may not be committed yet.
//!
//! A leader tells its replicas what has left a queue, not what it has handed out. So after a change of the leader each node says what its
//! clients hold before anything is handed out again, and sends their last decisions once more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leveret_message::Added;
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, CreditState, HeldSet, Link, Run, Signal, Taken,
};

use crate::claims::{Claims, HandedOut, HeldByTime};
use crate::decision_answer::DecisionAnswer;
use crate::planted::{Bug, is_planted};
use crate::remote::CallKind;
use crate::settlement::Settlement;
use crate::ticket::{StreamId, Ticket};
use crate::wait_for::WaitFor;

/// Number of kept decisions from which on all of them are looked at now and then.
const SWEEP_FROM: usize = 64;

/// The machine, or the lane to the leader, of one leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub stream: StreamId,
    pub term: u64,
}

/// One who holds messages: a consumer, or those who get messages one by one, of a core.
pub(crate) type HolderKey = (usize, Option<ConsumerId>);

/// All of this node's, of one queue.
#[derive(Default)]
pub(crate) struct Clients {
    holders: BTreeMap<HolderKey, Holder>,
    /// The oldest first.
    decided: VecDeque<Decided>,
    /// Number of decisions so far.
    count: u64,
    /// Number of kept decisions at which all of them are looked at, and not only the oldest.
    sweep_at: usize,
    /// Leaders elsewhere that were asked which of them are committed.
    asked: BTreeSet<At>,
}

/// One who holds messages.
#[derive(Default)]
pub(crate) struct Holder {
    /// The consumer, until it leaves.
    pub(crate) consumer: Option<Registered>,
    /// Where it is known.
    pub(crate) at: Option<At>,
    /// Where it is registered now: it isn't known yet which of its messages that one keeps for it.
    coming: Option<At>,
    /// Where it was registered last, and may be known still.
    last: Option<At>,
    /// Whether it has said something since that wasn't sent there: no leader was known then. It is registered again even if that one leads
    /// again.
    is_behind: bool,
    held: HeldByTime,
}

/// A consumer as it is registered.
pub(crate) struct Registered {
    pub options: ConsumerOptions,
    /// The delivery-count of its link (AMQP 1.0, 2.6.7).
    pub delivery_count: u32,
    /// The receiver's delivery-count and credit as last granted, and whether unused credit is given up.
    pub granted: Option<(u32, u32, bool)>,
    /// Number of grants so far.
    grants: u32,
    /// Its registration number, which the first leader has given.
    pub registered: Option<u64>,
}

/// A decision about messages that were held.
struct Decided {
    number: u64,
    by: HolderKey,
    claims: Claims,
    what: Decision,
    sent: Option<Sent>,
    /// The client's answer that waits for it, wherever it is carried out.
    answer: Option<DecisionAnswer>,
}

/// A decision.
#[derive(Clone)]
pub(crate) enum Decision {
    Settle(Settlement),
    /// They return with annotations.
    Modify {
        failed: bool,
        added: Arc<Added>,
    },
}

/// Where a decision was sent.
#[derive(Clone)]
pub(crate) enum Sent {
    /// To a machine of this node, which had appended it before this place.
    Here(Ticket),
    /// To a machine of this node, as a rejection that is over once its messages have been dead-lettered.
    Moving(WaitFor),
    /// To this leader on another node.
    Away(At),
    /// To a leader on another node, as a rejection that it answers.
    Answered,
}

impl Holder {
    /// It took messages. Returns those that are settled by that, if it is a consumer of such.
    #[must_use]
    pub(crate) fn takes(&mut self, taken: &[Taken]) -> Option<Claims> {
        let claims = self.claims_of(taken);
        if let Some(consumer) = &mut self.consumer {
            let count: u32 = taken.iter().map(|taken| taken.count).sum();
            consumer.delivery_count = consumer.delivery_count.wrapping_add(count);
            if consumer.options.automatic_ack {
                return Some(claims);
            }
            if consumer.options.mode == ConsumerMode::Copy {
                return None;
            }
        }
        self.held.add(&claims);
        None
    }

    /// Messages that it is given now.
    fn claims_of(&self, taken: &[Taken]) -> Claims {
        Claims::taken(self.at.map_or(0, |at| at.term), taken)
    }

    /// It got a message.
    pub(crate) fn gets(&mut self, taken: &Taken) {
        self.held.add(&self.claims_of(std::slice::from_ref(taken)));
    }
}

impl Registered {
    pub(crate) fn new(options: ConsumerOptions) -> Self {
        let delivery_count = match options.flow {
            ConsumerFlow::Credit { delivery_count } => delivery_count,
            ConsumerFlow::Prefetch(_) => 0,
        };
        Self { options, delivery_count, granted: None, grants: 0, registered: None }
    }

    /// Its receiver grants credit. Returns the number of the grant.
    pub(crate) fn grant(&mut self, delivery_count: u32, link_credit: u32, drain: bool) -> u32 {
        // It knows of credit that was given up, which counts as delivered.
        if delivery_count.wrapping_sub(self.delivery_count).cast_signed() > 0 {
            self.delivery_count = delivery_count;
        }
        self.granted = Some((delivery_count, link_credit, drain));
        self.grants = self.grants.wrapping_add(1);
        self.grants
    }

    /// Its options as it is to be registered now.
    pub(crate) fn options_now(&self) -> ConsumerOptions {
        let mut options = self.options.clone();
        if options.flow.is_credit() {
            options.flow = ConsumerFlow::Credit { delivery_count: self.delivery_count };
        }
        options
    }

    /// If unused credit was to be given up, it is. Returns what its link is told then.
    pub(crate) fn give_up_credit(&mut self) -> Option<(Arc<dyn Link>, Signal)> {
        let (counted, credit, _) = self.granted.take_if(|(.., drain)| *drain)?;
        self.delivery_count = counted.wrapping_add(credit);
        let (key, delivery_count) = (self.options.key, self.delivery_count);
        Some((self.options.link.clone(), Signal::Drained { key, delivery_count, available: 0 }))
    }
}

impl Decision {
    fn is_requeue(&self) -> bool {
        matches!(self, Self::Settle(Settlement::Requeue { .. }))
    }

    fn returns(&self) -> bool {
        self.is_requeue() || matches!(self, Self::Modify { .. })
    }

    /// It as a call on the leader's node.
    pub(crate) fn call(&self, consumer: Option<ConsumerId>, runs: Vec<Run>) -> CallKind {
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
    pub(crate) fn add(&mut self, key: HolderKey, consumer: Registered, at: Option<At>) {
        self.holders.insert(key, Holder { consumer: Some(consumer), at, last: at, ..Holder::default() });
    }

    /// A consumer leaves. What it holds stays with it until it is settled.
    pub(crate) fn leave(&mut self, key: HolderKey) -> Option<Registered> {
        let left = self.holders.get_mut(&key)?.consumer.take();
        self.forget_if_over(key);
        left
    }

    /// The queue is gone. Returns its consumers.
    pub(crate) fn leave_all(&mut self) -> Vec<(HolderKey, Registered)> {
        self.decided.clear();
        let holders = std::mem::take(&mut self.holders);
        holders.into_iter().filter_map(|(key, holder)| Some((key, holder.consumer?))).collect()
    }

    pub(crate) fn holder(&mut self, key: HolderKey) -> Option<&mut Holder> {
        self.holders.get_mut(&key)
    }

    pub(crate) fn holder_or_new(&mut self, key: HolderKey, at: At) -> &mut Holder {
        self.holders.entry(key).or_insert_with(|| Holder { at: Some(at), ..Holder::default() })
    }

    /// One that is registered with this leader on another node from now on. If it holds something, what it says waits for the answer: the
    /// leader may give it a message again that it has, and what was said about the earlier delivery isn't about that one.
    pub(crate) fn registered_at(&mut self, key: HolderKey, at: At, is_holder: bool) {
        let holder = self.holders.entry(key).or_default();
        (holder.last, holder.is_behind) = (Some(at), false);
        (holder.at, holder.coming) = if is_holder { (None, Some(at)) } else { (Some(at), None) };
    }

    /// Where it was registered last, and may be known still.
    pub(crate) fn last_of(&self, key: HolderKey) -> Option<At> {
        self.holders.get(&key)?.last
    }

    /// The leader on another node where it is registered keeps these messages for it, and no others. Returns whether it is that one still,
    /// and whether it has said something since.
    pub(crate) fn taken_over(&mut self, key: HolderKey, at: At, runs: &[Run]) -> (bool, bool) {
        if self.holders.get(&key).is_none_or(|holder| holder.coming != Some(at)) {
            return (false, false);
        }
        // A decision that was sent may be carried out, which another leader doesn't know yet.
        let left = self.left_of(key, (runs, at), |decided| decided.sent.is_none());
        let is_behind = self.is_known_with(key, at, left);
        (true, is_behind)
    }

    /// The messages that it holds of these, which a leader keeps for it. Decisions that are `bound` to them are about no others. One that is
    /// neither held nor decided about was decided about before the leader's answer came, and is carried out there.
    fn left_of(
        &mut self,
        key: HolderKey,
        (runs, at): (&[Run], At),
        bound: impl Fn(&Decided) -> bool,
    ) -> Vec<(HandedOut, Run)> {
        let held = self.release(key, runs);
        let mut left = HeldSet::of(runs);
        let kept_at = HandedOut { term: at.term, returns: 0 };
        for decided in self.decided.iter_mut().filter(|decided| decided.by == key) {
            let kept = left.remove(decided.claims.runs());
            let others = if bound(decided) { Claims::default() } else { decided.claims.without(&HeldSet::of(&kept)) };
            decided.claims = kept.into_iter().map(|run| (kept_at, run)).chain(others.iter()).collect();
        }
        self.end_empty();
        held.runs().iter().map(|run| (kept_at, *run)).collect()
    }

    /// It is known there, and holds these. Returns whether it has said something that wasn't sent.
    fn is_known_with(&mut self, key: HolderKey, at: At, left: Vec<(HandedOut, Run)>) -> bool {
        let Some(holder) = self.holders.get_mut(&key) else { return false };
        let mut held = HeldByTime::default();
        held.add(&left.into_iter().collect());
        let is_behind = std::mem::take(&mut holder.is_behind);
        (holder.at, holder.coming, holder.last, holder.held) = (Some(at), None, Some(at), held);
        self.forget_if_over(key);
        is_behind
    }

    /// A leader on another node doesn't know it. Returns whether it was that one.
    pub(crate) fn unknown_at(&mut self, key: HolderKey, at: Option<At>) -> bool {
        let is_there = |holder: &&mut Holder| holder.at == at || at.is_some() && holder.coming == at;
        let Some(holder) = self.holders.get_mut(&key).filter(is_there) else { return false };
        (holder.at, holder.coming) = (None, None);
        self.unsend(key);
        true
    }

    /// It has said something while there was nobody to send it to.
    pub(crate) fn is_behind(&mut self, key: HolderKey) {
        if let Some(holder) = self.holders.get_mut(&key) {
            holder.is_behind = true;
        }
    }

    /// Whether it is to be registered there.
    pub(crate) fn is_to_come(&self, key: HolderKey, at: At) -> bool {
        let is_there = |holder: &Holder| holder.coming == Some(at) || holder.at == Some(at) && !holder.is_behind;
        !self.holders.get(&key).is_some_and(is_there)
    }

    pub(crate) fn consumer(&mut self, key: HolderKey) -> Option<&mut Registered> {
        self.holders.get_mut(&key)?.consumer.as_mut()
    }

    pub(crate) fn consumers(&self) -> impl Iterator<Item = &Registered> {
        self.holders.values().filter_map(|holder| holder.consumer.as_ref())
    }

    /// Notes the state of a link as its queue has answered to a grant, unless there was another one since.
    pub(crate) fn granted(&mut self, key: HolderKey, grant: u32, state: Option<CreditState>) {
        if let Some(state) = state
            && state.credit == 0
            && let Some(consumer) = self.consumer(key).filter(|consumer| consumer.grants == grant)
        {
            consumer.delivery_count = state.delivery_count;
            consumer.granted = None;
        }
    }

    /// Whether this consumer is there.
    pub(crate) fn has_consumer(&self, id: ConsumerId) -> bool {
        self.holders.iter().any(|((_, of), holder)| *of == Some(id) && holder.consumer.is_some())
    }

    /// Notes the registration number that the leader has given a consumer.
    pub(crate) fn registered(&mut self, key: HolderKey, number: u64) {
        if let Some(consumer) = self.consumer(key).filter(|_| number != 0) {
            consumer.registered = Some(number);
        }
    }

    /// Where it is known, or what it decides is sent.
    pub(crate) fn at(&self, key: HolderKey) -> Option<At> {
        self.holders.get(&key)?.at
    }

    /// The messages of these that it holds: it doesn't any more.
    pub(crate) fn release(&mut self, key: HolderKey, runs: &[Run]) -> Claims {
        self.holders.get_mut(&key).map_or_else(Claims::default, |holder| holder.held.remove(runs))
    }

    fn forget_if_over(&mut self, key: HolderKey) {
        let is_over = |holder: &Holder| holder.consumer.is_none() && holder.held.is_empty();
        if self.holders.get(&key).is_some_and(is_over) && !self.decided.iter().any(|decided| decided.by == key) {
            self.holders.remove(&key);
        }
    }

    /// Keeps a decision until it is known to be committed. Returns its number.
    pub(crate) fn decided(&mut self, by: HolderKey, claims: Claims, what: Decision, sent: Option<Sent>) -> u64 {
        self.count += 1;
        if sent.is_none() {
            self.is_behind(by);
        }
        self.decided.push_back(Decided { number: self.count, by, claims, what, sent, answer: None });
        self.count
    }

    /// The client's answer to a decision waits for it.
    pub(crate) fn awaited(&mut self, number: u64, answer: DecisionAnswer) {
        if let Some(decided) = self.decided.iter_mut().rev().find(|decided| decided.number == number) {
            decided.answer = Some(answer);
        }
    }

    /// Forgets the oldest ones that machines of this node have committed, and now and then all of these.
    pub(crate) fn forget_committed(&mut self, is_over: impl Fn(&Sent) -> bool) {
        let is_over = |decided: &mut Decided| decided.sent.as_ref().is_some_and(&is_over);
        let mut over = Vec::new();
        while let Some(decided) = self.decided.pop_front_if(is_over) {
            over.push(decided);
        }
        if self.decided.len() >= self.sweep_at.max(SWEEP_FROM) {
            // Rejections whose dead letters wait hold up those behind them.
            let mut kept = VecDeque::new();
            for mut decided in std::mem::take(&mut self.decided) {
                if is_over(&mut decided) { over.push(decided) } else { kept.push_back(decided) }
            }
            self.decided = kept;
            self.sweep_at = 2 * self.decided.len();
        }
        over.into_iter().for_each(|decided| self.end(decided));
    }

    /// Decisions without messages are over: theirs have left the queue, or were given to others since.
    fn end_empty(&mut self) {
        let is_empty = |decided: &Decided| decided.claims.is_empty();
        let (over, kept) = std::mem::take(&mut self.decided).into_iter().partition::<Vec<_>, _>(is_empty);
        self.decided = kept.into();
        over.into_iter().for_each(|decided| self.end(decided));
    }

    fn end(&mut self, decided: Decided) {
        self.forget_if_over(decided.by);
        if let Some(answer) = decided.answer {
            answer.over();
        }
    }

    /// The numbers of those decisions that a client's answer waits for, and that a machine of this node had appended before their tickets.
    pub(crate) fn awaited_here(&self) -> Vec<(u64, Ticket)> {
        let awaited = self.decided.iter().filter(|decided| decided.answer.is_some());
        let here = awaited.filter_map(|decided| match decided.sent {
            Some(Sent::Here(ticket)) => Some((decided.number, ticket)),
            _ => None,
        });
        here.collect()
    }

    /// A leader has answered that this one is carried out for good.
    pub(crate) fn over(&mut self, number: u64) {
        if let Some(at) = self.decided.iter().position(|decided| decided.number == number)
            && let Some(decided) = self.decided.remove(at)
        {
            self.end(decided);
        }
    }

    /// A leader is to be asked how far it has committed decisions. Returns the number of the last one; `None` if it was asked already, or
    /// there are none.
    pub(crate) fn ask(&mut self, leader: At) -> Option<u64> {
        let is_of = |decided: &&Decided| matches!(decided.sent, Some(Sent::Away(at)) if at == leader);
        let last = self.decided.iter().rev().find(is_of)?.number;
        self.asked.insert(leader).then_some(last)
    }

    /// It has answered: those up to this number are committed, or it can't say.
    pub(crate) fn answered(&mut self, leader: At, through: Option<u64>) {
        self.asked.remove(&leader);
        if let Some(through) = through {
            let is_over = |decided: &Decided| {
                matches!(decided.sent, Some(Sent::Away(at)) if at == leader) && decided.number <= through
            };
            let (over, kept) = std::mem::take(&mut self.decided).into_iter().partition::<Vec<_>, _>(is_over);
            self.decided = kept.into();
            over.into_iter().for_each(|decided| self.end(decided));
        }
    }

    /// All messages that may still be in the queue and aren't ready: those that are held, and those about which was decided that they leave
    /// it or change.
    pub(crate) fn report(&mut self) -> Claims {
        self.forget_given();
        self.forget_earlier();
        let decided = self.decided.iter().filter(|decided| !decided.what.is_requeue());
        let decided = decided.flat_map(|decided| decided.claims.iter());
        self.holders.values().flat_map(|holder| holder.held.iter()).chain(decided).collect()
    }

    /// Forgets decisions by which messages returned that somebody has been given since.
    fn forget_given(&mut self) {
        let left = self.decided.iter().filter(|decided| !decided.what.returns());
        let left = left.flat_map(|decided| decided.claims.runs().iter().copied());
        let held = self.holders.values().flat_map(|holder| holder.held.iter()).map(|(_, run)| run);
        let mut given = HeldSet::default();
        given.add(held.chain(left).collect());
        for decided in self.decided.iter_mut().filter(|decided| decided.what.returns()) {
            decided.claims = decided.claims.without(&given);
        }
        self.end_empty();
    }

    /// Of two who claim a message, only the one has it to whom it was handed out last: the link of the other one's core has broken, which that
    /// doesn't know yet.
    fn forget_earlier(&mut self) {
        let held = self.holders.iter().flat_map(|(key, holder)| holder.held.iter().map(|claim| (None, *key, claim)));
        let decided = self.decided.iter().enumerate().filter(|(_, decided)| !decided.what.returns());
        let decided =
            decided.flat_map(|(at, decided)| decided.claims.iter().map(move |claim| (Some(at), decided.by, claim)));
        let mut all: Vec<_> = held.chain(decided).collect();
        all.sort_by_key(|(.., (at, _))| Reverse(*at));
        let mut given = HeldSet::default();
        for (decision, key, (at, run)) in all {
            let mut earlier = HeldSet::of(&[run]);
            let news = given.without(run);
            drop(earlier.remove(&news));
            let earlier: Vec<_> = earlier.runs().collect();
            if !earlier.is_empty() {
                match decision {
                    Some(at) => self.decided[at].claims = self.decided[at].claims.without(&HeldSet::of(&earlier)),
                    None => {
                        let holder = self.holders.get_mut(&key).expect("it claims messages");
                        holder.held.remove_of(at, &earlier);
                        self.forget_if_over(key);
                    }
                }
            }
            given.add(news);
        }
        self.end_empty();
    }

    /// All who hold something, or did when they decided about it.
    pub(crate) fn keys(&mut self) -> BTreeSet<HolderKey> {
        self.forget_given();
        self.forget_earlier();
        self.holders.keys().copied().chain(self.decided.iter().map(|decided| decided.by)).collect()
    }

    /// All that it holds, or has decided about.
    pub(crate) fn all_of(&self, key: HolderKey) -> Vec<Run> {
        let held = self.held_by(key).into_iter();
        let decided = self.decided.iter().filter(|decided| decided.by == key);
        held.chain(decided.flat_map(|decided| decided.claims.runs().iter().copied())).collect()
    }

    /// The messages that it holds.
    pub(crate) fn held_by(&self, key: HolderKey) -> Vec<Run> {
        self.holders.get(&key).into_iter().flat_map(|holder| holder.held.iter()).map(|(_, run)| run).collect()
    }

    /// A machine of this node knows it from now on, with these messages and no others.
    pub(crate) fn known_with(&mut self, key: HolderKey, at: At, runs: &[Run]) {
        let left = self.left_of(key, (runs, at), |_| true);
        self.is_known_with(key, at, left);
    }

    /// Its decisions weren't carried out where they were sent.
    fn unsend(&mut self, key: HolderKey) {
        self.decided.iter_mut().filter(|decided| decided.by == key).for_each(|decided| decided.sent = None);
    }

    /// A leader elsewhere may not have carried out decisions that were sent there: whoever made them is to be registered there again. Returns
    /// whether there are some.
    pub(crate) fn unsend_all(&mut self, leader: At) -> bool {
        let mut by = BTreeSet::new();
        // Decisions of holders that are coming were sent once more since the question.
        let is_coming = |holder: &Holder| holder.coming == Some(leader);
        let holders = &self.holders;
        for decided in self.decided.iter_mut().filter(|decided| !holders.get(&decided.by).is_some_and(is_coming)) {
            if decided.sent.take_if(|sent| matches!(sent, Sent::Away(at) if *at == leader)).is_some() {
                by.insert(decided.by);
            }
        }
        for key in &by {
            if let Some(holder) = self.holders.get_mut(key).filter(|holder| holder.at == Some(leader)) {
                holder.at = None;
            }
        }
        !by.is_empty()
    }

    /// Its decisions so far, the oldest first, to be sent again: `send` says where.
    pub(crate) fn send_again(&mut self, key: HolderKey, send: impl FnMut(u64, &[Run], &Decision) -> Sent) {
        self.send_those(|decided| decided.by == key && !is_planted(Bug::ForgetDecisions), send);
    }

    /// Its decisions that weren't sent anywhere, the oldest first.
    pub(crate) fn send_rest(&mut self, key: HolderKey, send: impl FnMut(u64, &[Run], &Decision) -> Sent) {
        self.send_those(|decided| decided.by == key && decided.sent.is_none(), send);
    }

    fn send_those(
        &mut self,
        is_meant: impl Fn(&Decided) -> bool,
        mut send: impl FnMut(u64, &[Run], &Decision) -> Sent,
    ) {
        for decided in self.decided.iter_mut().filter(|decided| is_meant(decided)) {
            decided.sent = Some(send(decided.number, decided.claims.runs(), &decided.what));
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::{Batch, BatchBuilder, StoredMessage};
    use leveret_queue::AttemptCounts;

    use super::*;

    fn taken(first: u64, acquired: u32) -> Taken {
        let mut builder = BatchBuilder::default();
        builder.push_message(&StoredMessage { body: b"x", ..StoredMessage::default() });
        let batch: Arc<Batch> = builder.finish().into();
        let attempts = AttemptCounts { acquired, failed: 0 };
        Taken { batch, index: 0, count: 1, first, redelivered: acquired > 0, attempts, durable: true }
    }

    #[test]
    fn of_two_clients_of_a_node_the_later_one_has_a_message() {
        let at = At { stream: StreamId(7), term: 3 };
        let (lost, other): (HolderKey, HolderKey) = ((0, None), (1, None));
        let mut clients = Clients::default();
        clients.holder_or_new(other, at).gets(&taken(5, 1));
        // Its core hears late of what was sent to it before its link broke.
        [4, 5].into_iter().for_each(|number| clients.holder_or_new(lost, at).gets(&taken(number, 0)));
        let acknowledged = clients.release(lost, &taken(4, 0).runs());
        let what = Decision::Settle(Settlement::Acknowledge);
        clients.decided(lost, acknowledged, what, None);
        clients.holder_or_new(other, at).gets(&taken(4, 2));
        let reported: Vec<_> = clients.report().iter().map(|(at, run)| (at.returns, run.first)).collect();
        assert_eq!(reported, [(1, 5), (2, 4)]);
        assert!(clients.all_of(lost).is_empty() && clients.keys().into_iter().eq([other]));
    }
}
