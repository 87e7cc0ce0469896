//! Leading a placement of queues: taking and losing the leadership, and proposing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leveret_broker::replicas::PlacedStream;
use leveret_log::Nanos;
use openraft::AsyncRuntime;

use super::QueueReplica;
use super::promise::promise;
use crate::metadata::{MetadataHost, member_of};
use crate::placement::{LeadershipSeen, Proposed};

/// Most entries that are proposed and not applied.
const IN_FLIGHT: usize = 4;
/// Longest time that records wait to be proposed for which nobody waits.
const LAZY_NS: Nanos = 10_000_000;
/// Interval at which it is looked whether a new leader can begin.
const LOOK: Duration = Duration::from_millis(1);
/// Time after a quorum has heard of a leader for which nobody else can lead: shorter than that for which its members vote for nobody.
const LEASE: Duration = Duration::from_millis(400);
/// Time without an answer of a quorum after which a leader gives up.
const QUORUM_LOST: Duration = Duration::from_secs(2);
/// Interval at which it is looked for how long a leader leads for certain.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// Longest time for which a new leader waits for what the other members' clients hold.
const HELD_WAIT: Duration = Duration::from_millis(300);

/// A proposal, and at its end the term of the leadership that made it, which may be an earlier one by then.
type Proposing = Pin<Box<dyn Future<Output = (u64, Proposed)>>>;

/// The proposals that are on their way, the oldest first.
#[derive(Default)]
struct InFlight(Vec<Proposing>);

impl InFlight {
    /// Makes a proposal in the order of these calls: the engine gets it in this one.
    async fn push(&mut self, mut proposing: Proposing) -> Option<(u64, Proposed)> {
        let first = std::future::poll_fn(|context| Poll::Ready(proposing.as_mut().poll(context))).await;
        match first {
            Poll::Ready(proposed) => Some(proposed),
            Poll::Pending => {
                self.0.push(proposing);
                None
            }
        }
    }

    /// The result of one that is over.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<(u64, Proposed)> {
        for at in 0..self.0.len() {
            if let Poll::Ready(proposed) = self.0[at].as_mut().poll(context) {
                drop(self.0.remove(at));
                return Poll::Ready(proposed);
            }
        }
        Poll::Pending
    }
}

impl<R: AsyncRuntime, H: MetadataHost> QueueReplica<R, H> {
    /// Follows the leadership while the placement runs: opens the queues' machines when this member leads, and drops them when it doesn't.
    pub async fn lead(self) {
        let inner = &self.0;
        let (mut seen, mut tries, mut was_lost) = (LeadershipSeen::default(), 0, false);
        while inner.placement.stopped().is_none() {
            let given_up = inner.shared.gives_up.count();
            let (term, leader, leads) = inner.placement.leadership();
            let has_given_up = inner.shared.has_given_up(term);
            let now = inner.shared.host.now();
            if leads && !has_given_up {
                if self.stream().is_none_or(|stream| stream.term() != term) {
                    self.lose();
                    if !self.take(term).await {
                        // Without a quorum it may never come to it.
                        tries += 1;
                        R::sleep(if tries < 100 { LOOK } else { LOOK * 50 }).await;
                        continue;
                    }
                    (tries, was_lost) = (0, false);
                }
            } else {
                self.lose();
                let leader = leader.map(member_of).filter(|member| *member != inner.member);
                let leader = leader.map(|member| (member, term));
                inner.shared.broker.follow_leader(inner.shared.number, leader, now);
                if leads {
                    // Its queues lack something of what they proposed.
                    self.transfer().await;
                    R::sleep(LOOK * 50).await;
                    continue;
                }
            }
            let change =
                first_of(inner.placement.leadership_changed(&mut seen), inner.shared.gives_up.more_than(given_up));
            if self.stream().is_some() {
                // This node may have stood still itself: it looks again before it gives up.
                let is_lost = self.renew_lease(term);
                if is_lost && was_lost {
                    tracing::warn!("placement {}: a majority of its members can't be reached", inner.shared.number);
                    inner.shared.give_up(term);
                    self.lose();
                    continue;
                }
                was_lost = is_lost;
                let _ = R::timeout(LEASE_LOOK, change).await;
            } else {
                change.await;
            }
        }
        self.lose();
        inner.shared.broker.follow_leader(inner.shared.number, None, inner.shared.host.now());
    }

