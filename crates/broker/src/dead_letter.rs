//! Moving dead letters: out of the queue in which they died, through its dead-letter exchange, into others.
//!
//! One group of the log for each turn: after a crash a message is in the queue it came from or in those it went to. Queues
//! that belong to another commit stream get it first; it leaves its queue when they have it, so that after a crash it may be
//! in both, and never nowhere.
//! Nothing is locked while messages are routed, and a queue that gets dead letters and passes them on does so in a
//! turn of its own, so that no loop of exchanges keeps a core busy.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::headers::Headers;
use leveret_message::{Batch, BatchBuilder, DeadLetter, MessageRef, Reason, deaths};
use leveret_model::DeadLetterOptions;
use leveret_queue::dead_letter::TURN_MESSAGES_MAX;
use leveret_queue::{DeadRun, DeadTurn, QueueState};
use leveret_routing::Routes;

use crate::broker::Broker;
use crate::deferred::{LetterRuns, Moving, Refused, Targets, Work};
use crate::group::Group;
use crate::headers::MessageHeaders;
use crate::queue_handle::QueueRef;
use crate::registry::Snapshot;
use crate::streams::Waiter;
use crate::ticket::{Awaited, Ticket};
use crate::time::Now;
use crate::wait_for::WaitFor;

impl Broker {
    /// Does a piece of the work that waits for a core. True when there is more to do at once.
    pub fn deferred_turn(self: &Arc<Self>, core: usize, now: Now) -> bool {
        if !self.deferred.has_work(core, now.monotonic) {
            return false;
        }
        if let Some(full) = self.streams.all().iter().find(|stream| !stream.has_room()) {
            // There is none because of records that aren't durable yet.
            self.deferred.block(core);
            let (all, broker) = (Ticket::new(full.id(), full.appended()), self.clone());
            full.notify(Awaited::durable(all), Waiter::Call(Box::new(move || broker.deferred.wake(core))));
            return false;
        }
        match self.deferred.next(core, TURN_MESSAGES_MAX, now.monotonic) {
            Some(Work::DeadLetters(queue)) => {
                self.move_dead_letters(&queue, now);
                self.reads.dead_letters_left();
            }
            Some(Work::Due(queue)) => self.run_timers(&queue, now),
            Some(Work::Refused(refused)) => self.move_refused(&refused, now),
            Some(Work::Moving(moving)) => {
                self.finish_move(moving, now);
                self.reads.dead_letters_left();
            }
            Some(Work::Ended(mut ended)) => {
                ended.tell();
                if !ended.is_empty() {
                    self.deferred.tell_more(core, ended);
                }
            }
            Some(Work::Deleted(queues)) => queues.iter().for_each(|queue| self.registry.finish_deletion(queue)),
            None => {}
        }
        self.streams.announce();
        self.deferred.has_work(core, now.monotonic)
    }

    /// Whether dead letters are on their way: a clean stop waits for them, since after it they would be back in their
    /// queues.
    pub fn has_dead_letters(&self) -> bool {
        let snapshot = self.registry.snapshot_full();
        self.deferred.has_refused()
            || snapshot.queues.values().any(|queue| queue.info().options.dead_letter.is_some() && queue.moving() > 0)
    }

    fn move_dead_letters(&self, queue: &QueueRef, now: Now) {
        let DeadTurn::Move(runs) = queue.dead_turn() else { return };
        let mut letters = Letters::new(self, queue, now);
        for DeadRun { batch, index, count, reason, .. } in &runs {
            for at in *index..*index + *count {
                letters.push(&batch.message(at as usize), *reason);
            }
        }
        if letters.has_stopped_target() {
            // It would refuse them, and they would be nowhere.
            return queue.dead_stay();
        }
        let (runs_here, dropped, wait) = letters.publish_elsewhere();
        let reasons = runs.iter().map(|run| (run.reason, run.count)).collect();
        let moving = Moving { queue: queue.clone(), runs: runs_here, dropped, reasons };
        if self.streams.have(&wait) {
            return self.finish_move(moving, now);
        }
        // Until then the queue has no other turn.
        let deferred = self.deferred.clone();
        self.streams.when_reached(wait, Box::new(move || deferred.go_on(moving)));
    }

    /// All targets of other streams have these dead letters.
    fn finish_move(&self, moving: Moving, now: Now) {
        let Moving { queue, runs, dropped, reasons } = moving;
        if queue.state() != QueueState::Running {
            // It has stopped meanwhile: what it has on disk dies again after a restart.
            return;
        }
        let mut group = Group::new(queue.stream());
        queue.moved(&mut group, dropped);
        self.close_move(group, &runs, now);
        for (reason, count) in reasons {
            self.queue_metrics.dead_lettered.add(reason, u64::from(count));
        }
    }

    /// Publishes dead letters to queues of the group's stream, and closes it.
    fn close_move(&self, mut group: Group, runs: &[(Targets, bool, Arc<Batch>)], now: Now) {
        for (targets, persistent, batch) in runs {
            for target in targets {
                target.publish_in(&mut group, batch, 0, batch.len() as u32, *persistent, now.monotonic);
            }
        }
        let (ticket, queues) = group.close(Wait::Confirm);
        for queue in queues.into_iter().filter(|_| !ticket.is_nothing()) {
            self.streams.notify(ticket.into(), Waiter::Queue(queue));
        }
    }

