//! Handing the leadership of a placement over to another member.

use std::time::Duration;

use leveret_broker::replicas::PlacedStream;
use leveret_log::Nanos;
use leveret_model::MemberNumber;
use openraft::AsyncRuntime;

use super::QueueReplica;
use super::machine::QueuesShared;
use super::promise::promise;
use crate::metadata::{MetadataHost, member_of, replica_of};
use crate::network::Host;

/// Longest time for which nothing is proposed so that the next leader gets everything before.
const EVEN_WITHIN: Duration = Duration::from_secs(1);
/// Longest time within which it has to lead.
const LEADS_WITHIN: Duration = Duration::from_secs(2);
/// Number of tries to hand a leadership over to the member that is to have it, and the time between them.
const TRIES: u32 = 3;
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// Time in which messages that are on their way to other members' clients reach them: from then on they hold them.
const ON_THE_WAY: Duration = Duration::from_millis(20);
/// Interval at which it is looked whether that is so.
const LOOK: Duration = Duration::from_millis(2);
/// Entries that a member may lack that is to lead: it gets them within [`EVEN_WITHIN`].
const BEHIND_MAX: u64 = 2000;
/// Shortest and longest time until a node in maintenance tries again to give a leadership away.
const FIRST_AGAIN_NS: Nanos = 400_000_000;
const LAST_AGAIN_NS: Nanos = 30_000_000_000;

/// The tries of a node in maintenance to give a leadership away. Each that fails holds the placement's queues up for a moment, so that they
/// become rarer.
#[derive(Default)]
pub(super) struct HandOvers {
    next: Nanos,
    wait: Nanos,
}

impl HandOvers {
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    pub(super) fn tried(&mut self, now: Nanos) {
        self.wait = (2 * self.wait).clamp(FIRST_AGAIN_NS, LAST_AGAIN_NS);
        self.next = now + self.wait;
    }
}

/// A leader that hands its placement over: while this is there it hands out no messages, and at the end proposes nothing.
struct HandingOver<'s, H> {
    shared: &'s QueuesShared<H>,
    term: u64,
    is_paused: bool,
}

impl<'s, H: Host> HandingOver<'s, H> {
    fn begin(shared: &'s QueuesShared<H>, term: u64) -> Self {
        shared.broker.stop_handing_out(shared.number, term, true);
        HandingOver { shared, term, is_paused: false }
    }

    fn pause(&mut self) {
        self.is_paused = true;
        self.shared.pauses.set(self.shared.pauses.get() + 1);
    }
}

impl<H> Drop for HandingOver<'_, H> {
    fn drop(&mut self) {
        if self.is_paused {
            self.shared.pauses.set(self.shared.pauses.get() - 1);
            self.shared.arrivals.happen();
        }
        self.shared.broker.stop_handing_out(self.shared.number, self.term, false);
    }
}

impl<R: AsyncRuntime, H: MetadataHost> QueueReplica<R, H> {
    /// Hands the leadership over to the other running member that has most, if this member has it. Members in maintenance get none.
    pub async fn transfer(&self) {
        let up = self.0.shared.host.members_up();
        let others = self.matched().into_iter().filter(|(member, _)| up.contains(member));
        let other = others.max_by_key(|(_, index)| *index).map(|(member, _)| member);
        if self.leader() == Some(self.0.member)
            && let Some(other) = other
            && let Err(reason) = self.hand_over(other).await
        {
            tracing::warn!("placement {} isn't led by member {} now: {reason}", self.0.shared.number, other.0);
        }
    }

