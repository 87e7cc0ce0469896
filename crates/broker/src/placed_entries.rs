//! A broker's placements: their leaders, their committed entries, and the states of other members.

use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{LogId, Position};
use leveret_model::{MemberNumber, Model, PlacementNumber, QueueId};
use leveret_queue::ConsumerId;

use crate::broker::Broker;
use crate::held_answers::HeldAnswers;
use crate::reads::AnswerRead;
use crate::recovery::Recovered;
use crate::replicas::{self, AppliedHere, HeldOfMember, PlacedReplicas, PlacedState, PlacedStream};
use crate::ticket::Ticket;
use crate::time::Nanos;

impl Broker {
    /// Asks the other members what their clients hold of the queues of a placement that this node is about to lead. `all_there` is called
    /// once all have answered that are reached.
    pub fn ask_held(
        &self,
        leadership: (PlacementNumber, u64),
        all_there: Box<dyn FnOnce() + Send>,
    ) -> Arc<HeldAnswers> {
        self.placements.ask_held(leadership, self.registry.services(), all_there)
    }

    /// The messages that clients of this node hold of a placement that `member` is about to lead. They get nothing more of its earlier leader.
    pub fn report_held(&self, leadership: (PlacementNumber, u64), now: Nanos) -> HeldOfMember {
        self.placements.report_held(leadership, self.registry.services(), now)
    }

