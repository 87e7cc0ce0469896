//! The walk over all queues that gives them their effective arguments after policies changed.
//!
//! It goes by the queues' ids, in parts, and each part takes the newest policies. A change that comes while it is under way doesn't
//! make it begin again: it goes on behind the last queue until it is where it was when the change came. So no queue waits for more
//! than one round, however often policies change, and changes that are faster than the walk are merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_model::{Change, Policy, QueueId};

/// Called when all queues have the policies of a change.
type Done = Box<dyn FnOnce() + Send>;

/// A change of policies, for the events of queues.
#[derive(Debug, Clone)]
pub(crate) struct PolicyNews {
    /// The vhost of the policy.
    pub vhost: Arc<str>,
    /// The policy as it is now; `None` if it was cleared.
    pub policy: Option<Arc<Policy>>,
    /// The user who changed it; empty for the broker itself.
    pub actor: Arc<str>,
}

impl PolicyNews {
    /// The news of a change, if it is one of policies.
    pub(crate) fn of(change: &Change, actor: &Arc<str>) -> Option<Self> {
        let (of, policy) = match change {
            Change::PolicySet(policy) => (policy, Some(policy.clone())),
            Change::PolicyCleared(policy) => (policy, None),
            _ => return None,
        };
        Some(Self { vhost: of.vhost.clone(), policy, actor: actor.clone() })
    }
}

/// The state of the walk.
#[derive(Default)]
pub(crate) struct PolicyWalk {
    /// The lowest id of a queue that the next part looks at; 0 for the first queue.
    next: u64,
    rounds: Vec<Round>,
    /// The last change in each vhost that not all queues know.
    news: BTreeMap<Arc<str>, PolicyNews>,
}

/// The round of a change.
struct Round {
    /// The place where it began.
    from: u64,
    /// Whether it has passed the last queue.
    has_wrapped: bool,
    done: Option<Done>,
}

impl PolicyWalk {
    /// Whether all queues have the newest policies.
    pub(crate) fn is_over(&self) -> bool {
        self.rounds.is_empty()
    }

    /// The last change in each vhost.
    pub(crate) fn news(&self) -> BTreeMap<Arc<str>, PolicyNews> {
        self.news.clone()
    }

    /// Policies changed.
    pub(crate) fn changed(&mut self, news: Vec<PolicyNews>) {
        self.news.extend(news.into_iter().map(|news| (news.vhost.clone(), news)));
        let is_same = |round: &Round| round.from == self.next && !round.has_wrapped && round.done.is_none();
        if !self.rounds.iter().any(is_same) {
            self.rounds.push(Round { from: self.next, has_wrapped: false, done: None });
        }
    }

    /// Has `done` called after the changes so far. Returns it if there is nothing to wait for.
    #[must_use]
    pub(crate) fn when_over(&mut self, done: Done) -> Option<Done> {
        if self.is_over() {
            return Some(done);
        }
        self.rounds.push(Round { from: self.next, has_wrapped: false, done: Some(done) });
        None
    }

    /// The lowest id that the next part looks at.
    pub(crate) fn next(&self) -> QueueId {
        QueueId(self.next)
    }

    /// A part is done, up to the queue before `next`; `None` if that was the last one. Returns what has to be called.
    #[must_use]
    pub(crate) fn part_done(&mut self, next: Option<QueueId>) -> Vec<Done> {
        let mut over = Vec::new();
        if next.is_none() {
            over.extend(self.rounds.extract_if(.., |round| round.has_wrapped));
            self.rounds.iter_mut().for_each(|round| round.has_wrapped = true);
        }
        self.next = next.map_or(0, |next| next.0);
        let at = self.next;
        over.extend(self.rounds.extract_if(.., |round| round.has_wrapped && at >= round.from));
        if self.is_over() {
            self.news.clear();
        }
        over.into_iter().filter_map(|round| round.done).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn news() -> Vec<PolicyNews> {
        vec![PolicyNews { vhost: "/".into(), policy: None, actor: "".into() }]
    }

    fn part_done(walk: &mut PolicyWalk, next: Option<u64>) {
        walk.part_done(next.map(QueueId)).into_iter().for_each(|done| done());
    }

    #[test]
    fn a_change_is_over_after_one_round_from_where_it_came() {
        let mut walk = PolicyWalk::default();
        assert!(walk.is_over());
        walk.changed(news());
        part_done(&mut walk, Some(10));
        walk.changed(news());
        part_done(&mut walk, None);
        assert!(!walk.is_over(), "the queues before the tenth have seen the first change only");
        part_done(&mut walk, Some(9));
        assert!(!walk.is_over());
        part_done(&mut walk, Some(10));
        assert!(walk.is_over());
    }

    #[test]
    fn changes_that_never_end_hold_up_no_other() {
        let mut walk = PolicyWalk::default();
        let over = Arc::new(AtomicU32::new(0));
        walk.changed(news());
        part_done(&mut walk, Some(5));
        walk.changed(news());
        let counter = over.clone();
        assert!(walk.when_over(Box::new(move || _ = counter.fetch_add(1, Ordering::Relaxed))).is_none());
        for (next, expected) in [(Some(8), 0), (None, 0), (Some(4), 0), (Some(8), 1)] {
            walk.changed(news());
            part_done(&mut walk, next);
            assert_eq!(over.load(Ordering::Relaxed), expected, "{next:?}");
        }
        assert!(!walk.is_over());
    }

    #[test]
    fn a_round_ends_if_the_queue_that_it_began_at_is_gone() {
        let mut walk = PolicyWalk::default();
        walk.changed(news());
        part_done(&mut walk, Some(90));
        walk.changed(news());
        part_done(&mut walk, None);
        part_done(&mut walk, None);
        assert!(walk.is_over());
    }

    #[test]
    fn nothing_is_waited_for_without_a_change() {
        assert!(PolicyWalk::default().when_over(Box::new(|| ())).is_some());
    }
}
