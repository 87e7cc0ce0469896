//! The dispatcher's side of consumers: whose turn it is.
//!
//! While messages are ready, an unscheduled consumer with credit and room is scheduled: those of the highest
//! priority first, round robin among equals. It, and nobody else, knows how much credit a consumer has left;
//! sessions relay.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Nanos;
use crate::consumer::{Consumer, ConsumerId, ConsumerMode, ConsumerOptions};
use crate::effects::{Effects, Signal};

/// More than this is kept for a consumer only while nobody waits for a turn: a consumer without a limit would
/// otherwise keep a whole backlog from those that come after it.
const PROMISE_MAX: u64 = 1024;

/// All consumers of one queue.
#[derive(Default)]
pub(crate) struct Consumers {
    all: FxHashMap<ConsumerId, Consumer>,
    /// By priority, the highest first; most queues have one.
    levels: SmallVec<[Level; 1]>,
    /// Those that only look: they take nothing, so that nobody's turn is theirs.
    browsers: Vec<ConsumerId>,
    /// Those that drain, in the order in which they asked.
    draining: Vec<ConsumerId>,
    exclusive: Option<ConsumerId>,
    /// Those with link credit.
    links: usize,
}

/// Consumers of the same priority.
#[derive(Default)]
struct Level {
    priority: i32,
    members: usize,
    /// Those that could take and aren't scheduled, in turn.
    ring: VecDeque<ConsumerId>,
    /// Those that are scheduled, the one that got ready messages last at the end.
    scheduled: VecDeque<ConsumerId>,
    /// Sum of all promises.
    promised: u64,
    /// Some promise may be above [`PROMISE_MAX`].
    large: bool,
}

impl Consumers {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many of them take messages.
    pub(crate) fn movers(&self) -> usize {
        self.all.len() - self.browsers.len()
    }

    /// How many of them have link credit (AMQP 1.0).
    pub(crate) fn links(&self) -> usize {
        self.links
    }

    /// True while some consumer is on its way. When messages are ready, all are that can take any.
    pub(crate) fn any_scheduled(&self) -> bool {
        self.levels.iter().any(|level| !level.scheduled.is_empty())
    }

    pub(crate) fn exclusive(&self) -> Option<ConsumerId> {
        self.exclusive
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ConsumerId, &Consumer)> {
        self.all.iter()
    }

    pub(crate) fn look(&self, id: ConsumerId) -> Option<&Consumer> {
        self.all.get(&id)
    }

    pub(crate) fn find(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.all.get_mut(&id)
    }

    /// True when consumers differ in priority.
    pub(crate) fn has_priorities(&self) -> bool {
        self.levels.len() > 1
    }

    fn level(&self, priority: i32) -> usize {
        self.levels.iter().position(|level| level.priority == priority).expect("a consumer has its level")
    }

    pub(crate) fn add(&mut self, id: ConsumerId, options: ConsumerOptions, now: Nanos) {
        if options.exclusive {
            self.exclusive = Some(id);
        }
        self.links += usize::from(options.flow.is_credit());
        if options.mode == ConsumerMode::Copy {
            self.browsers.push(id);
            self.all.insert(id, Consumer::new(options, now));
            return;
        }
        let priority = options.priority;
        let at = self.levels.iter().position(|level| level.priority <= priority).unwrap_or(self.levels.len());
        if self.levels.get(at).is_none_or(|level| level.priority != priority) {
            self.levels.insert(at, Level { priority, ..Level::default() });
        }
        self.levels[at].members += 1;
        let replaced = self.all.insert(id, Consumer::new(options, now));
        debug_assert!(replaced.is_none(), "consumer ids are unique");
        self.enter_ring(id);
    }

    /// Removes a consumer; returns whether it was there.
    pub(crate) fn remove(&mut self, id: ConsumerId) -> bool {
        let Some(consumer) = self.all.remove(&id) else { return false };
        self.links -= usize::from(consumer.options.flow.is_credit());
        if consumer.draining {
            self.draining.retain(|other| *other != id);
        }
        if self.exclusive == Some(id) {
            self.exclusive = None;
        }
        if consumer.browser.is_some() {
            self.browsers.retain(|other| *other != id);
            return true;
        }
        let at = self.level(consumer.options.priority);
        let level = &mut self.levels[at];
        if consumer.scheduled {
            level.scheduled.retain(|other| *other != id);
            level.promised -= consumer.promise;
        }
        if consumer.in_ring {
            level.ring.retain(|other| *other != id);
        }
        level.members -= 1;
        if level.members == 0 {
            self.levels.remove(at);
        }
        true
    }