    /// This node leads a placement from this term on, and its replicas have everything that was committed before. Clients of other members
    /// hold some of the messages. Returns the proposals of its queues, which come after calls of `wake`.
    pub fn lead(
        &self,
        (placement, term): (PlacementNumber, u64),
        held: &HeldAnswers,
        now: Nanos,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<PlacedStream> {
        let topology = self.registry.snapshot().topology.clone();
        self.placements.lead((placement, term), held, (self.registry.services(), &topology), now, wake)
    }

    /// This node leads a placement in this term until then, whatever happens. Its queues hand out nothing after that time.
    pub fn renew_lease(&self, placement: PlacementNumber, term: u64, until: Nanos) {
        self.placements.renew_lease((placement, term), self.registry.services(), until);
    }

    /// The leader of a placement in this term hands nothing out from now on, so that the next one knows what was; or again.
    pub fn stop_handing_out(&self, placement: PlacementNumber, term: u64, stops: bool) {
        self.placements.stop_handing_out((placement, term), self.registry.services(), stops);
    }

    /// Another member leads a placement, in this term, or nobody does as far as this node knows.
    pub fn follow_leader(&self, placement: PlacementNumber, leader: Option<(MemberNumber, u64)>, now: Nanos) {
        self.placements.follow(placement, leader, self.registry.services(), now);
    }

    /// Registers consumers of replicated queues again that couldn't be registered when the leader changed, and ends calls that have waited
    /// for a leader for too long. Has queues of this node alone be given other members. Called now and then.
    pub fn tend_placements(&self, now: Nanos) {
        let topology = self.registry.snapshot().topology.clone();
        self.placements.tend((self.registry.services(), &topology), now);
        self.tend_spreading(now);
    }

    /// A member's process is known to have ended, or it can be reached again: whoever waits for its consumers doesn't, or does.
    pub fn note_gone(&self, member: MemberNumber, is_gone: bool) {
        self.placements.note_gone(member, is_gone);
    }

    /// Whether a client of this node has this consumer of a replicated queue.
    pub fn has_consumer(&self, queue: QueueId, id: ConsumerId) -> bool {
        let snapshot = self.registry.snapshot();
        snapshot.queues.get(&queue).and_then(|queue| queue.as_placed()).is_some_and(|queue| queue.has_consumer(id))
    }

    /// The active consumers that the queues of a placement wait for.
    #[cfg(feature = "testing")]
    pub fn awaited_consumers(&self, placement: PlacementNumber) -> Vec<(QueueId, ConsumerId)> {
        self.placements.get(placement, self.registry.services()).awaited()
    }

    /// The node of a consumer that is waited for has answered whether a client has it.
    #[cfg(feature = "testing")]
    pub fn answer_awaited(
        &self,
        placement: PlacementNumber,
        (queue, id): (QueueId, ConsumerId),
        has: bool,
        now: Nanos,
    ) {
        self.placements.get(placement, self.registry.services()).answer_awaited((queue, id), has, now);
    }

    /// Applies a committed entry of a placement, see [`crate::replicas::PlacedReplicas::apply`].
    ///
    /// # Errors
    /// The entry can't be read.
    pub fn apply_placed(
        &self,
        placement: PlacementNumber,
        state: PlacedState,
        entry: Option<&Bytes>,
    ) -> Result<AppliedHere, String> {
        let is_dropped = |log: LogId| self.is_dropped(log);
        let applied = self.placements.replicas().apply(placement, state, entry, &is_dropped);
        self.streams.local().announce();
        applied
    }

    /// The state of a placement for another member, see [`PlacedReplicas::save`].
    pub fn save_placed(&self, placement: PlacementNumber) -> Option<(PlacedState, Bytes)> {
        let snapshot = self.registry.snapshot();
        let placement_of = |queue: LogId| {
            let queue = snapshot.topology.queue_by_id(QueueId(queue.0));
            queue.and_then(|queue| queue.home.placement())
        };
        self.placements.replicas().save(placement, &placement_of)
    }

    /// Answers a member's question for messages of a placement, once they are read.
    pub fn answer_placed(
        &self,
        placement: PlacementNumber,
        question: &Bytes,
        answer: Box<dyn FnOnce(Result<Bytes, String>) + Send>,
    ) {
        match self.placements.replicas().plan_answer(placement, question) {
            Ok(plan) => self.reads.request_answer(AnswerRead { plan, answer }),
            Err(reason) => answer(Err(reason)),
        }
    }

    /// The state of a placement counts, see [`PlacedReplicas::finish_difference`].
    ///
    /// # Errors
    /// The state of a queue can't be read.
    pub fn finish_placed(&self, placement: PlacementNumber, ticket: Ticket) -> Result<(), String> {
        let is_dropped = |log: LogId| self.is_dropped(log);
        self.placements.replicas().finish_difference(placement, ticket, &is_dropped)
    }

    /// Whether the queue with this log was deleted.
    fn is_dropped(&self, log: LogId) -> bool {
        let id = QueueId(log.0);
        self.registry.has_given(id) && !self.registry.staged_snapshot().queues.contains_key(&id)
    }
}

/// Takes the queues of placements out of what a start recovered. Queues whose id this node's metadata hasn't given yet may be declared in an
/// entry that it hasn't followed: if the node has placements, they belong to one.
///
/// Returns logs that nobody needs: of states of other members that weren't complete, or that were replaced.
pub(crate) fn take_replicas(
    state: &mut Recovered,
    model: &Model,
    replicas: &PlacedReplicas,
    position: Position,
) -> Vec<LogId> {
    let marks = state.take_marks();
    let placement_of = |queue: LogId| {
        let queue = model.topology().queue_by_id(QueueId(queue.0));
        queue.and_then(|queue| queue.home.placement())
    };
    let is_replicated = |log: &LogId| {
        let id = QueueId(replicas::queue_of(*log).0);
        match model.topology().queue_by_id(id) {
            Some(queue) => queue.home.placement().is_some(),
            None => !marks.is_empty() && !model.has_given(id),
        }
    };
    let logs = state.orphans().into_iter().filter(|log| replicas::copy_of(*log).is_some() || is_replicated(log));
    let logs: Vec<LogId> = logs.collect();
    let (found, deleted): (Vec<_>, Vec<_>) = logs.into_iter().partition(is_replicated);
    let found = found.into_iter().filter_map(|log| Some((log, state.take_replicated(log)?))).collect();
    deleted.iter().for_each(|log| drop(state.take_replicated(*log)));
    marks.into_iter().for_each(|(placement, mark)| replicas.restore_mark(placement, mark, position));
    let left = replicas.restore(found, position, placement_of);
    deleted.into_iter().chain(left).collect()
}
