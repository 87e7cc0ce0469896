//! The dispatcher's view of consumers: it decides whose turn it is.
//!
//! While messages are ready, an unscheduled consumer with credit and room is scheduled: the highest priority first, round robin
//! among equals. Only the dispatcher knows how much credit a consumer has left; sessions relay changes.
//!
//! No call scans all consumers, because a queue may have tens of thousands of them. Each consumer is in the orders that match
//! its state ([`Consumers::refresh`]), and every question is answered from the ends of these orders.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::comebacks::Comebacks;
use super::consumer::{Consumer, ConsumerMode, ConsumerOptions};
use super::order::Order;
use super::single_active::{Activity, Changes, SingleActive};
use crate::consumer_id::ConsumerId;
use crate::effects::{Effects, Ended, Signal, TOLD_AT_ONCE_MAX};
use crate::nanos::Nanos;

/// Limit of messages reserved for a consumer while others wait for a turn: without it, a consumer without a prefetch
/// limit would reserve a whole backlog, and later consumers would get nothing.
const PROMISE_MAX: u64 = 1024;

/// A priority as the key of a level: the highest comes first.
type Priority = Reverse<i32>;

/// All consumers of one queue.
#[derive(Default)]
pub(crate) struct Consumers {
    /// Boxed: when the map grows, moving tens of thousands of whole consumers would take milliseconds.
    all: FxHashMap<ConsumerId, Box<Consumer>>,
    /// Consumers by priority. Most queues have one level.
    levels: BTreeMap<Priority, Level>,
    /// Contains all levels with members that could be given messages; may contain others, too.
    waiting: BTreeSet<Priority>,
    /// Contains all levels that messages are reserved for; may contain others. [`Consumers::schedule`] leaves at most
    /// one of these others.
    promising: BTreeSet<Priority>,
    /// Levels with draining members.
    draining: BTreeSet<Priority>,
    /// Number of consumers that take messages and are scheduled.
    scheduled: usize,
    /// Consumers that could take a message and aren't scheduled.
    in_rings: usize,
    /// Sum of the credit of consumers that could take a message now.
    open_credit: u64,
    /// Draining consumers whose credit is used up, or to which nothing is available.
    spent: Vec<ConsumerId>,
    /// Consumers that browse or have a filter, could get a message and aren't scheduled, by the number from which on they look
    /// ([`super::seeker::Seeker::looks_from`]). No messages are reserved for them, so they need no turns.
    idle_seekers: BTreeSet<(u64, ConsumerId)>,
    /// The draining ones among them, by the same number.
    draining_seekers: BTreeSet<(u64, ConsumerId)>,
    browsers: usize,
    /// Number of consumers that take messages and have a filter.
    filtering: usize,
    /// Messages that came back since there are any.
    came_back: Comebacks,
    /// Consumers that could take a message that they claimed and aren't scheduled.
    idle_fetchers: BTreeSet<ConsumerId>,
    exclusive: Option<ConsumerId>,
    /// The choice of the single active consumer, if the queue has one. Browsing consumers aren't part of it.
    single: Option<Box<SingleActive>>,
    /// Consumers with link credit.
    links: usize,
    /// The last registration number that was given.
    registered: u64,
}

/// Most consumers that one from before a change of the leader passes on its way to its old place among those that wait for a turn.
const PASSED_MAX: usize = 1000;

/// Consumers of the same priority.
#[derive(Default)]
struct Level {
    members: usize,
    /// Unscheduled consumers that could take messages, in the order of their turns.
    ring: Order,
    /// Scheduled consumers with more credit than messages reserved for them; the one that was given messages last is at
    /// the end.
    spare: Order,
    /// Consumers that messages are reserved for; the one that was given some last is at the end.
    holders: Order,
    /// The holders for which more than [`PROMISE_MAX`] messages are reserved.
    large: Order,
    /// Draining consumers in the order in which they asked.
    draining: Order,
    /// Sum of all promises.
    promised: u64,
    /// Whether the level is in [`Consumers::waiting`].
    is_waiting: bool,
    /// Whether the level is in [`Consumers::promising`].
    is_promising: bool,
}

