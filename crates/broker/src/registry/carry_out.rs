//! Changes as the registry carries them out: they are checked, staged and logged in one step.

use leveret_model::{
    Change, Command, CommandOutcome, ConnectionId, ConvertQueue, DeleteQueue, EarlierPriorities, JoinedRecords, Model,
    Permit, Queue, QueueId, Refused, RefusedKind, Topology,
};
use leveret_queue::DeleteIf;
use parking_lot::MutexGuard;

use super::change_request::{
    ChangeOutcome, ChangeRequest, ChangeRequests, Changed, ChangedAll, ChangesOutcome, ConversionOutcome, EndOfQueues,
    check_is_new, not_deleted,
};
use super::staged::{Next, Staged, Tried};
use super::{Registry, Snapshot};
use crate::events;
use crate::log_lines::{category, changes};
use crate::planted::{Bug, is_planted};
use crate::queue_handle::{QueueRef, Successor};
use crate::ticket::Ticket;
use crate::time::Nanos;
use crate::unconverted::unconverted;

/// Number of attempts to make a change of many objects on a copy. If other changes are faster each time, it is made under the
/// lock.
const TRIES: u32 = 3;

impl Registry {
    /// Checks and stages a change.
    ///
    /// # Errors
    /// [`Refused`] in RabbitMQ's words; nothing has changed then.
    pub(crate) fn change_now(&self, request: ChangeRequest, now: Nanos) -> ChangeOutcome {
        let ChangeRequest { permit, command, delete_if } = request;
        let command = match command {
            Command::DeleteQueue(command) if delete_if.any() => {
                return self.delete_queue_now(permit, command, delete_if, now);
            }
            command => command,
        };
        let declared = match &command {
            Command::DeclareQueue(declare) => Some((declare.vhost.clone(), declare.name.clone())),
            _ => None,
        };
        self.whole(|| {
            let mut staged = self.staged.lock();
            let told = changes::lines(staged.model.topology(), &command);
            let before = self.notices.wants_events().then(|| staged.model.shared_topology().clone());
            let actor = permit.actor().clone();
            let submitted = staged.model.submit(permit, command)?;
            self.tell(&told, before.as_deref(), &submitted.changes, &actor);
            let ticket = self.log(&mut staged, submitted.record.as_deref());
            let next = self.next(&staged.latest, &staged.model, &mut [(submitted.changes, &actor)], now);
            let history = next.as_ref().and_then(|next| next.histories.first()).map(|copy| copy.end.clone());
            let latest = next.as_ref().map_or(&staged.latest, |next| &next.snapshot);
            let declared = declared.and_then(|(vhost, name)| latest.queue(&vhost, &name).cloned());
            if declared.is_some() {
                self.count_declared(submitted.outcome);
            }
            let deleted = self.stage(staged, next, ticket);
            let mismatch = submitted.mismatch;
            Ok(Changed { declared, deleted, mismatch, history, ..Changed::new(submitted.outcome, ticket) })
        })
    }

    /// Reports a change that is certain: in the log, and as events if the topology before it is given.
    fn tell(&self, lines: &[String], before: Option<&Topology>, changes: &[Change], actor: &str) {
        lines.iter().for_each(|line| tracing::info!("{line}"));
        if let Some(before) = before {
            events::changed(&self.notices, before, changes, actor);
        }
    }

    /// Deletes a queue if the conditions hold; checking and closing it is one step.
    fn delete_queue_now(&self, permit: Permit, command: DeleteQueue, condition: DeleteIf, now: Nanos) -> ChangeOutcome {
        self.whole(|| {
            let mut staged = self.staged.lock();
            let is_meant = |queue: &&QueueRef| command.id.is_none_or(|id| id == queue.info().id);
            let queue = staged.latest.queue(&command.vhost, &command.name).filter(is_meant).cloned();
            let (vhost, name) = (command.vhost.clone(), command.name.clone());
            let command = Command::DeleteQueue(command);
            let told = changes::lines(staged.model.topology(), &command);
            let actor = permit.actor().clone();
            let mut model = staged.model.clone();
            let submitted = model.submit(permit, command)?;
            let record = submitted.record.as_deref();
            let home = queue.as_ref().and_then(QueueRef::home);
            let ticket = match home {
                None => self.log(&mut staged, record),
                Some(home) => home
                    .close(condition, now, || self.log(&mut staged, record))
                    .map_err(|reason| not_deleted(reason, &vhost, &name))?,
            };
            let before = std::mem::replace(&mut staged.model, model);
            self.tell(&told, Some(before.topology()), &submitted.changes, &actor);
            let next = self.next(&staged.latest, &staged.model, &mut [(submitted.changes, &actor)], now);
            let deleted = self.stage(staged, next, ticket);
            Ok(Changed { deleted, ..Changed::new(submitted.outcome, ticket) })
        })
    }