    /// Puts a consumer back in turn when it could take.
    pub(crate) fn enter_ring(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.all.get_mut(&id)
            && !consumer.scheduled
            && !consumer.in_ring
            && consumer.is_eligible()
            && consumer.browser.is_none()
        {
            consumer.in_ring = true;
            let at = self.level_of(id);
            self.levels[at].ring.push_back(id);
        }
    }

    fn level_of(&self, id: ConsumerId) -> usize {
        let priority = self.all[&id].options.priority;
        self.level(priority)
    }

    /// The credit of a consumer was set anew; what is kept for it above that is free again.
    pub(crate) fn credit_changed(&mut self, id: ConsumerId, draining: bool) {
        let Some(consumer) = self.all.get_mut(&id) else { return };
        let excess = consumer.promise.saturating_sub(u64::from(consumer.credit()));
        consumer.promise -= excess;
        if excess > 0 {
            let at = self.level_of(id);
            self.levels[at].promised -= excess;
        }
        let Some(consumer) = self.all.get_mut(&id) else { return };
        match (std::mem::replace(&mut consumer.draining, draining), draining) {
            (false, true) => self.draining.push(id),
            (true, false) => self.draining.retain(|other| *other != id),
            _ => {}
        }
        self.enter_ring(id);
    }

    /// `taken` of what was kept for a scheduled consumer is with it. True when it stays scheduled: something
    /// is still kept for it, or messages are ready that are kept for nobody and nobody waits for a turn.
    pub(crate) fn end_turn(&mut self, id: ConsumerId, taken: u64, ready: u64, more: bool, now: Nanos) -> bool {
        let Some(consumer) = self.all.get_mut(&id) else { return false };
        if consumer.browser.is_some() {
            consumer.end_browse(now);
            return false;
        }
        let at = self.level_of(id);
        let level = &mut self.levels[at];
        let consumer = self.all.get_mut(&id).expect("found above");
        if !consumer.scheduled {
            return false;
        }
        let taken = taken.min(consumer.promise);
        consumer.promise -= taken;
        level.promised -= taken;
        if more && consumer.is_eligible() {
            let free = ready.saturating_sub(level.promised);
            // Below the highest priority, what is free is shared out by `schedule` only.
            if at == 0 && consumer.promise == 0 && level.ring.is_empty() && free > 0 {
                let share = free.div_ceil(level.scheduled.len().max(1) as u64);
                level.promise(consumer, share);
            }
            if consumer.promise > 0 {
                return true;
            }
        }
        level.promised -= std::mem::take(&mut consumer.promise);
        consumer.scheduled = false;
        consumer.changed = now;
        level.scheduled.retain(|other| *other != id);
        self.enter_ring(id);
        false
    }

    /// Gives messages that are ready and kept for nobody to consumers in turn, an equal share to each: one
    /// that comes late to its turn finds its share there. A priority gets what the higher ones have no credit
    /// or room for, once they have taken theirs: what is taken first is the head of the queue. It gives back
    /// what they have credit and room for meanwhile.
    pub(crate) fn schedule(&mut self, ready: u64, effects: &mut Effects) {
        let mut left = ready;
        for level in &mut self.levels {
            level.keep_at_most(left, &mut self.all);
            level.share_out(left - level.promised, &mut self.all, effects);
            if level.promised > 0 {
                left = 0;
            }
        }
    }

    /// Schedules those that only look and have something `ahead` of them.
    pub(crate) fn schedule_browsers(&mut self, ahead: impl Fn(u64) -> bool, effects: &mut Effects) {
        for id in &self.browsers {
            if let Some(consumer) = self.all.get_mut(id)
                && !consumer.scheduled
                && consumer.is_eligible()
                && consumer.browser.as_ref().is_some_and(|browser| browser.is_able() && ahead(browser.next))
            {
                consumer.scheduled = true;
                effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
            }
        }
    }