    /// Hands the leadership over to the first of its members that runs and isn't in maintenance, which is to have it. One that has just
    /// started may still lack entries, so that it is tried a few times.
    pub async fn prefer(&self) {
        for tried in 1..=TRIES {
            let up = self.0.shared.host.members_up();
            let topology = self.0.shared.broker.registry.snapshot().topology.clone();
            let Some(made) = topology.placement(self.0.shared.number) else { return };
            let voters = self.voters();
            let preferred = made.members.iter().find(|member| up.contains(member) && voters.contains(member));
            let Some(preferred) = preferred.filter(|member| **member != self.0.member) else { return };
            if self.leader() != Some(self.0.member) {
                return;
            }
            match self.hand_over(*preferred).await {
                Ok(()) => return,
                Err(_) if tried < TRIES => R::sleep(TRY_AGAIN).await,
                Err(reason) => {
                    let number = self.0.shared.number;
                    tracing::warn!("placement {number} isn't led by member {} now: {reason}", preferred.0);
                }
            }
        }
    }

    /// Hands the leadership over to a member, and waits until that leads: 3 s at most. Whatever is proposed before is committed before, and
    /// what is published meanwhile is sent to the next leader, so that nothing is refused.
    ///
    /// # Errors
    /// This member doesn't lead, that one doesn't vote or can't be reached, or it doesn't lead in time.
    pub async fn hand_over(&self, to: MemberNumber) -> Result<(), String> {
        let (placement, shared) = (&self.0.placement, &self.0.shared);
        if to == self.0.member {
            return Err("it leads already".into());
        }
        if self.leader() != Some(self.0.member) {
            return Err("another member leads".into());
        }
        if !self.voters().contains(&to) {
            return Err("that member has no replica that votes".into());
        }
        if !shared.host.members_up().contains(&to) {
            return Err("that member can't be reached, or is in maintenance".into());
        }
        let matched = placement.matched(replica_of(to)).unwrap_or_default();
        if matched + BEHIND_MAX < placement.status().last {
            // It won't have them in time, and the queues would stand still meanwhile.
            return Err("that member lacks entries".into());
        }
        let stream = shared.stream.borrow().clone();
        // A leadership that was given up has nothing more to propose, and ends as soon as it can.
        let _handing_over = match stream {
            Some(stream) => Some(self.prepare(&stream, to).await?),
            None => None,
        };
        placement.transfer(replica_of(to)).await.map_err(|error| error.to_string())?;
        let next = || placement.leader().1.map(member_of).filter(|member| *member != self.0.member);
        self.until(LEADS_WITHIN, || next().is_some()).await.map_err(|()| "it has not been elected".to_owned())?;
        if next() == Some(to) { Ok(()) } else { Err("another member has been elected".into()) }
    }

    /// Has the next leader get everything: nothing is handed out any more, and nothing is proposed behind what it has.
    async fn prepare(&self, stream: &PlacedStream, to: MemberNumber) -> Result<HandingOver<'_, H>, String> {
        let (placement, shared) = (&self.0.placement, &self.0.shared);
        let mut handing_over = HandingOver::begin(shared, stream.term());
        R::sleep(ON_THE_WAY).await;
        // Which messages were handed out is appended by now.
        let (give, applied) = promise();
        stream.when_all_applied(Box::new(move || give(())));
        R::timeout(EVEN_WITHIN, applied).await.map_err(|_| "its entries aren't committed in time".to_owned())?;
        handing_over.pause();
        let is_even = || {
            let last = placement.status().last;
            placement.status().applied == last && placement.matched(replica_of(to)) == Some(last)
        };
        self.until(EVEN_WITHIN, is_even).await.map_err(|()| "that member doesn't have all entries".to_owned())?;
        Ok(handing_over)
    }

    async fn until(&self, within: Duration, is_so: impl Fn() -> bool) -> Result<(), ()> {
        let looking = async {
            while !is_so() {
                R::sleep(LOOK).await;
            }
        };
        R::timeout(within, looking).await.map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_to_give_a_leadership_away_become_rarer() {
        let (mut hand_overs, mut now, mut tries) = (HandOvers::default(), 0, Vec::new());
        while now < 120_000_000_000 {
            if hand_overs.is_due(now) {
                tries.push(now / 1_000_000);
                hand_overs.tried(now);
            }
            now += 200_000_000;
        }
        assert_eq!(tries, [0, 400, 1200, 2800, 6000, 12_400, 25_200, 50_800, 80_800, 110_800]);
    }
}
