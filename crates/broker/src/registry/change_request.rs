//! Changes as they are asked for, and their outcomes.
//!
//! The model that decides is none of the asker's: today it is this node's, in a cluster that of the node that leads the metadata. So a
//! change is asked for as one value, with its conditions and its asker, and its outcome comes now or later.

use std::sync::Arc;

use leveret_model::{
    Command, CommandOutcome, ConnectionId, ConvertQueue, DeleteQueue, Permit, Queue, QueueId, Refused, RefusedKind,
    Topology,
};
use leveret_queue::{DeleteIf, NotDeleted};

use super::{Registry, placed};
use crate::asked::{NowOrLater, later_or};
use crate::history_copy::HistoryEnd;
use crate::queue_handle::QueueRef;
use crate::streams::Waiter;
use crate::ticket::Ticket;
use crate::time::Nanos;
use crate::wait_for::WaitFor;

/// A change of the control plane: a command, what has to hold for it to be carried out, and who asks.
#[derive(Clone, Debug)]
pub struct ChangeRequest {
    /// The proof that it is allowed, with the name of the asker.
    pub permit: Permit,
    /// The change.
    pub command: Command,
    /// The condition of a queue that is deleted; checking it and closing the queue is one step.
    pub delete_if: DeleteIf,
}

impl ChangeRequest {
    /// A change without conditions.
    pub fn new(permit: Permit, command: Command) -> Self {
        Self { permit, command, delete_if: DeleteIf::default() }
    }

    /// The deletion of a queue for which `condition` holds.
    pub fn delete_queue(permit: Permit, command: DeleteQueue, condition: DeleteIf) -> Self {
        Self { permit, command: Command::DeleteQueue(command), delete_if: condition }
    }

    /// The broker's own deletion of this queue, and of no other one by its name, if `condition` holds.
    pub(crate) fn end_of_queue(queue: &Queue, condition: DeleteIf) -> Self {
        let command = DeleteQueue {
            vhost: queue.vhost.clone(),
            name: queue.name.clone(),
            connection: queue.exclusive_owner,
            id: Some(queue.id),
        };
        Self::delete_queue(Permit::system(), command, condition)
    }
}

/// Several changes as one: all of them or, if one is refused, none, even after a crash.
#[derive(Clone, Debug)]
pub struct ChangeRequests {
    /// The proof that all are allowed, with the name of the asker.
    pub permit: Permit,
    /// The changes, in order.
    pub commands: Arc<[Command]>,
    /// Whether no queue or exchange may have a name that is declared: one that has the same properties is refused, too, with
    /// [`RefusedKind::AlreadyExists`].
    pub is_new: bool,
}

/// A change that was made, or had nothing to do.
pub struct Changed {
    /// The outcome, as returned by the model.
    pub outcome: CommandOutcome,
    /// The answer waits until this is durable.
    pub ticket: Ticket,
    /// The queue that was declared, whether or not it is new.
    pub declared: Option<QueueRef>,
    /// Queues that this change deletes.
    pub deleted: Vec<QueueRef>,
    /// The difference between a declaration and the queue that exists, to be logged.
    pub mismatch: Option<Refused>,
    /// The end of the copy of an exchange's last messages to a new binding's destination.
    pub history: Option<Arc<HistoryEnd>>,
}

impl Changed {
    pub(super) fn new(outcome: CommandOutcome, ticket: Ticket) -> Self {
        Self { outcome, ticket, declared: None, deleted: Vec::new(), mismatch: None, history: None }
    }

    /// The condition that an answer waits for which follows everything that the change does. `waiter` is notified of what the
    /// ticket doesn't tell.
    pub fn wait(&self, waiter: impl FnOnce() -> Waiter) -> WaitFor {
        let durable = WaitFor::from(self.ticket);
        match &self.history {
            None => durable,
            Some(history) => WaitFor::all([durable, history.wait(waiter())]),
        }
    }
}

/// Changes that were made as one.
pub struct ChangedAll {
    /// The outcomes, in the order of the commands.
    pub outcomes: Vec<CommandOutcome>,
    /// The answer waits until this is durable.
    pub ticket: Ticket,
}

/// A change that was made, or the refusal in RabbitMQ's words: nothing has changed then.
pub type ChangeOutcome = Result<Changed, Refused>;

/// Changes that were made as one, or the index of the first that was refused, and why.
pub type ChangesOutcome = Result<ChangedAll, (usize, Refused)>;

/// A conversion that was made, or its refusal. `None`: messages are being moved to other queues, and it has to be tried again soon.
pub type ConversionOutcome = Result<Option<Changed>, Refused>;

pub(super) fn not_answered() -> Refused {
    Refused::new(RefusedKind::Undecided, "the node stops: whether the change was made is seen when it runs again")
}

/// The refusal of a deletion whose condition doesn't hold.
pub(super) fn not_deleted(reason: NotDeleted, vhost: &str, name: &str) -> Refused {
    let why = match reason {
        NotDeleted::NotEmpty => "not empty",
        NotDeleted::InUse | NotDeleted::Used => "in use",
    };
    Refused::precondition(format!("queue '{name}' in vhost '{vhost}' {why}"))
}