    /// Says until when nobody else can lead: followers that have heard of this leader vote for nobody for longer. Returns whether no
    /// quorum has answered for so long that this one has to give up: the engine would keep it for ever.
    fn renew_lease(&self, term: u64) -> bool {
        let inner = &self.0;
        let is_alone = inner.placement.state().voters().iter().all(|voters| voters.len() == 1);
        let answered = if is_alone { Some(Duration::ZERO) } else { inner.placement.quorum_answered() };
        let Some(ago) = answered else { return false };
        if let Some(left) = LEASE.checked_sub(ago) {
            let until = inner.shared.host.now() + left.as_nanos() as Nanos;
            inner.shared.broker.renew_lease(inner.shared.number, term, until);
        }
        ago > QUORUM_LOST
    }

    fn stream(&self) -> Option<Arc<PlacedStream>> {
        self.0.shared.stream.borrow().clone()
    }

    /// Takes the leadership of this term, if everything from before it is applied, and in the store for good. Returns whether it has.
    async fn take(&self, term: u64) -> bool {
        let inner = &self.0;
        let applied = inner.placement.state().applied;
        if applied.is_none_or(|(of, _)| of != term) {
            return false;
        }
        let last = inner.shared.broker.placements.replicas().last(inner.shared.number);
        inner.shared.until_durable(last).await;
        let (all_there, asked) = promise();
        let held = inner.shared.broker.ask_held((inner.shared.number, term), Box::new(move || all_there(())));
        let _ = R::timeout(HELD_WAIT, asked).await;
        let (now, _, leads) = inner.placement.leadership();
        if now != term || !leads {
            return false;
        }
        let wake = inner.wake.clone();
        let (number, now) = (inner.shared.number, inner.shared.host.now());
        let stream = inner.shared.broker.lead((number, term), &held, now, Box::new(move || wake()));
        *inner.shared.stream.borrow_mut() = Some(stream);
        inner.shared.arrivals.happen();
        true
    }

    /// Drops the queues' machines, if there are some.
    fn lose(&self) {
        let lost = self.0.shared.stream.borrow_mut().take();
        if lost.is_some() {
            let now = self.0.shared.host.now();
            self.0.shared.broker.follow_leader(self.0.shared.number, None, now);
            self.0.shared.arrivals.happen();
        }
    }

    /// Proposes what the queues append, while the placement runs.
    pub async fn propose(self) {
        let shared = &self.0.shared;
        let (mut in_flight, mut lazy_since) = (InFlight::default(), None);
        while self.0.placement.stopped().is_none() {
            let count = shared.arrivals.count();
            let stream = self.stream();
            let mut until = None;
            if let Some(stream) = &stream
                && shared.pauses.get() == 0
            {
                while in_flight.0.len() < IN_FLIGHT
                    && let Some(is_urgent) = stream.waiting()
                {
                    let now = shared.host.now();
                    let due = *lazy_since.get_or_insert(now) + LAZY_NS;
                    if !is_urgent && now < due {
                        until = Some(Duration::from_nanos(due - now));
                        break;
                    }
                    lazy_since = None;
                    let Some(entry) = stream.take_entry(self.held_below()) else { break };
                    let placement = self.0.placement.clone();
                    let term = stream.term();
                    let over = in_flight.push(Box::pin(async move { (term, placement.propose(entry).await) })).await;
                    if let Some((term, proposed)) = over {
                        self.proposed(&proposed, term);
                    }
                }
            }
            let next = std::future::poll_fn(|context| in_flight.poll_over(context));
            let arrival = shared.arrivals.more_than(count);
            let wait = first_of(next, arrival);
            let over = match until {
                Some(until) => R::timeout(until, wait).await.ok().flatten(),
                None => wait.await,
            };
            if let Some((term, proposed)) = over {
                self.proposed(&proposed, term);
            }
        }
    }

    /// A proposal is over. One that wasn't committed, or may not have been, ends the leadership: later ones would lack it.
    fn proposed(&self, proposed: &Proposed, term: u64) {
        let text = match proposed {
            Proposed::Applied { .. } => return,
            Proposed::NotLeader(_) => "another member leads".to_owned(),
            Proposed::Refused(reason) | Proposed::Unknown(reason) => reason.clone(),
        };
        if self.stream().is_some_and(|stream| stream.term() == term) {
            tracing::warn!("placement {}: an entry of its queues wasn't taken: {text}", self.0.shared.number);
            self.0.shared.give_up(term);
            self.lose();
        }
    }
}

/// The result of `one`, or nothing once `other` is over.
async fn first_of<T>(one: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(move |context| {
        if let Poll::Ready(result) = one.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        other.as_mut().poll(context).map(|()| None)
    })
    .await
}