impl Consumers {
    pub(crate) fn new(single: Option<SingleActive>) -> Self {
        Self { single: single.map(Box::new), ..Self::default() }
    }

    /// Whether only one of its consumers gets messages.
    pub(crate) fn has_single_active(&self) -> bool {
        self.single.is_some()
    }

    /// The choice of the single active consumer, if the queue has one.
    pub(crate) fn single(&mut self) -> Option<&mut SingleActive> {
        self.single.as_deref_mut()
    }

    /// The consumer that the queue waits for, since it may be served elsewhere.
    pub(crate) fn awaited_active(&self) -> Option<ConsumerId> {
        self.single.as_ref()?.awaited()
    }

    /// Elects the single active consumer. Returns the consumers whose activity changed.
    pub(crate) fn elect(&mut self, now: Nanos) -> SmallVec<[ConsumerId; 2]> {
        let Some(single) = &mut self.single else { return SmallVec::new() };
        let all = &self.all;
        let changes = single.elect(|id| all.get(&id).is_some_and(|consumer| consumer.unacknowledged > 0));
        self.change_activities(changes, now)
    }

    /// Consumers have other parts from now on. Returns them.
    pub(crate) fn change_activities(&mut self, changes: Changes, now: Nanos) -> SmallVec<[ConsumerId; 2]> {
        let change = |(id, activity): (ConsumerId, Activity)| {
            if let Some(consumer) = self.all.get_mut(&id) {
                (consumer.activity, consumer.changed) = (activity, now);
            }
            match activity.is_served() {
                true => self.refresh(id),
                false => self.unschedule(id),
            }
            id
        };
        changes.into_iter().map(change).collect()
    }

