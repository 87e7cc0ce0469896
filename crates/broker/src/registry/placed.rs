//! The control plane of a node in a cluster: changes are asked of the member that leads the metadata, and every member carries out what was
//! decided, in the same order.
//!
//! The leader decides on a copy of the committed model ([`decide`]); what it decided is an entry of placement 0. A committed entry is
//! [followed](Registry::follow) by each member, the leader too: nothing is staged, and what is followed is published at once. An asker is
//! answered when its own node has followed its change, so that it sees it.

use std::sync::Arc;

use leveret_log::{LogId, Wait};
use leveret_model::{
    AppliedEntry, Change, Command, CommandOutcome, ConnectionId, DeleteQueue, MemberNumber, Model, Permit, Queue,
    QueueId, QueueType, RecordError, Refused, RefusedKind, Topology, entry_of,
};
use leveret_queue::DeleteIf;
use serde::{Deserialize, Serialize};

use super::change_request::{
    ChangeOutcome, ChangeRequest, ChangeRequests, Changed, ChangedAll, ChangesOutcome, EndOfQueues, check_is_new,
    not_answered, not_deleted,
};
use super::staged::Next;
use super::{Registry, Snapshot};
use crate::asked::{NowOrLater, later_or};
use crate::events;
use crate::log_lines::changes;
use crate::planted::{Bug, is_planted};
use crate::policy_walk::PolicyNews;
use crate::queue_handle::QueueRef;
use crate::records::CONTROL_MODEL_COMMAND;
use crate::remote::Deletion;
use crate::streams::{ControlRecord, LateStream};
use crate::ticket::Ticket;
use crate::time::Nanos;

/// Changes that are asked of the leader, as one: all of them or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedRequest {
    /// The proof that all are allowed, with the name of the asker.
    pub permit: Permit,
    /// The changes, in order.
    pub commands: Vec<Command>,
    /// See [`ChangeRequests::is_new`].
    pub is_new: bool,
    /// Whether nothing changes, and the answer is which commands would be refused.
    pub is_dry: bool,
    /// The member that asks: queues that are declared are there.
    pub asker: MemberNumber,
    /// Whether it is asked until it is answered: the broker's own changes, for which nobody could ask again.
    pub is_asked_for_ever: bool,
}

/// The answer to a [`PlacedRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PlacedAnswer {
    /// All were made, or had nothing to do.
    Done {
        /// The outcomes, in the order of the commands.
        outcomes: Vec<CommandOutcome>,
        /// The difference between the declaration and the queue that exists.
        mismatch: Option<Refused>,
    },
    /// None was made, because the command with this index is refused.
    Refused(usize, Refused),
    /// To a dry request: the commands that would be refused.
    WouldRefuse(Vec<(usize, Refused)>),
}

/// A decision of the leader.
pub struct Decided {
    /// The answer, once the record is followed.
    pub answer: PlacedAnswer,
    /// The record to follow; `None` if nothing changes.
    pub record: Option<Vec<u8>>,
}

impl Decided {
    fn refused(at: usize, refused: Refused) -> Self {
        Decided { answer: PlacedAnswer::Refused(at, refused), record: None }
    }
}

/// Decides on a request. The model has the changes then, unless they are refused.
pub fn decide(model: &mut Model, request: PlacedRequest) -> Decided {
    let PlacedRequest { permit, mut commands, is_new, is_dry, asker, .. } = request;
    if !is_dry
        && commands.len() == 1
        && let Some(command) = commands.pop()
    {
        model.set_asker(asker);
        return decide_one(model, permit, command, is_new).unwrap_or_else(|refused| Decided::refused(0, refused));
    }
    let mut tried = model.clone();
    tried.set_asker(asker);
    // By the metadata before the request: an import may change what its own asker may do.
    let allowed = model.topology().clone();
    if is_dry {
        let mut submit = |command| {
            let judged = judge_again(&permit, &allowed, &command);
            judged.and_then(|()| tried.submit(permit.clone(), command).map(drop)).err()
        };
        let refused = commands.into_iter().enumerate().filter_map(|(at, command)| Some((at, submit(command)?)));
        return Decided { answer: PlacedAnswer::WouldRefuse(refused.collect()), record: None };
    }
    let (mut outcomes, mut mismatch, mut changes) = (Vec::new(), None, Vec::new());
    for (at, command) in commands.into_iter().enumerate() {
        let may = judge_again(&permit, &allowed, &command);
        let may = may.and_then(|()| if is_new { check_is_new(tried.topology(), &command) } else { Ok(()) });
        match may.and_then(|()| tried.submit(permit.clone(), command)) {
            Ok(submitted) => {
                outcomes.push(submitted.outcome);
                mismatch = mismatch.or(submitted.mismatch);
                changes.push(submitted.changes);
            }
            Err(refused) => return Decided::refused(at, refused),
        }
    }
    *model = tried;
    // Each by itself: the first change says whether the command was one that drops an object with its bindings.
    let mut record = leveret_model::JoinedRecords::default();
    changes.iter().filter_map(|changes| entry_of(changes)).for_each(|one| record.add(&one));
    Decided { answer: PlacedAnswer::Done { outcomes, mismatch }, record: record.finish() }
}