    /// See [`Registry::convert_queue`].
    pub(super) fn convert_queue_now(
        &self,
        permit: &Permit,
        command: ConvertQueue,
        dry_run: bool,
        now: Nanos,
    ) -> ConversionOutcome {
        self.whole(|| {
            let mut staged = self.staged.lock();
            let (vhost, name) = (command.vhost.clone(), command.name.clone());
            let queue = staged.latest.queue(&vhost, &name).ok_or_else(|| Refused::no_queue(&vhost, &name))?.clone();
            let told = changes::lines(staged.model.topology(), &Command::ConvertQueue(command.clone()));
            let mut model = staged.model.clone();
            let mut outcome = CommandOutcome::Exists;
            let prepare = |earlier: EarlierPriorities| {
                let command = ConvertQueue { earlier: Some(earlier).filter(|earlier| earlier.below > 0), ..command };
                let submitted = model.submit(permit.clone(), Command::ConvertQueue(command))?;
                outcome = submitted.outcome;
                let info = model.topology().queue(&vhost, &name).expect("it was found above").clone();
                let effective = model.topology().effective_queue(&info, &[]);
                let is_new = outcome != CommandOutcome::Exists;
                Ok(is_new.then_some(Successor { info, effective, record: submitted.record }))
            };
            let log = (!dry_run).then_some(|record: Option<&[u8]>| {
                self.log(&mut staged, record.filter(|_| !is_planted(Bug::ForgetConversion)))
            });
            let home = queue.home().ok_or_else(|| {
                Refused::precondition(format!("queue '{name}' in vhost '{vhost}' is on another node"))
            })?;
            let (successor, ticket) = match home.convert(&self.services, now, prepare, log) {
                Ok(Some(converted)) => converted,
                Ok(None) => {
                    return Ok(Some(Changed::new(outcome, Ticket::default())));
                }
                Err(reason) => return unconverted(&queue, reason).map_or(Ok(None), Err),
            };
            told.iter().for_each(|line| tracing::info!("{line}"));
            staged.model = model;
            let mut snapshot = Snapshot::clone(&staged.latest);
            snapshot.topology = staged.model.shared_topology().clone();
            snapshot.generation += 1;
            snapshot.queues.insert(successor.info().id, successor.clone());
            let next = Next { declared: vec![successor], converted: vec![queue], ..Next::new(snapshot) };
            let deleted = self.stage(staged, Some(next), ticket);
            Ok(Some(Changed { deleted, ..Changed::new(outcome, ticket) }))
        })
    }

    /// See [`Registry::change_all`].
    pub(super) fn change_all_now(&self, requests: &ChangeRequests, now: Nanos) -> ChangesOutcome {
        let ChangeRequests { permit, commands, .. } = requests;
        self.whole(|| {
            let before = self.staged.lock().model.shared_topology().clone();
            let tell = |tried: &Tried| {
                let told: Vec<_> = commands.iter().flat_map(|command| changes::lines(&before, command)).collect();
                self.tell(&told, Some(&before), &tried.changes, permit.actor());
            };
            for _ in 0..TRIES {
                let (version, model, latest) = {
                    let staged = self.staged.lock();
                    (staged.version, staged.model.clone(), staged.latest.clone())
                };
                let tried = self.try_all(model, &latest, requests, now)?;
                let staged = self.staged.lock();
                if staged.version == version {
                    tell(&tried);
                    return Ok(self.take_over(staged, commands, tried));
                }
            }
            let staged = self.staged.lock();
            let tried = self.try_all(staged.model.clone(), &staged.latest, requests, now)?;
            tell(&tried);
            Ok(self.take_over(staged, commands, tried))
        })
    }