    /// Takes a consumer out that has drained: its credit is used up, or nothing is there for it. `ahead` says
    /// what is there for one that only looks.
    pub(crate) fn pop_drained(&mut self, ready: u64, ahead: impl Fn(u64) -> bool) -> Option<&mut Consumer> {
        let at = self.draining.iter().position(|id| {
            let consumer = &self.all[id];
            if let Some(browser) = &consumer.browser {
                return consumer.credit() == 0 || !ahead(browser.next);
            }
            let higher = self.levels.iter().take_while(|level| level.priority > consumer.options.priority);
            let left = ready.saturating_sub(higher.map(|level| level.promised).sum());
            consumer.credit() == 0 || left == 0
        })?;
        let id = self.draining.remove(at);
        let consumer = self.all.get_mut(&id)?;
        consumer.draining = false;
        Some(consumer)
    }

    /// True when some consumer only looks.
    pub(crate) fn any_browsers(&self) -> bool {
        !self.browsers.is_empty()
    }

    /// True while some consumer drains.
    pub(crate) fn any_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Takes all out and tells each that it is cancelled.
    pub(crate) fn cancel_all(&mut self, effects: &mut Effects) {
        self.levels.clear();
        self.browsers.clear();
        self.draining.clear();
        self.exclusive = None;
        let mut all: Vec<_> = self.all.drain().collect();
        all.sort_by_key(|(id, _)| *id);
        for (_, consumer) in all {
            effects.signals.push((consumer.options.link, Signal::Cancelled(consumer.options.key)));
        }
    }

    /// True when some consumer could take a message now.
    pub(crate) fn any_able(&self) -> bool {
        let able = |id: &ConsumerId| self.all[id].is_eligible();
        self.levels.iter().any(|level| !level.scheduled.is_empty() || level.ring.iter().any(able))
    }
}

impl Level {
    /// Keeps up to `count` more for a consumer, as its credit allows; returns how many.
    fn promise(&mut self, consumer: &mut Consumer, count: u64) -> u64 {
        let count = count.min(u64::from(consumer.credit()).saturating_sub(consumer.promise));
        consumer.promise += count;
        self.promised += count;
        self.large |= consumer.promise > PROMISE_MAX;
        count
    }

    /// Takes promises back that are more than there is, the latest ones first.
    fn keep_at_most(&mut self, most: u64, all: &mut FxHashMap<ConsumerId, Consumer>) {
        for id in self.scheduled.iter().rev() {
            if self.promised <= most {
                return;
            }
            let consumer = all.get_mut(id).expect("a scheduled consumer is there");
            let excess = consumer.promise.min(self.promised - most);
            consumer.promise -= excess;
            self.promised -= excess;
        }
    }

    fn share_out(&mut self, mut free: u64, all: &mut FxHashMap<ConsumerId, Consumer>, effects: &mut Effects) {
        if free == 0 && self.large && !self.ring.is_empty() {
            self.large = false;
            for id in &self.scheduled {
                let consumer = all.get_mut(id).expect("a scheduled consumer is there");
                let excess = consumer.promise.saturating_sub(PROMISE_MAX);
                consumer.promise -= excess;
                self.promised -= excess;
                free += excess;
            }
        }
        let before = self.scheduled.len() as u64;
        while free > 0 {
            let share = free.div_ceil((self.ring.len() as u64 + before).max(1));
            let Some(id) = self.ring.pop_front() else { break };
            let Some(consumer) = all.get_mut(&id) else { continue };
            consumer.in_ring = false;
            if !consumer.is_eligible() {
                continue;
            }
            consumer.scheduled = true;
            free -= self.promise(consumer, share);
            self.scheduled.push_back(id);
            effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
        }
        // The rest goes to those that were on their way already, and what credit keeps from one to the others,
        // at last to whoever can take it.
        let now = self.scheduled.len() as u64;
        for left in (1..=before).rev().chain((1..=now).rev()).chain((0..now).map(|_| 1)) {
            if free == 0 {
                return;
            }
            self.scheduled.rotate_left(1);
            let Some(consumer) = self.scheduled.back().and_then(|id| all.get_mut(id)) else { return };
            free -= self.promise(consumer, free.div_ceil(left));
        }
    }
}