/// Decides on a request with one change, which needs no copy of the model: nothing changes if it is refused.
fn decide_one(model: &mut Model, permit: Permit, command: Command, is_new: bool) -> Result<Decided, Refused> {
    judge_again(&permit, model.topology(), &command)?;
    if is_new {
        check_is_new(model.topology(), &command)?;
    }
    let submitted = model.submit(permit, command)?;
    let answer = PlacedAnswer::Done { outcomes: vec![submitted.outcome], mismatch: submitted.mismatch };
    Ok(Decided { answer, record: entry_of(&submitted.changes) })
}

fn judge_again(permit: &Permit, topology: &Topology, command: &Command) -> Result<(), Refused> {
    if is_planted(Bug::TrustPermits) { Ok(()) } else { permit.judge_again(topology, command) }
}

/// The way to the leader of the metadata.
pub trait MetadataLeader: Send + Sync {
    /// Asks for changes. `answer` is called once, on any thread, when this node has followed what was decided; without a leader for a while
    /// it gets a refusal that says so. A request is carried out once, however often it has to be sent.
    fn ask(&self, request: PlacedRequest, answer: Box<dyn FnOnce(PlacedAnswer) + Send>);

    /// Asks to catch up. `answer` is called once, on any thread, when this node has followed all that was decided before this call, or with
    /// `false` if no leader has answered for a while.
    fn catch_up(&self, answer: Box<dyn FnOnce(bool) + Send>);
}

/// A record of an entry that is followed.
pub struct Followed<'a> {
    /// The record.
    pub record: &'a [u8],
    /// The user whose action it is.
    pub actor: &'a Arc<str>,
    /// Whether a client of this node asked: then this node tells of it.
    pub is_ours: bool,
}

/// Most changes that are asked of the leader as one. It decides on them, and every member follows them, in one go: with many more, members
/// would be silent for so long that others give them up.
const PART: usize = 4096;

/// Several changes of which some may be left to ask for.
struct Parts {
    requests: ChangeRequests,
    /// The outcomes so far.
    outcomes: Vec<CommandOutcome>,
    answer: Box<dyn FnOnce(ChangesOutcome) + Send>,
}

/// The registry's way to the leader.
pub(super) struct Placed {
    leader: Arc<dyn MetadataLeader>,
    /// The stream whose places are deletions that are asked: publishers of a queue that is closed wait for them.
    deletions: Arc<LateStream>,
}

impl Registry {
    /// From now on, changes are asked of the leader of a cluster's metadata. Called once, before anybody asks for changes.
    pub fn join(&self, leader: Arc<dyn MetadataLeader>) {
        let stream = LateStream::of_deletions(self.services.streams.local().clone(), &self.services.streams);
        let deletions = Arc::new(stream);
        let store = self.services.streams.local_store().clone();
        self.services.streams.join(deletions.clone(), store);
        let is_first = self.placed.set(Placed { leader, deletions }).is_ok();
        debug_assert!(is_first, "a node joins once in a life");
    }

    /// Whether changes are asked of the leader of a cluster's metadata.
    pub fn is_placed(&self) -> bool {
        self.placed.get().is_some()
    }

    /// Catches up with what was decided anywhere before this call. Whoever has looked something up in vain asks for this before it says so:
    /// another node may have told a client already that the object exists. Returns whether to look again; without a cluster there is nothing
    /// to catch up with, and without a leader this node's objects are all that it knows.
    pub fn catch_up(&self) -> NowOrLater<bool> {
        let Some(placed) = self.placed.get() else { return NowOrLater::Now(false) };
        let (place, later) = later_or(|| false);
        placed.leader.catch_up(Box::new(move |has_caught_up| place.answer(has_caught_up)));
        NowOrLater::Later(later)
    }