    /// See [`Registry::refusals`].
    pub(super) fn refusals_now(&self, permit: &Permit, commands: &[Command]) -> Vec<(usize, Refused)> {
        let mut model = self.staged.lock().model.clone();
        let tried = commands.iter().enumerate();
        tried.filter_map(|(at, command)| Some((at, model.submit(permit.clone(), command.clone()).err()?))).collect()
    }

    fn try_all(
        &self,
        mut model: Model,
        latest: &Snapshot,
        requests: &ChangeRequests,
        now: Nanos,
    ) -> Result<Tried, (usize, Refused)> {
        let ChangeRequests { permit, commands, is_new } = requests;
        let (mut outcomes, mut changes, mut record) = (Vec::new(), Vec::new(), JoinedRecords::default());
        for (at, command) in commands.iter().enumerate() {
            if *is_new {
                check_is_new(model.topology(), command).map_err(|refused| (at, refused))?;
            }
            let submitted = model.submit(permit.clone(), command.clone()).map_err(|refused| (at, refused))?;
            outcomes.push(submitted.outcome);
            changes.extend(submitted.changes);
            submitted.record.iter().for_each(|one| record.add(one));
        }
        // Events are left when the change is certain.
        let told = if self.notices.wants_events() { changes.clone() } else { Vec::new() };
        let next = self.next(latest, &model, &mut [(changes, permit.actor())], now);
        let record = record.finish();
        Ok(Tried { model, outcomes, record, next, changes: told })
    }

    pub(super) fn count_declared(&self, outcome: CommandOutcome) {
        self.services.counters.queues_declared.add(1);
        self.services.counters.queues_created.add(u64::from(outcome == CommandOutcome::Created));
    }

    /// Replaces the newest state by the copy on which commands were executed.
    fn take_over(&self, mut staged: MutexGuard<'_, Staged>, commands: &[Command], tried: Tried) -> ChangedAll {
        for (command, outcome) in commands.iter().zip(&tried.outcomes) {
            if matches!(command, Command::DeclareQueue(_)) {
                self.count_declared(*outcome);
            }
        }
        staged.model = tried.model;
        let ticket = self.log(&mut staged, tried.record.as_deref());
        self.stage(staged, tried.next, ticket);
        ChangedAll { outcomes: tried.outcomes, ticket }
    }

    /// See [`Registry::end_exclusive_queues`].
    pub(super) fn end_exclusive_queues_now(
        &self,
        owner: ConnectionId,
        from: QueueId,
        most: usize,
        now: Nanos,
    ) -> EndOfQueues {
        let staged = self.staged.lock().latest.topology.clone();
        let queues: Vec<_> = staged.exclusive_queues(owner, from).take(most).cloned().collect();
        let mut end = EndOfQueues::default();
        for queue in &queues {
            let ended = self.end_queue_now(queue, DeleteIf::default(), now);
            end.ticket = end.ticket.or_later(ended.ticket);
        }
        end.next = queues.last().map(|last| QueueId(last.id.0 + 1));
        end
    }

    /// Deletes a queue for the broker itself, if `condition` holds.
    pub(super) fn end_queue_now(&self, queue: &Queue, condition: DeleteIf, now: Nanos) -> EndOfQueues {
        match self.change_now(ChangeRequest::end_of_queue(queue, condition), now) {
            Ok(changed) => EndOfQueues { ticket: changed.ticket, next: None },
            // The queue is in use again, so it stays.
            Err(refused) if condition.any() && refused.kind == RefusedKind::PreconditionFailed => {
                EndOfQueues::default()
            }
            Err(refused) => {
                tracing::warn!(target: category::QUEUE, queue = %queue.name, %refused, "queue could not be deleted");
                EndOfQueues::default()
            }
        }
    }
}