    fn move_refused(&self, refused: &Refused, now: Now) {
        let Refused { queue, batch, index, count } = refused;
        let mut letters = Letters::new(self, queue, now);
        for at in *index..*index + *count {
            letters.push(&batch.message(at as usize), Reason::MaxLen);
        }
        let (runs, ..) = letters.publish_elsewhere();
        self.close_move(Group::new(queue.stream()), &runs, now);
        self.queue_metrics.dead_lettered.add(Reason::MaxLen, u64::from(*count));
    }
}

/// Dead letters on their way, in runs with the same targets.
struct Letters<'a> {
    broker: &'a Broker,
    snapshot: Arc<Snapshot>,
    queue: &'a QueueRef,
    options: Option<&'a DeadLetterOptions>,
    now: Now,
    /// One dead letter at a time is written here: its targets depend on what it became.
    letter: BatchBuilder,
    builder: BatchBuilder,
    targets: Targets,
    persistent: bool,
    runs: LetterRuns,
    /// Had nowhere to go.
    dropped: u64,
}

impl<'a> Letters<'a> {
    fn new(broker: &'a Broker, queue: &'a QueueRef, now: Now) -> Self {
        Self {
            broker,
            snapshot: broker.registry.snapshot_full(),
            queue,
            options: queue.info().options.dead_letter.as_ref(),
            now,
            letter: BatchBuilder::default(),
            builder: BatchBuilder::default(),
            targets: Targets::new(),
            persistent: false,
            runs: Vec::new(),
            dropped: 0,
        }
    }

    fn push(&mut self, message: &MessageRef<'_>, reason: Reason) {
        let Some(options) = self.options else {
            self.dropped += 1;
            return;
        };
        let death = DeadLetter {
            queue: self.queue.info().name.as_bytes(),
            reason,
            now_ms: self.now.wall_ms,
            exchange: options.exchange.as_bytes(),
            routing_key: options.routing_key.as_deref().map(str::as_bytes),
        };
        self.letter.push_dead_letter(message, &death);
        let letter = self.letter.finish();
        let targets = self.route(&letter.message(0), &options.exchange);
        if targets.is_empty() {
            self.dropped += 1;
            return;
        }
        let persistent = letter.message(0).view().envelope.durable;
        let same = self.persistent == persistent
            && self.targets.len() == targets.len()
            && self.targets.iter().zip(&targets).all(|(a, b)| Arc::ptr_eq(a, b));
        if !same || self.builder.is_full() {
            self.end_run();
            self.targets = targets;
            self.persistent = persistent;
        }
        self.builder.push_copy(&letter.message(0));
    }

    /// The queues that a dead letter goes to: none that it would come round to for ever.
    fn route(&self, letter: &MessageRef<'_>, exchange: &str) -> Targets {
        let letter = letter.view();
        let headers = Headers::stored(&letter);
        let vhost = &self.queue.info().vhost;
        let mut routes = Routes::new();
        let keys: Vec<&[u8]> = letter.routing_keys().collect();
        // Without the exchange there is nowhere to go; it may be declared later.
        let _ = self.snapshot.router.route_by(vhost, exchange, &keys, &MessageHeaders(headers), &mut routes);
        let mut targets = Targets::new();
        // Routes have each queue once.
        for queue in routes.iter().filter_map(|id| self.snapshot.queues.get(id)) {
            if !deaths::is_cycle(&letter, queue.info().name.as_bytes()) {
                targets.push(queue.clone());
            }
        }
        targets
    }

    fn has_stopped_target(&self) -> bool {
        let mut targets = self.runs.iter().flat_map(|(targets, ..)| targets).chain(&self.targets);
        targets.any(|queue| matches!(queue.state(), QueueState::Failed(_)))
    }

    fn end_run(&mut self) {
        if !self.builder.is_empty() {
            let targets = std::mem::take(&mut self.targets);
            self.runs.push((targets, self.persistent, Arc::new(self.builder.finish())));
        }
    }

    /// Publishes those for queues of other streams than the one that they come from. Returns the others, how many had nowhere
    /// to go, and what to wait for until the queues of other streams have theirs.
    fn publish_elsewhere(mut self) -> (LetterRuns, u64, WaitFor) {
        self.end_run();
        let here = self.queue.stream().id();
        let mut wait = WaitFor::default();
        for (targets, persistent, batch) in &mut self.runs {
            targets.retain(|target| {
                if target.stream().id() == here {
                    return true;
                }
                let count = batch.len() as u32;
                let published = target.publish(batch, 0, count, *persistent, None, self.now.monotonic);
                let synced = published.awaited.synced();
                wait.and(synced);
                if !synced.is_nothing() {
                    self.broker.streams.notify(synced, Waiter::Queue(target.clone()));
                }
                false
            });
        }
        (self.runs, self.dropped, wait)
    }
}