    /// The queues that only this node has, and that are to have other members, see [`Model::queues_to_spread`].
    pub fn queues_to_spread(&self, is_asked: bool) -> Vec<Arc<Queue>> {
        let model = self.committed_model();
        model.queues_to_spread(is_asked)
    }

    /// Whether the cluster has the size from which on they are given them without being asked.
    pub fn has_its_size(&self) -> bool {
        self.staged.lock().model.has_its_size()
    }

    /// The model as far as it is committed: where the leader's decisions begin.
    pub fn committed_model(&self) -> Model {
        self.staged.lock().model.clone()
    }

    /// Follows an entry: its records, and `applied`, which says that it is in the metadata, are logged as one. Returns the ticket after which
    /// that is durable.
    ///
    /// # Errors
    /// A record can't be read; nothing has changed.
    pub fn follow(
        self: &Arc<Self>,
        records: &[Followed<'_>],
        applied: AppliedEntry,
        now: Nanos,
    ) -> Result<Ticket, RecordError> {
        self.whole(|| {
            let mut joined = leveret_model::JoinedRecords::default();
            records.iter().for_each(|one| joined.add(one.record));
            joined.add(&leveret_model::record_of_applied(&applied));
            let payload = joined.finish().expect("it has one record at least");
            // Before anything is logged or published, so that a record that can't be read changes nothing.
            let mut model = self.staged.lock().model.clone();
            let mut steps = Vec::with_capacity(records.len());
            for one in records {
                let before = (one.is_ours && self.notices.wants_events()).then(|| model.shared_topology().clone());
                steps.push((one, before, model.follow(one.record)?));
            }
            model.set_applied(applied);
            let record = ControlRecord { log: LogId::METADATA, kind: CONTROL_MODEL_COMMAND, payload: &payload };
            let ticket = self.services.streams.log().append_control(record, Wait::Lazy);
            for (one, before, changes) in &steps {
                if let Some(before) = before {
                    events::changed(&self.notices, before, changes, one.actor);
                }
            }
            // As one: each publication would have the next change copy its path through the maps again.
            let mut changes: Vec<_> = steps.into_iter().map(|(one, _, changes)| (changes, one.actor)).collect();
            let mut staged = self.staged.lock();
            staged.model = model;
            staged.version += 1;
            staged.last_record = ticket.place();
            let next = self.next(&staged.latest, &staged.model, &mut changes, now);
            self.stage(staged, next, Ticket::default());
            self.services.streams.local().announce();
            Ok(ticket)
        })
    }

    /// Replaces everything by another node's state, which is ahead of this one. Queues of this node that are in both stay as they are.
    /// Returns the ticket after which that is durable.
    ///
    /// # Errors
    /// The state can't be read; nothing has changed.
    pub fn replace(self: &Arc<Self>, state: &[u8], applied: AppliedEntry, now: Nanos) -> Result<Ticket, RecordError> {
        self.whole(|| {
            let mut model = Model::restore(state)?;
            model.set_applied(applied);
            let mut staged = self.staged.lock();
            model.take_settings_of(&staged.model);
            let payload = model.record_anew();
            let record = ControlRecord { log: LogId::METADATA, kind: CONTROL_MODEL_COMMAND, payload: &payload };
            let ticket = self.services.streams.log().append_control(record, Wait::Confirm);
            let next = self.replaced(&staged.latest, &model, now);
            staged.model = model;
            staged.version += 1;
            staged.last_record = ticket.place();
            self.stage(staged, Some(next), Ticket::default());
            Ok(ticket)
        })
    }

    /// The snapshot of another state.
    fn replaced(&self, latest: &Snapshot, model: &Model, now: Nanos) -> Next {
        let topology = model.shared_topology().clone();
        let mut next = Snapshot {
            router: leveret_routing::Router::new(&topology),
            queues: imbl::OrdMap::new(),
            exchanges: imbl::HashMap::new(),
            replies: latest.replies.clone(),
            traced: latest.traced.clone(),
            generation: latest.generation + 1,
            topology,
        };
        let (mut declared, mut spread, mut gone) = (Vec::new(), Vec::new(), latest.queues.clone());
        for info in next.topology.vhosts().flat_map(|vhost| next.topology.queues(vhost)) {
            let known = gone.remove(&info.id);
            let kept = known.clone().filter(|queue| {
                let stays = queue.home().is_some() || queue.as_placed().is_some();
                stays && queue.info() == info
            });
            let queue = kept.unwrap_or_else(|| {
                let queue = self.open(info, &next.topology, now);
                declared.push(queue.clone());
                let is_spread = info.home.placement().is_some();
                spread.extend(known.filter(|_| is_spread).map(|former| (former, queue.clone())));
                queue
            });
            next.queues.insert(info.id, queue);
        }
        for exchange in next.topology.vhosts().flat_map(|vhost| next.topology.exchanges(vhost)) {
            let counters = latest.exchanges.get(&exchange.id).cloned().unwrap_or_default();
            next.exchanges.insert(exchange.id, counters);
        }
        let deleted = gone.values().cloned().collect();
        let nobody = Arc::from("");
        let of_vhost = |topology: &Topology, vhost: &Arc<str>| {
            let mut kinds = leveret_model::PolicyKind::ALL.into_iter();
            kinds.find_map(|kind| topology.policies(kind, vhost).next().cloned())
        };
        // One of each vhost has all its queues look at all of its policies, also if there is none any more.
        let set = next.topology.vhosts().filter_map(|vhost| of_vhost(&next.topology, vhost)).map(Change::PolicySet);
        let cleared = latest.topology.vhosts().filter(|vhost| of_vhost(&next.topology, vhost).is_none());
        let cleared = cleared.filter_map(|vhost| of_vhost(&latest.topology, vhost)).map(Change::PolicyCleared);
        let policies = set.chain(cleared).filter_map(|change| PolicyNews::of(&change, &nobody)).collect();
        Next { declared, deleted, spread, is_large: true, is_bound_anew: true, policies, ..Next::new(next) }
    }

    /// Asks the leader for a change. `None` if the node is in no cluster. See [`PlacedRequest::is_asked_for_ever`].
    pub(super) fn change_placed(
        self: &Arc<Self>,
        request: &ChangeRequest,
        is_asked_for_ever: bool,
        now: Nanos,
    ) -> Option<NowOrLater<ChangeOutcome>> {
        let placed = self.placed.get()?;
        let ChangeRequest { permit, command, delete_if } = request.clone();
        let snapshot = self.snapshot_full();
        if let Command::DeleteQueue(command) = &command
            && delete_if.any()
            && meant(&snapshot, command).is_none()
        {
            return Some(self.delete_once_caught_up(placed, request, is_asked_for_ever, now));
        }
        let (mut closed, mut deleted) = (None, Vec::new());
        if let Command::DeleteQueue(command) = &command
            && let Some(queue) = meant(&snapshot, command)
            // The broker's own deletions without a condition needn't find the home.
            && (delete_if.any() || !is_asked_for_ever)
            && let Some(asked) = self.delete_at_home(queue, request, is_asked_for_ever)
        {
            return Some(asked);
        }
        let command = match command {
            Command::DeleteQueue(command) => match self.close_placed(placed, &snapshot, command, delete_if, now) {
                Ok(Closed { command, queue, ticket }) => {
                    closed = ticket.and_then(|ticket| Some((queue.as_ref()?.home()?.clone(), ticket)));
                    deleted.extend(queue);
                    Command::DeleteQueue(command)
                }
                Err(refused) => return Some(NowOrLater::Now(Err(refused))),
            },
            Command::ConvertQueue(_) => return Some(NowOrLater::Now(Err(no_conversions()))),
            command => command,
        };
        let told = changes::lines(&snapshot.topology, &command);
        let declared = match &command {
            Command::DeclareQueue(declare) => Some((declare.vhost.clone(), declare.name.clone())),
            _ => None,
        };
        let request = self.request(permit, vec![command], is_asked_for_ever);
        let (place, later) = later_or(|| Err(not_answered()));
        let (registry, deletions) = (Arc::downgrade(self), placed.deletions.clone());
        let answer = move |answer| {
            let Some(registry) = registry.upgrade() else { return };
            let outcome = match answer {
                PlacedAnswer::Done { outcomes, mismatch } => {
                    let outcome = outcomes.first().copied().unwrap_or(CommandOutcome::Exists);
                    told.iter().for_each(|line| tracing::info!("{line}"));
                    let declared = declared.and_then(|(vhost, name)| registry.snapshot().queue(&vhost, &name).cloned());
                    if let Some(queue) = &declared {
                        registry.count_declared(outcome);
                        registry.tell_of_one_member(queue, outcome);
                    }
                    Ok(Changed { declared, deleted, mismatch, ..Changed::new(outcome, Ticket::default()) })
                }
                PlacedAnswer::Refused(_, refused) => {
                    if let Some((home, _)) = &closed {
                        home.reopen();
                    }
                    Err(refused)
                }
                PlacedAnswer::WouldRefuse(_) => Err(not_answered()),
            };
            if let Some((_, ticket)) = closed {
                deletions.answered(ticket.place());
            }
            place.answer(outcome);
        };
        placed.leader.ask(request, Box::new(answer));
        Some(NowOrLater::Later(later))
    }

    /// Deletes a queue under a condition that this node doesn't know yet. The leader may know it, but can't judge the condition.
    fn delete_once_caught_up(
        self: &Arc<Self>,
        placed: &Placed,
        request: &ChangeRequest,
        is_asked_for_ever: bool,
        now: Nanos,
    ) -> NowOrLater<ChangeOutcome> {
        let (place, later) = later_or(|| Err(not_answered()));
        let (registry, request) = (Arc::downgrade(self), request.clone());
        let again = move |_| {
            let Some(registry) = registry.upgrade() else { return };
            let is_known = |command| meant(&registry.snapshot_full(), command).is_some();
            match &request.command {
                Command::DeleteQueue(command) if !is_known(command) => {
                    place.answer(Ok(Changed::new(CommandOutcome::Absent, Ticket::default())));
                }
                _ => {
                    let asked = registry.change_placed(&request, is_asked_for_ever, now);
                    if let Some(asked) = asked {
                        asked.then(move |outcome| place.answer(outcome));
                    }
                }
            }
        };
        placed.leader.catch_up(Box::new(again));
        NowOrLater::Later(later)
    }

    /// Closes a queue that is to be deleted under a condition, which only its home can check.
    fn close_placed(
        &self,
        placed: &Placed,
        snapshot: &Snapshot,
        mut command: DeleteQueue,
        condition: DeleteIf,
        now: Nanos,
    ) -> Result<Closed, Refused> {
        let Some(queue) = meant(snapshot, &command).cloned() else {
            return Ok(Closed { command, queue: None, ticket: None });
        };
        if !condition.any() {
            return Ok(Closed { command, queue: Some(queue), ticket: None });
        }
        queue.check_runs().map_err(|text| Refused::new(RefusedKind::NotFound, text))?;
        let Some(home) = queue.home() else { return Ok(Closed { command, queue: Some(queue), ticket: None }) };
        let ticket = placed.deletions.begin();
        if let Err(reason) = home.close(condition, now, || ticket) {
            placed.deletions.answered(ticket.place());
            return Err(not_deleted(reason, &command.vhost, &command.name));
        }
        command.id = Some(queue.info().id);
        Ok(Closed { command, queue: Some(queue), ticket: Some(ticket) })
    }

    /// Has the home of a queue on another node delete it, which judges the condition and says how many messages it had. When that is done,
    /// the leader is asked, too: the answer comes when this node has followed the deletion. `None` if the queue is on this node, or there is
    /// no condition and its home can't be reached.
    fn delete_at_home(
        self: &Arc<Self>,
        queue: &QueueRef,
        request: &ChangeRequest,
        is_asked_for_ever: bool,
    ) -> Option<NowOrLater<ChangeOutcome>> {
        let away = queue.as_away()?;
        let Command::DeleteQueue(command) = &request.command else { return None };
        let condition = request.delete_if;
        if let Err(text) = queue.check_runs() {
            let refused = Refused::new(RefusedKind::NotFound, text);
            return condition.any().then(|| NowOrLater::Now(Err(refused)));
        }
        let command = DeleteQueue { id: Some(queue.info().id), ..command.clone() };
        let permit = request.permit.clone();
        let asked = away.delete(Deletion { permit: permit.clone(), command: command.clone(), condition });
        let (place, later) = later_or(|| Err(not_answered()));
        let (registry, queue) = (Arc::downgrade(self), queue.clone());
        asked.then(move |answer| {
            let is_deleted = match answer {
                Some(Ok(is_deleted)) => is_deleted,
                None if !condition.any() => false,
                Some(Err(refused)) => return place.answer(Err(refused)),
                None => {
                    let text = queue.as_away().map_or_else(String::new, |away| away.text());
                    return place.answer(Err(Refused::new(RefusedKind::NotFound, text)));
                }
            };
            let Some(registry) = registry.upgrade() else { return };
            let request = registry.request(permit, vec![Command::DeleteQueue(command)], is_asked_for_ever);
            let Some(placed) = registry.placed.get() else { return };
            let answer = move |answer| {
                place.answer(match answer {
                    PlacedAnswer::Done { outcomes, .. } => {
                        let found = outcomes.first().copied().unwrap_or(CommandOutcome::Absent);
                        let outcome = if is_deleted { CommandOutcome::Deleted } else { found };
                        Ok(Changed { deleted: vec![queue], ..Changed::new(outcome, Ticket::default()) })
                    }
                    PlacedAnswer::Refused(_, refused) => Err(refused),
                    PlacedAnswer::WouldRefuse(_) => Err(not_answered()),
                });
            };
            placed.leader.ask(request, Box::new(answer));
        });
        Some(NowOrLater::Later(later))
    }

    /// Asks the leader for several changes. `None` if the node is in no cluster. Those of a part are made as one. Several parts are tried here
    /// first, so that nothing is changed if one is refused: the leader has to go on with everything else meanwhile.
    pub(super) fn change_all_placed(self: &Arc<Self>, requests: &ChangeRequests) -> Option<NowOrLater<ChangesOutcome>> {
        self.placed.get()?;
        if requests.commands.len() > PART
            && let Some(refused) = self.refusals_here(requests).next()
        {
            return Some(NowOrLater::Now(Err(refused)));
        }
        let (place, later) = later_or(|| Err((0, not_answered())));
        let answer = Box::new(move |outcome| place.answer(outcome));
        let parts = Parts { requests: requests.clone(), outcomes: Vec::new(), answer };
        self.ask_next(parts);
        Some(NowOrLater::Later(later))
    }

    /// Asks for the next part of several changes.
    fn ask_next(self: &Arc<Self>, mut parts: Parts) {
        let Some(placed) = self.placed.get() else { return };
        let ChangeRequests { permit, commands, is_new } = &parts.requests;
        let from = parts.outcomes.len();
        let part = &commands[from..commands.len().min(from + PART)];
        let topology = self.snapshot().topology.clone();
        let told: Vec<_> = part.iter().flat_map(|command| changes::lines(&topology, command)).collect();
        let request = self.request(permit.clone(), part.to_vec(), false);
        let request = PlacedRequest { is_new: *is_new, ..request };
        let registry = Arc::downgrade(self);
        let answer = move |answer| {
            let Some(registry) = registry.upgrade() else { return };
            match answer {
                PlacedAnswer::Done { outcomes, .. } => {
                    told.iter().for_each(|line| tracing::info!("{line}"));
                    let commands = &parts.requests.commands[from..];
                    let declared = outcomes.iter().zip(commands);
                    let declared = declared.filter(|(_, command)| matches!(command, Command::DeclareQueue(_)));
                    declared.for_each(|(outcome, _)| registry.count_declared(*outcome));
                    let is_last = outcomes.len() == commands.len();
                    parts.outcomes.extend(outcomes);
                    if !is_last {
                        return registry.ask_next(parts);
                    }
                    (parts.answer)(Ok(ChangedAll { outcomes: parts.outcomes, ticket: Ticket::default() }));
                }
                PlacedAnswer::Refused(at, refused) => {
                    let refused = match from {
                        0 => refused,
                        from => Refused::new(
                            refused.kind,
                            format!("{}; the {from} changes before it were made", refused.text),
                        ),
                    };
                    (parts.answer)(Err((from + at, refused)));
                }
                PlacedAnswer::WouldRefuse(_) => (parts.answer)(Err((from, not_answered()))),
            }
        };
        placed.leader.ask(request, Box::new(answer));
    }

    /// The commands that would be refused by the metadata of this node.
    fn refusals_here<'a>(&self, requests: &'a ChangeRequests) -> impl Iterator<Item = (usize, Refused)> + 'a {
        let ChangeRequests { permit, commands, is_new } = requests;
        let mut model = self.committed_model();
        model.set_asker(self.services.member);
        let allowed = model.topology().clone();
        commands.iter().enumerate().filter_map(move |(at, command)| {
            let may = judge_again(permit, &allowed, command);
            let may = may.and_then(|()| if *is_new { check_is_new(model.topology(), command) } else { Ok(()) });
            let refused = may.and_then(|()| model.submit(permit.clone(), command.clone()).map(drop)).err()?;
            Some((at, refused))
        })
    }

    /// Asks the leader which commands would be refused; of many, this node says it. `None` if the node is in no cluster.
    pub(super) fn refusals_placed(
        &self,
        permit: &Permit,
        commands: &Arc<[Command]>,
    ) -> Option<NowOrLater<Vec<(usize, Refused)>>> {
        let placed = self.placed.get()?;
        if commands.len() > PART {
            let requests = ChangeRequests { permit: permit.clone(), commands: commands.clone(), is_new: false };
            return Some(NowOrLater::Now(self.refusals_here(&requests).collect()));
        }
        let request = PlacedRequest { is_dry: true, ..self.request(permit.clone(), commands.to_vec(), false) };
        let (place, later) = later_or(Vec::new);
        let answer = move |answer| {
            place.answer(match answer {
                PlacedAnswer::WouldRefuse(refused) => refused,
                PlacedAnswer::Refused(at, refused) => vec![(at, refused)],
                PlacedAnswer::Done { .. } => Vec::new(),
            });
        };
        placed.leader.ask(request, Box::new(answer));
        Some(NowOrLater::Later(later))
    }

    /// Asks the leader for the end of exclusive queues of a connection. `None` if the node is in no cluster.
    pub(super) fn end_exclusive_queues_placed(
        &self,
        owner: ConnectionId,
        from: QueueId,
        most: usize,
    ) -> Option<NowOrLater<EndOfQueues>> {
        let placed = self.placed.get()?;
        let topology = self.snapshot().topology.clone();
        let queues: Vec<_> = topology.exclusive_queues(owner, from).take(most).cloned().collect();
        let Some(last) = queues.last() else { return Some(NowOrLater::Now(EndOfQueues::default())) };
        let next = Some(QueueId(last.id.0 + 1));
        let end = |queue: &Arc<Queue>| ChangeRequest::end_of_queue(queue, DeleteIf::default()).command;
        let request = self.request(Permit::system(), queues.iter().map(end).collect(), true);
        let (place, later) = later_or(EndOfQueues::default);
        let answer = move |_| place.answer(EndOfQueues { ticket: Ticket::default(), next });
        placed.leader.ask(request, Box::new(answer));
        Some(NowOrLater::Later(later))
    }

    /// Says that a new queue has one member where it would have had several in RabbitMQ.
    fn tell_of_one_member(&self, queue: &QueueRef, outcome: CommandOutcome) {
        let info = queue.info();
        let is_alone = self.snapshot().topology.members().nth(1).is_none();
        let is_replicated = info.home.placement().is_some();
        if outcome == CommandOutcome::Created && info.queue_type() != QueueType::Classic && !is_alone && !is_replicated
        {
            let (kind, name, vhost) = (info.queue_type().name(), &info.name, &info.vhost);
            tracing::warn!(
                "{kind} queue '{name}' in vhost '{vhost}' has one member, this node: its messages aren't replicated yet"
            );
        }
    }

    fn request(&self, permit: Permit, commands: Vec<Command>, is_asked_for_ever: bool) -> PlacedRequest {
        let asker = self.services.member;
        PlacedRequest { permit, commands, is_new: false, is_dry: false, asker, is_asked_for_ever }
    }
}

/// The queue that a deletion means.
fn meant<'a>(snapshot: &'a Snapshot, command: &DeleteQueue) -> Option<&'a QueueRef> {
    let queue = snapshot.queue(&command.vhost, &command.name);
    queue.filter(|queue| command.id.is_none_or(|id| id == queue.info().id))
}

/// A queue that is about to be deleted.
struct Closed {
    command: DeleteQueue,
    queue: Option<QueueRef>,
    /// Reached when the deletion is decided, if the queue was closed for it.
    ticket: Option<Ticket>,
}

/// The refusal of a conversion.
pub(super) fn no_conversions() -> Refused {
    Refused::new(
        RefusedKind::NotImplemented,
        "queues aren't converted while the node is part of a cluster of several; declare a new queue and move the messages",
    )
}
