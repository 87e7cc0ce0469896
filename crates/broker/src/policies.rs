//! Policies take effect on queues: a part of the walk over all of them.

use leveret_model::{EffectiveQueue, Overflow};

use crate::broker::Broker;
use crate::events;
use crate::queue_handle::QueueRef;
use crate::time::Now;
use crate::turn_budget::{DELETED_MESSAGE, POLICY, POLICY_CHANGE, QUEUE_LOOK, TurnBudget};

/// Part of a turn that a part of the walk takes: a few queues. While policies change all the time, each message waits for a part or two:
/// with a 32nd of a turn confirms take three times as long as without changes. A walk over 100,000 queues takes 0.2 s.
const SHARE: u32 = 256;

impl Broker {
    /// Gives the next queues their effective arguments, as many as a turn has work for.
    pub(crate) fn apply_policies(&self, now: Now) {
        let snapshot = self.registry.snapshot_full();
        let topology = &snapshot.topology;
        let mut budget = TurnBudget::new(self.settings.turn_work_max / SHARE);
        let mut changed: Vec<(QueueRef, EffectiveQueue)> = Vec::new();
        let mut next = None;
        let (from, news) = {
            let walk = self.deferred.policies();
            (walk.next(), self.notices.wants_events().then(|| walk.news()))
        };
        for (id, queue) in snapshot.queues.range(from..) {
            if budget.is_spent() {
                next = Some(*id);
                break;
            }
            budget.spend(QUEUE_LOOK);
            let (info, current) = (queue.info(), queue.effective());
            if current.version != topology.policies_version(&info.vhost) {
                budget.spend(POLICY_CHANGE + POLICY * topology.policy_count(&info.vhost) as u32);
                // Neighbours often have the same arguments and policies.
                let own = (&**info, &*current);
                let effective = match changed.last() {
                    Some((last, effective)) => topology.effective_queue(info, &[own, (&**last.info(), effective)]),
                    None => topology.effective_queue(info, &[own]),
                };
                changed.push((queue.clone(), effective));
            }
        }
        // Before one of them refuses a message.
        let copies = |(queue, effective): &&(QueueRef, EffectiveQueue)| {
            effective.options(queue.info()).overflow == Overflow::RejectPublishDlx
                && queue.home().is_some_and(|home| home.begin_to_copy_refused())
        };
        let renewed: Vec<_> = changed.iter().filter(copies).map(|(queue, _)| queue.info().id).collect();
        if !renewed.is_empty() {
            self.registry.renew(&renewed);
        }
        let mut changed = changed.into_iter();
        for (queue, effective) in changed.by_ref() {
            if let Some(news) = news.as_ref().and_then(|news| news.get(&queue.info().vhost))
                && !queue.effective().matched.is_same(&effective.matched)
            {
                events::queue_policy_changed(&self.notices, queue.info(), news);
            }
            if let Some(placed) = queue.as_placed() {
                placed.set_effective(effective.clone());
            }
            let Some(home) = queue.home() else { continue };
            let before = home.gauges().messages();
            home.configure(effective, now.monotonic);
            let dropped = before.saturating_sub(home.gauges().messages());
            budget.spend(u32::try_from(dropped).unwrap_or(u32::MAX).saturating_mul(DELETED_MESSAGE));
            if dropped > 0 && budget.is_spent() {
                break;
            }
        }
        if let Some((queue, _)) = changed.next() {
            // Many messages were dropped: the others have to wait.
            next = Some(queue.info().id);
        }
        let over = self.deferred.policies().part_done(next);
        for done in over {
            done();
        }
    }

    /// Calls `done` when all queues have the policies that are published now.
    pub fn when_policies_apply(&self, done: Box<dyn FnOnce() + Send>) {
        let at_once = self.deferred.policies().when_over(done);
        if let Some(done) = at_once {
            done();
        }
    }
}