/// The refusal of a declaration that has to be new, if it isn't.
pub(super) fn check_is_new(topology: &Topology, command: &Command) -> Result<(), Refused> {
    let (kind, name) = match command {
        Command::DeclareQueue(declare) if topology.queue(&declare.vhost, &declare.name).is_some() => {
            ("a queue", &declare.name)
        }
        Command::DeclareExchange(declare) if topology.exchange(&declare.vhost, &declare.name).is_some() => {
            ("an exchange", &declare.name)
        }
        _ => return Ok(()),
    };
    Err(Refused::new(RefusedKind::AlreadyExists, format!("there is already {kind} named {name}")))
}

impl Registry {
    /// Asks for a change.
    pub fn change(self: &Arc<Self>, request: ChangeRequest, now: Nanos) -> NowOrLater<ChangeOutcome> {
        if let Some(asked) = self.change_placed(&request, false, now) {
            return asked;
        }
        self.ask(move |registry| registry.change_now(request, now), || Err(not_answered()))
    }

    /// Asks for several changes as one. Thousands of commands are executed on a copy, while other changes continue.
    pub fn change_all(self: &Arc<Self>, requests: ChangeRequests, now: Nanos) -> NowOrLater<ChangesOutcome> {
        if let Some(asked) = self.change_all_placed(&requests) {
            return asked;
        }
        self.ask(move |registry| registry.change_all_now(&requests, now), || Err((0, not_answered())))
    }

    /// Asks for a queue of another type or with other arguments: checking its messages and converting it is one step. Consumers are
    /// notified when the change is published. With `dry_run`, nothing changes.
    pub fn convert_queue(
        self: &Arc<Self>,
        permit: Permit,
        command: ConvertQueue,
        dry_run: bool,
        now: Nanos,
    ) -> NowOrLater<ConversionOutcome> {
        if self.is_placed() {
            return NowOrLater::Now(Err(placed::no_conversions()));
        }
        self.ask(move |registry| registry.convert_queue_now(&permit, command, dry_run, now), || Err(not_answered()))
    }

    /// Asks which commands would be refused if the others were executed in order, and why. Changes nothing.
    pub fn refusals(self: &Arc<Self>, permit: Permit, commands: Arc<[Command]>) -> NowOrLater<Vec<(usize, Refused)>> {
        if let Some(asked) = self.refusals_placed(&permit, &commands) {
            return asked;
        }
        self.ask(move |registry| registry.refusals_now(&permit, &commands), Vec::new)
    }

    /// Asks for the end of exclusive queues of a connection, at most `most` of those with ids from `from` on.
    pub(crate) fn end_exclusive_queues(
        self: &Arc<Self>,
        owner: ConnectionId,
        from: QueueId,
        most: usize,
        now: Nanos,
    ) -> NowOrLater<EndOfQueues> {
        if let Some(asked) = self.end_exclusive_queues_placed(owner, from, most) {
            return asked;
        }
        self.ask(move |registry| registry.end_exclusive_queues_now(owner, from, most, now), EndOfQueues::default)
    }

    /// Asks for the end of a queue that the broker deletes itself, if `condition` holds.
    pub(crate) fn end_queue(
        self: &Arc<Self>,
        queue: &Queue,
        condition: DeleteIf,
        now: Nanos,
    ) -> NowOrLater<EndOfQueues> {
        if let Some(asked) = self.change_placed(&ChangeRequest::end_of_queue(queue, condition), true, now) {
            // The queue is in use again if it is refused, so it stays.
            return asked.map(|_| EndOfQueues::default());
        }
        let queue = queue.clone();
        self.ask(move |registry| registry.end_queue_now(&queue, condition, now), EndOfQueues::default)
    }

    /// Carries out a change: at once, or in a later turn of the first core if answers come late.
    fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Self) -> T + Send + 'static,
        gone: fn() -> T,
    ) -> NowOrLater<T> {
        if self.services.late.is_empty() {
            let outcome = change(self);
            self.publish_when_durable();
            return NowOrLater::Now(outcome);
        }
        let (place, answer) = later_or(gone);
        let registry = Arc::downgrade(self);
        let carry_out = move |_| {
            if let Some(registry) = registry.upgrade() {
                let outcome = change(&registry);
                registry.publish_when_durable();
                place.answer(outcome);
            }
        };
        self.services.deferred.ask(None, Box::new(carry_out));
        NowOrLater::Later(answer)
    }

    /// Has everything published that was changed so far, once it is durable: whoever asked may be gone by then. Changes that come
    /// before that are published together, since each publication makes the next change copy its path through the maps again.
    pub(crate) fn publish_when_durable(self: &Arc<Self>) {
        let Some(ticket) = self.staged.lock().begin_to_await() else { return };
        let registry = Arc::downgrade(self);
        let publish = move |_| {
            if let Some(registry) = registry.upgrade() {
                registry.staged.lock().is_awaited = false;
                registry.publish();
                registry.publish_when_durable();
            }
        };
        self.services.streams.when_over(ticket, Box::new(publish));
    }
}

/// The end of queues that the broker deletes.
#[derive(Default)]
pub(crate) struct EndOfQueues {
    /// They are gone once this is durable.
    pub ticket: Ticket,
    /// The id from which on there may be more; `None` if these were the last.
    pub next: Option<QueueId>,
}