    /// The consumer can't, or can again, be the single active one.
    pub(crate) fn set_aside(&mut self, id: ConsumerId, aside: bool) {
        if let Some(single) = &mut self.single {
            single.set_aside(id, aside);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of consumers that take messages, with or without a filter.
    pub(crate) fn movers(&self) -> usize {
        self.all.len() - self.browsers
    }

    /// Number of consumers with link credit (AMQP 1.0).
    pub(crate) fn links(&self) -> usize {
        self.links
    }

    /// Whether any consumer is scheduled. When messages are ready, all consumers that can take any are scheduled.
    pub(crate) fn any_scheduled(&self) -> bool {
        self.scheduled > 0
    }

    /// Whether any consumer could take a message now.
    pub(crate) fn any_able(&self) -> bool {
        self.scheduled > 0 || self.in_rings > 0
    }

    /// Number of messages that consumers could take now, including messages reserved for them.
    pub(crate) fn open_credit(&self) -> u64 {
        self.open_credit
    }

    pub(crate) fn exclusive(&self) -> Option<ConsumerId> {
        self.exclusive
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ConsumerId, &Consumer)> {
        self.all.iter().map(|(id, consumer)| (id, &**consumer))
    }

    pub(crate) fn look(&self, id: ConsumerId) -> Option<&Consumer> {
        self.all.get(&id).map(|consumer| &**consumer)
    }

    /// A consumer to be changed. The caller has to call [`Consumers::refresh`] or [`Consumers::end_turn`] afterwards.
    pub(crate) fn find(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.all.get_mut(&id).map(|consumer| &mut **consumer)
    }

    /// Changes a consumer, and updates its place in all orders.
    pub(crate) fn update<R>(&mut self, id: ConsumerId, change: impl FnOnce(&mut Consumer) -> R) -> Option<R> {
        let result = change(self.all.get_mut(&id)?);
        self.refresh(id);
        Some(result)
    }

    /// Whether consumers differ in priority.
    pub(crate) fn has_priorities(&self) -> bool {
        self.levels.len() > 1
    }

    /// Registration numbers are higher than this one from now on.
    pub(crate) fn register_from(&mut self, number: u64) {
        self.registered = number;
    }

    /// Adds a consumer. An `exclusive` one keeps others away. One that comes from an earlier leader has its registration number from there.
    pub(crate) fn add(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        (exclusive, registered): (bool, Option<u64>),
        now: Nanos,
    ) {
        if exclusive {
            self.exclusive = Some(id);
        }
        self.links += usize::from(options.flow.is_credit());
        let mut consumer = Box::new(Consumer::new(options, &self.came_back, now));
        consumer.keeps_order = registered.is_some();
        consumer.registered = registered.unwrap_or(self.registered + 1);
        self.registered = self.registered.max(consumer.registered);
        let options = &consumer.options;
        if options.mode == ConsumerMode::Copy {
            self.browsers += 1;
        } else {
            self.filtering += usize::from(options.filter.is_some());
            self.levels.entry(Reverse(options.priority)).or_default().members += 1;
            if let Some(single) = &mut self.single {
                single.add(id, options.priority, consumer.registered);
                consumer.activity = Activity::Waiting;
            }
        }
        let replaced = self.all.insert(id, consumer);
        debug_assert!(replaced.is_none(), "consumer ids are unique");
        self.refresh(id);
    }

    /// Removes a consumer; returns whether it existed.
    pub(crate) fn remove(&mut self, id: ConsumerId) -> bool {
        // A consumer without room is only in the orders of its promise and its drain.
        let Some(consumer) = self.all.get_mut(&id) else { return false };
        consumer.room = false;
        consumer.draining = false;
        self.unschedule(id);
        let consumer = self.all.remove(&id).expect("found above");
        self.links -= usize::from(consumer.options.flow.is_credit());
        if self.exclusive == Some(id) {
            self.exclusive = None;
        }
        if let Some(single) = &mut self.single {
            single.remove(id);
        }
        if consumer.options.mode == ConsumerMode::Copy {
            self.browsers -= 1;
            return true;
        }
        self.filtering -= usize::from(consumer.options.filter.is_some());
        if self.filtering == 0 {
            self.came_back.clear();
        }
        let priority = Reverse(consumer.options.priority);
        let level = self.level(priority);
        level.members -= 1;
        if level.members == 0 {
            self.levels.remove(&priority);
            self.waiting.remove(&priority);
            self.promising.remove(&priority);
        }
        true
    }

    fn level(&mut self, priority: Priority) -> &mut Level {
        self.levels.get_mut(&priority).expect("a consumer has its level")
    }

    /// Puts a consumer into the orders that match its state.
    pub(crate) fn refresh(&mut self, id: ConsumerId) {
        self.change(id, |_| ());
    }

    /// Changes a consumer, and puts it into the orders that match its state.
    #[inline]
    fn change(&mut self, id: ConsumerId, change: impl FnOnce(&mut Consumer)) {
        let Some(consumer) = self.all.get_mut(&id) else { return };
        change(consumer);
        let credit = consumer.credit();
        // Nothing is available to a consumer that another one keeps from getting messages, or that has to settle some first.
        let is_kept_away = consumer.overdue || !consumer.activity.is_served();
        let has_drained = consumer.draining && (credit == 0 || is_kept_away);
        if has_drained && !consumer.standing.spent {
            self.spent.push(id);
        }
        consumer.standing.spent = has_drained;
        let is_eligible = consumer.is_eligible();
        let is_seeker = consumer.options.mode == ConsumerMode::Copy || consumer.options.filter.is_some();
        if is_seeker {
            let seeker = consumer.seeker.as_ref();
            let from = seeker.map(|seeker| seeker.looks_from(&self.came_back));
            let is_idle = is_eligible && !consumer.scheduled && seeker.is_some_and(|seeker| seeker.reads.is_able());
            // The messages that it claimed are available to it, whatever it looks at.
            let drains = consumer.draining && consumer.claims.is_none();
            let standing = &mut consumer.standing;
            rekey(&mut self.idle_seekers, &mut standing.idle_at, from.filter(|_| is_idle), id);
            rekey(&mut self.draining_seekers, &mut standing.draining_at, from.filter(|_| drains), id);
        }
        // It has to look at the ready messages before it is known which of them it takes.
        let open = if is_eligible && !is_seeker { credit } else { 0 };
        self.open_credit = self.open_credit - u64::from(consumer.standing.open_credit) + u64::from(open);
        consumer.standing.open_credit = open;
        if consumer.claims.is_some() || consumer.standing.fetches {
            let fetches = consumer.can_fetch() && !consumer.scheduled;
            consumer.standing.fetches = fetches;
            match fetches {
                true => _ = self.idle_fetchers.insert(id),
                false => _ = self.idle_fetchers.remove(&id),
            }
        }
        if is_seeker {
            return;
        }
        let priority = Reverse(consumer.options.priority);
        let is_to_wait = is_eligible && !consumer.scheduled && !consumer.standing.ring;
        let consumer = if is_to_wait && consumer.keeps_order {
            self.wait_in_order(id);
            self.all.get_mut(&id).expect("found above")
        } else {
            consumer
        };
        let level = self.levels.get_mut(&priority).expect("a consumer has its level");
        let (promise, scheduled) = (consumer.promise, consumer.scheduled);
        let was_in_ring = consumer.standing.ring;
        let standing = &mut consumer.standing;
        level.promised = level.promised - standing.promised + promise;
        standing.promised = promise;
        place(&mut level.ring, &mut standing.ring, is_eligible && !scheduled, id);
        place(&mut level.spare, &mut standing.spare, is_eligible && scheduled && u64::from(credit) > promise, id);
        place(&mut level.holders, &mut standing.holder, promise > 0, id);
        place(&mut level.large, &mut standing.large, promise > PROMISE_MAX, id);
        self.in_rings = self.in_rings + usize::from(standing.ring) - usize::from(was_in_ring);
        if !level.is_waiting && (standing.ring || standing.spare) {
            level.is_waiting = true;
            self.waiting.insert(priority);
        }
        if !level.is_promising && promise > 0 {
            level.is_promising = true;
            self.promising.insert(priority);
        }
        // The messages that it claimed are available to it, whatever is ready.
        let drains = consumer.draining && consumer.claims.is_none();
        if drains != standing.draining {
            place(&mut level.draining, &mut standing.draining, drains, id);
            match level.draining.len() {
                0 => self.draining.remove(&priority),
                _ => self.draining.insert(priority),
            };
        }
    }

    /// Puts a consumer from before a change of the leader among those that wait for a turn, in the order of registration as far as they
    /// have had no turn either.
    #[cold]
    fn wait_in_order(&mut self, id: ConsumerId) {
        let Self { all, levels, in_rings, .. } = self;
        let Some((priority, registered)) =
            all.get(&id).map(|consumer| (Reverse(consumer.options.priority), consumer.registered))
        else {
            return;
        };
        let Some(level) = levels.get_mut(&priority) else { return };
        let is_earlier =
            |other: ConsumerId| all.get(&other).is_some_and(|other| other.keeps_order && other.registered < registered);
        level.ring.insert_behind(id, is_earlier, PASSED_MAX);
        *in_rings += 1;
        if let Some(consumer) = all.get_mut(&id) {
            consumer.standing.ring = true;
        }
    }

    /// Sets the number of messages reserved for a consumer.
    fn set_promise(&mut self, id: ConsumerId, promise: u64) {
        self.change(id, |consumer| consumer.promise = promise);
    }

    /// Reserves up to `count` more messages for a consumer, as its credit allows; returns how many.
    fn promise(&mut self, id: ConsumerId, count: u64) -> u64 {
        let mut given = 0;
        self.change(id, |consumer| {
            given = count.min(u64::from(consumer.credit()).saturating_sub(consumer.promise));
            consumer.promise += given;
        });
        let Some(consumer) = self.all.get(&id) else { return 0 };
        let (holder, spare, large) = (consumer.standing.holder, consumer.standing.spare, consumer.standing.large);
        let priority = Reverse(consumer.options.priority);
        let level = self.level(priority);
        for (order, is_there) in [(&mut level.holders, holder), (&mut level.spare, spare), (&mut level.large, large)] {
            if is_there {
                order.move_to_back(id);
            }
        }
        given
    }

    /// Releases all messages reserved for a consumer, and unschedules it.
    fn unschedule(&mut self, id: ConsumerId) {
        self.unschedule_and(id, |_| ());
    }

    /// As [`Consumers::unschedule`], with a further change of the consumer.
    #[inline]
    fn unschedule_and(&mut self, id: ConsumerId, change: impl FnOnce(&mut Consumer)) {
        let mut was_scheduled = false;
        self.change(id, |consumer| {
            was_scheduled = std::mem::take(&mut consumer.scheduled) && !consumer.is_alone();
            consumer.promise = 0;
            change(consumer);
        });
        self.scheduled -= usize::from(was_scheduled);
    }

    /// The credit of a consumer was set: releases messages reserved for it beyond the new credit.
    pub(crate) fn credit_changed(&mut self, id: ConsumerId, draining: bool) {
        self.change(id, |consumer| {
            consumer.draining = draining;
            consumer.promise = consumer.promise.min(u64::from(consumer.credit()));
        });
    }

    /// A scheduled consumer took `taken` of the messages reserved for it. Returns true if it stays scheduled: messages
    /// are still reserved for it, or unreserved messages are ready and no other consumer waits for a turn.
    pub(crate) fn end_turn(&mut self, id: ConsumerId, taken: u64, ready: u64, more: bool, now: Nanos) -> bool {
        let Some(consumer) = self.all.get_mut(&id) else { return false };
        if consumer.is_alone() {
            consumer.end_turn_alone(now);
            self.refresh(id);
            return false;
        }
        if !consumer.scheduled {
            self.refresh(id);
            return false;
        }
        let left = consumer.promise.saturating_sub(taken);
        let priority = Reverse(consumer.options.priority);
        let is_eligible = consumer.is_eligible();
        self.set_promise(id, left);
        if more && is_eligible {
            // Below the highest priority, only `schedule` distributes unreserved messages.
            let is_highest = self.levels.first_key_value().is_some_and(|(first, _)| *first == priority);
            let level = self.level(priority);
            let free = ready.saturating_sub(level.promised);
            if left > 0 {
                return true;
            }
            if is_highest && level.ring.is_empty() && free > 0 {
                let share = free.div_ceil(level.spare.len().max(1) as u64);
                if self.promise(id, share) > 0 {
                    return true;
                }
            }
        }
        self.unschedule_and(id, |consumer| consumer.changed = now);
        false
    }

    /// Distributes ready, unreserved messages among consumers in turn, in equal shares: a consumer whose turn comes
    /// late still finds its share. A lower priority gets the messages that higher priorities have no credit or room
    /// for, once these have taken their own, because the head of the queue is taken first. It gives messages back when
    /// a higher priority gains credit and room.
    pub(crate) fn schedule(&mut self, ready: u64, effects: &mut Effects) {
        if self.levels.len() <= 1 {
            if let Some(priority) = self.levels.first_key_value().map(|(priority, _)| *priority) {
                self.serve(priority, ready, effects);
            }
            return;
        }
        let mut left = ready;
        let mut passed = Bound::Unbounded;
        loop {
            let beyond = (passed, Bound::Unbounded);
            let waiting = self.waiting.range(beyond).next().filter(|_| left > 0).copied();
            let promising = self.promising.range(beyond).next().copied();
            let Some(priority) = waiting.into_iter().chain(promising).min() else { return };
            if self.serve(priority, left, effects) > 0 {
                left = 0;
            }
            self.unlist(priority);
            passed = Bound::Excluded(priority);
        }
    }

    /// Removes a level from the lists that it no longer belongs to.
    fn unlist(&mut self, priority: Priority) {
        let level = self.level(priority);
        let is_waiting = !(level.ring.is_empty() && level.spare.is_empty());
        let is_promising = level.promised > 0;
        (level.is_waiting, level.is_promising) = (is_waiting, is_promising);
        if !is_waiting {
            self.waiting.remove(&priority);
        }
        if !is_promising {
            self.promising.remove(&priority);
        }
    }

    /// Reserves up to `left` messages for the members of a level, as far as they can take them; returns how many.
    fn serve(&mut self, priority: Priority, left: u64, effects: &mut Effects) -> u64 {
        self.keep_at_most(priority, left);
        let free = left - self.level(priority).promised;
        self.share_out(priority, free, effects);
        self.level(priority).promised
    }

    /// Releases reserved messages beyond `most`, the latest ones first.
    fn keep_at_most(&mut self, priority: Priority, most: u64) {
        loop {
            let level = self.level(priority);
            let excess = level.promised.saturating_sub(most);
            if excess == 0 {
                return;
            }
            let id = level.holders.last().expect("somebody has what is promised");
            let promise = self.all[&id].promise;
            self.set_promise(id, promise.saturating_sub(excess));
        }
    }

    fn share_out(&mut self, priority: Priority, mut free: u64, effects: &mut Effects) {
        if free == 0 && !self.level(priority).ring.is_empty() {
            while let Some(id) = self.level(priority).large.first() {
                free += self.all[&id].promise - PROMISE_MAX;
                self.set_promise(id, PROMISE_MAX);
            }
        }
        let before = self.level(priority).spare.len() as u64;
        while free > 0 {
            let level = self.level(priority);
            let share = free.div_ceil((level.ring.len() as u64 + before).max(1));
            let Some(id) = level.ring.first() else { break };
            let consumer = self.all.get_mut(&id).expect("a consumer in a ring is there");
            (consumer.scheduled, consumer.keeps_order) = (true, false);
            self.scheduled += 1;
            effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
            free -= self.promise(id, share);
        }
        // The rest goes to consumers that were scheduled already. Messages that one consumer has no credit for go to
        // the others, and finally to any consumer that can take them.
        for left in (1..=before).rev() {
            free = self.share_one(priority, free, left);
        }
        let now = if free == 0 { 0 } else { self.level(priority).spare.len() as u64 };
        for left in (1..=now).rev() {
            free = self.share_one(priority, free, left);
        }
        while free > 0 && !self.level(priority).spare.is_empty() {
            free = self.share_one(priority, free, 1);
        }
    }

    /// Reserves a share for the next of `left` consumers with spare credit; returns the number of messages left.
    fn share_one(&mut self, priority: Priority, free: u64, left: u64) -> u64 {
        match self.level(priority).spare.first() {
            Some(id) if free > 0 => free - self.promise(id, free.div_ceil(left)),
            _ => free,
        }
    }

    /// A message came back. Consumers with a filter that are idle look for it, if they had passed it.
    pub(crate) fn note_comeback(&mut self, number: u64) {
        if self.filtering > 0 {
            self.came_back.push(number);
        }
    }

    /// After messages came back: the idle consumers with a filter have to look at them.
    pub(crate) fn wake_filtering(&mut self) {
        if self.filtering > 0 {
            let idle: Vec<ConsumerId> = self.idle_seekers.iter().map(|(_, id)| *id).collect();
            idle.into_iter().for_each(|id| self.refresh(id));
        }
    }

    /// The messages that came back since there are consumers with a filter.
    pub(crate) fn came_back(&self) -> &Comebacks {
        &self.came_back
    }

    /// Schedules consumers that browse or have a filter with messages `ahead` of them.
    pub(crate) fn schedule_seekers(&mut self, ahead: impl Fn(u64) -> bool, effects: &mut Effects) {
        // The first one has seen the fewest messages: if nothing is ahead of it, nothing is ahead of the others.
        while let Some((next, id)) = self.idle_seekers.first().copied()
            && ahead(next)
        {
            self.update(id, |consumer| {
                consumer.scheduled = true;
                effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
            });
        }
    }

    /// A consumer claims deferred messages. It gives back the ready ones that are reserved for it.
    pub(crate) fn claim(&mut self, id: ConsumerId, numbers: BTreeSet<u64>) {
        if self.look(id).is_some_and(|consumer| consumer.claims.is_none()) {
            self.unschedule(id);
        }
        self.change(id, |consumer| consumer.claims.get_or_insert_default().add(numbers));
    }

    /// A message that a consumer claimed isn't deferred any more.
    pub(crate) fn unclaim(&mut self, id: ConsumerId, number: u64) {
        let Some(claims) = self.find(id).and_then(|consumer| consumer.claims.as_mut()) else { return };
        claims.remove(number);
        if claims.first().is_none() {
            self.end_claims(id);
        }
    }

    /// A consumer has no claims any more. Returns the messages.
    pub(crate) fn end_claims(&mut self, id: ConsumerId) -> BTreeSet<u64> {
        let Some(claims) = self.find(id).and_then(|consumer| consumer.claims.take()) else { return BTreeSet::new() };
        // Its turn was for these.
        self.change(id, |consumer| consumer.scheduled = false);
        claims.into_numbers()
    }

    /// Schedules the consumers that can take messages that they claimed.
    pub(crate) fn schedule_fetchers(&mut self, effects: &mut Effects) {
        while let Some(id) = self.idle_fetchers.first().copied() {
            self.update(id, |consumer| {
                consumer.scheduled = true;
                effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
            });
        }
    }

    /// Whether any consumer could take a message that it claimed, and isn't scheduled.
    #[inline]
    pub(crate) fn any_idle_fetchers(&self) -> bool {
        !self.idle_fetchers.is_empty()
    }

    /// A consumer that has drained: its credit is used up, or nothing is available for it. Ends its drain. `ahead`
    /// tells whether messages are ahead of a consumer that browses or has a filter.
    pub(crate) fn pop_drained(&mut self, ready: u64, ahead: impl Fn(u64) -> bool) -> Option<ConsumerId> {
        let id = self.next_drained(ready, ahead)?;
        self.update(id, |consumer| consumer.draining = false);
        Some(id)
    }

    fn next_drained(&mut self, ready: u64, ahead: impl Fn(u64) -> bool) -> Option<ConsumerId> {
        while let Some(id) = self.spent.pop() {
            if self.all.get_mut(&id).is_some_and(|consumer| std::mem::take(&mut consumer.standing.spent)) {
                return Some(id);
            }
        }
        // The lowest priority, and the seekers that have seen the most, have the fewest messages available.
        if let Some(priority) = self.draining.last().copied() {
            let higher = self.promising.range(..priority).map(|higher| self.levels[higher].promised).sum();
            if ready.saturating_sub(higher) == 0 {
                return self.level(priority).draining.first();
            }
        }
        self.draining_seekers.last().filter(|(next, _)| !ahead(*next)).map(|(_, id)| *id)
    }

    /// Whether any consumer browses or has a filter.
    pub(crate) fn any_seekers(&self) -> bool {
        self.browsers + self.filtering > 0
    }

    /// Whether any consumer drains.
    pub(crate) fn any_draining(&self) -> bool {
        !(self.draining.is_empty() && self.draining_seekers.is_empty() && self.spent.is_empty())
    }

    /// The options of all consumers.
    pub(crate) fn options(&self) -> impl Iterator<Item = (ConsumerId, &ConsumerOptions)> {
        self.all.iter().map(|(id, consumer)| (*id, &consumer.options))
    }

    /// Removes all consumers and cancels them. If there are many, [`Effects::ended`] notifies them later.
    pub(crate) fn cancel_all(&mut self, effects: &mut Effects) {
        let single = self.single.as_ref().map(|single| single.emptied());
        let all = std::mem::replace(self, Self::new(single)).all;
        if all.len() > TOLD_AT_ONCE_MAX {
            let links = all.into_values().map(|consumer| (consumer.options.link, consumer.options.key));
            effects.rare_mut().ended = Ended::new(Box::new(links));
            return;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(id, _)| *id);
        for (_, consumer) in all {
            effects.signals.push((consumer.options.link, Signal::Cancelled(consumer.options.key)));
        }
    }
}

/// Adds a consumer to an order, or removes it.
fn place(order: &mut Order, is_there: &mut bool, wanted: bool, id: ConsumerId) {
    if *is_there != wanted {
        match wanted {
            true => order.push_back(id),
            false => order.remove(id),
        }
        *is_there = wanted;
    }
}

/// Adds a consumer to a set with this key, or removes it.
fn rekey(set: &mut BTreeSet<(u64, ConsumerId)>, stands: &mut Option<u64>, wanted: Option<u64>, id: ConsumerId) {
    if *stands != wanted {
        if let Some(key) = stands.take() {
            set.remove(&(key, id));
        }
        if let Some(key) = wanted {
            set.insert((key, id));
        }
        *stands = wanted;
    }
}
