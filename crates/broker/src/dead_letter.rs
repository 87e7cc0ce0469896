//! Moves dead letters out of the queue in which they died, through its dead-letter exchange, into other queues.
//!
//! Each move is one group of the log: after a crash, a message is either in the queue it came from or in its target queues. A
//! move takes as many messages as have about as many targets as a turn has work for. A single message with more targets gets to
//! them in several turns, with the group open; the queue it came from is left last, so that no failure in between loses it.
//! Queues of another commit stream get it first, and it leaves its queue once they have it. After a crash it may be in both,
//! but never in none. Nothing is locked while messages are routed. A queue that gets dead letters and passes them on does so in
//! a turn of its own, so a loop of exchanges doesn't keep a core busy.
//!
//! Messages that leave a delayed exchange's queue are moved in the same way, through that exchange and without a death.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;
use leveret_log::Wait;
use leveret_message::headers::Headers;
use leveret_message::{Batch, BatchBuilder, BatchPart, DeadLetter, MessageRef, Reason, StoredMessage, deaths};
use leveret_model::{DeadLetterOptions, Queue, QueueId};
use leveret_queue::{DeadRun, DeadTurn, QueueState};
use leveret_routing::Routes;

use crate::broker::Broker;
use crate::deferred::{Deferred, LetterRun, Moving, Refused, Targets, Wide, Work, are_same};
use crate::group::Group;
use crate::headers::{MessageHeaders, ReleasedHeaders};
use crate::log_lines::category;
use crate::queue_handle::{Acceptance, Audience, LocalQueue, QueueRef};
use crate::registry::Snapshot;
use crate::streams::StreamRef;
use crate::ticket::Ticket;
use crate::time::Now;
use crate::turn_budget::{ENQUEUE, QUEUE_RUN, TurnBudget, targets_max};
use crate::wait_for::{WaitEnd, WaitFor};

/// Number of these messages for which a queue has room, as far as this node knows: one on another node says later what it took.
fn room_for(queue: &QueueRef, part: BatchPart<'_>) -> u32 {
    queue.home().map_or(part.count, |home| home.has_room_for(part))
}

impl Broker {
    /// Whether dead letters are in flight: a clean stop waits for them, because otherwise they would be back in their queues
    /// after it.
    pub fn has_dead_letters(&self) -> bool {
        let snapshot = self.registry.snapshot_full();
        self.deferred.has_letters() || snapshot.queues.values().filter_map(QueueRef::home).any(|home| home.moving() > 0)
    }

    /// Moves the next dead letters of a queue, as many as a turn has work for.
    pub(crate) fn move_dead_letters(&self, core: usize, queue: &LocalQueue, now: Now) {
        let DeadTurn::Move(mut runs) = queue.dead_turn() else { return };
        if queue.keeps_dead_letters() {
            return self.move_kept_letters(core, queue, runs, now);
        }
        let mut letters = Letters::new(self, queue, now);
        let is_whole = letters.push_runs(&mut runs);
        if letters.has_stopped_target() {
            // The queue would refuse them, and they would be lost.
            return queue.dead_stay();
        }
        if !is_whole {
            queue.dead_turn_is(&runs);
        }
        self.go_on_moving(core, letters.moving(true, reasons_of(&runs)), now);
    }

    /// Moves dead letters that their queue keeps until others take them: the first ones, as far as they go to the same queues and
    /// each of these has room.
    fn move_kept_letters(&self, core: usize, queue: &LocalQueue, mut runs: Vec<DeadRun>, now: Now) {
        let mut letters = Letters::new(self, queue, now);
        letters.push_alike(&mut runs);
        queue.dead_turn_is(&runs);
        if letters.dropped > 0 {
            return self.block(queue, Blocked::NoRoute, now);
        }
        if let Some(full) = letters.fit(&mut runs) {
            return self.block(queue, full, now);
        }
        if letters.wide.is_none() {
            // There may be room for fewer.
            letters.begin_again();
            letters.push_alike(&mut runs);
            queue.dead_turn_is(&runs);
        }
        self.go_on_moving(core, letters.moving(true, reasons_of(&runs)), now);
    }

    /// No queue takes the dead letters of a turn now.
    fn block(&self, queue: &LocalQueue, why: Blocked, now: Now) {
        if queue.dead_blocked(now.monotonic) {
            let info = queue.info();
            let effective = queue.effective();
            let exchange = effective.options(info).dead_letter.as_ref().map_or("", |options| &options.exchange);
            tracing::warn!(
                target: category::QUEUE, vhost = %info.vhost, queue = %info.name, exchange,
                "dead letters wait, because {why}; they are tried again at most every 30 s"
            );
        }
    }

    /// Moves messages that a queue refused, as many as a turn has work for.
    pub(crate) fn move_refused(&self, core: usize, refused: Refused, now: Now) {
        let Refused { queue, batch, index, count } = refused;
        let mut letters = Letters::new(self, &queue, now);
        let all = DeadRun { batch, index, count, first: 0, reason: Reason::MaxLen, durable: false, failures: 0 };
        let mut runs = vec![all];
        letters.push_runs(&mut runs);
        let DeadRun { batch, count: moved, .. } = runs.remove(0);
        if moved < count {
            let rest = Refused { queue: queue.clone(), batch, index: index + moved, count: count - moved };
            self.deferred.refuse_more(core, rest);
        }
        let moving = letters.moving(false, vec![(Reason::MaxLen, moved)]);
        self.go_on_moving(core, moving, now);
    }

    /// Continues a move, as far as the turn allows: finds the targets, publishes to those in other streams, and once these have
    /// theirs, to the others as one group.
    pub(crate) fn go_on_moving(&self, core: usize, mut moving: Box<Moving>, now: Now) {
        let mut budget = TurnBudget::new(self.settings.turn_work_max);
        if moving.group.is_none() && moving.is_of_queue && moving.queue.state() != QueueState::Running {
            // It has failed meanwhile: its messages on disk die again after a restart.
            return;
        }
        if let Some(found) = moving.find_targets(&mut budget) {
            match found {
                Found::Stopped if moving.queue.keeps_dead_letters() => {
                    self.block(&moving.queue, Blocked::Full, now);
                }
                Found::Stopped => moving.queue.dead_stay(),
                Found::Some => self.deferred.move_more(core, moving),
            }
            return;
        }
        if !moving.is_elsewhere {
            if let Some(full) = moving.full_elsewhere() {
                return self.deferred.set_aside(core, &*full, Work::Moving(moving));
            }
            moving.is_elsewhere = true;
            let wait = self.publish_elsewhere(&mut moving, now);
            match self.streams.end(&wait) {
                Some(end) => match moving.arrived_elsewhere(end, &self.deferred) {
                    Some(going_on) => moving = going_on,
                    None => return,
                },
                None => {
                    // Until then the queue has no other turn.
                    let deferred = self.deferred.clone();
                    let go_on = move |end| {
                        if let Some(moving) = moving.arrived_elsewhere(end, &deferred) {
                            deferred.go_on(moving);
                        }
                    };
                    return self.streams.when_over(wait, Box::new(go_on));
                }
            }
        }
        let mut group = moving.group.take().unwrap_or_else(|| Group::new(moving.queue.stream().id()));
        match self.reach_targets(&mut moving, &mut group, &mut budget, now) {
            true => self.end_move(moving, group, now),
            false => {
                moving.group = Some(group);
                self.deferred.move_more(core, moving);
            }
        }
    }

    /// Publishes dead letters to queues of other streams than that of their own queue. Returns the condition under which these
    /// have them.
    fn publish_elsewhere(&self, moving: &mut Moving, now: Now) -> WaitFor {
        let here = moving.queue.stream().id();
        let is_kept = moving.keeps_letters();
        let mut wait = WaitFor::default();
        for (targets, persistent, batch) in &mut moving.runs {
            targets.retain(|target| {
                if target.stream().id() == here {
                    return true;
                }
                let count = batch.len() as u32;
                let published =
                    target.publish(BatchPart::of(batch, 0, count), *persistent, Audience::Unpaced(None), now.monotonic);
                let synced = published.awaited.synced();
                if let Acceptance::Known(accepted) = published.acceptance {
                    moving.is_refused |= is_kept && (accepted < count || published.is_gone);
                }
                wait.and_publish(synced, &published.acceptance);
                if !synced.is_nothing() {
                    self.streams.notify(synced, target.waiter());
                }
                false
            });
        }
        wait
    }

    /// Publishes dead letters to the next targets in the group's stream. True if none is left.
    fn reach_targets(&self, moving: &mut Moving, group: &mut Group, budget: &mut TurnBudget, now: Now) -> bool {
        while let Some((targets, persistent, batch)) = moving.runs.front() {
            let count = batch.len() as u32;
            while let Some(target) = targets.get(moving.reached) {
                if budget.is_spent() {
                    return false;
                }
                let ticket = match moving.keeps_letters() {
                    true => {
                        // One that is being deleted doesn't take it, because the deletion may not come about.
                        let part = BatchPart::whole(batch);
                        let offered =
                            target.home().and_then(|home| home.offer_in(group, part, *persistent, now.monotonic));
                        moving.is_refused |= offered.is_none_or(|offered| offered.accepted < count);
                        offered.map_or_else(Ticket::default, |offered| offered.ticket)
                    }
                    false => {
                        let part = BatchPart::of(batch, 0, count);
                        let published =
                            target.home().map(|home| home.publish_in(group, part, *persistent, now.monotonic));
                        let accepted = published.as_ref().map_or(0, |published| published.accepted);
                        moving.is_refused |= accepted < count && target.has_failed();
                        published.map_or_else(Ticket::default, |published| published.ticket)
                    }
                };
                if !ticket.is_nothing() {
                    self.streams.notify(ticket.into(), target.waiter());
                }
                moving.reached += 1;
                budget.spend(QUEUE_RUN + count * ENQUEUE);
            }
            moving.runs.pop_front();
            moving.reached = 0;
        }
        true
    }

    /// All targets have the dead letters: these leave their queue with the end of the group.
    fn end_move(&self, moving: Box<Moving>, mut group: Group, now: Now) {
        let Moving { queue, is_of_queue, is_refused, dropped, reasons, .. } = *moving;
        let mut has_moved = true;
        if is_of_queue && queue.state() != QueueState::Running {
            // It failed or was deleted meanwhile: messages on disk may die again after a restart.
            has_moved = false;
        } else if is_of_queue && is_refused {
            // The failed target lacks them. Other targets may get them twice, but none is lost.
            match queue.keeps_dead_letters() {
                true => self.block(&queue, Blocked::Full, now),
                false => queue.dead_stay(),
            }
            has_moved = false;
        } else if is_of_queue {
            queue.moved(&mut group, dropped);
        }
        group.close(Wait::Confirm);
        let kept = is_of_queue && queue.keeps_dead_letters();
        has_moved &= !queue.info().options.releases;
        let moved = if kept { &self.queue_metrics.kept_dead_letters } else { &self.queue_metrics.dead_lettered };
        for (reason, count) in reasons.into_iter().filter(|_| has_moved) {
            moved.add(queue.info().queue_type, reason, u64::from(count));
        }
    }
}

/// Dead letters in flight, in runs with the same targets.
struct Letters<'a> {
    broker: &'a Broker,
    snapshot: Arc<Snapshot>,
    queue: &'a LocalQueue,
    options: Option<DeadLetterOptions>,
    now: Now,
    /// Scratch space for one dead letter at a time: its targets depend on its new headers.
    letter: BatchBuilder,
    builder: BatchBuilder,
    targets: Targets,
    persistent: bool,
    runs: VecDeque<LetterRun>,
    /// Number of targets of all dead letters so far.
    target_count: usize,
    /// The first dead letter, if it has more targets than a turn has work for.
    wide: Option<Wide>,
    /// Number of dead letters that were routed nowhere.
    dropped: u64,
}

impl<'a> Letters<'a> {
    fn new(broker: &'a Broker, queue: &'a LocalQueue, now: Now) -> Self {
        Self {
            broker,
            snapshot: broker.registry.snapshot_full(),
            queue,
            options: queue.effective().options(queue.info()).dead_letter.clone(),
            now,
            letter: BatchBuilder::default(),
            builder: BatchBuilder::default(),
            targets: Targets::new(),
            persistent: false,
            runs: VecDeque::new(),
            target_count: 0,
            wide: None,
            dropped: 0,
        }
    }

    /// Adds the messages of these runs until they have as many targets as a turn has work for, and cuts the runs to that. True
    /// if all were added.
    fn push_runs(&mut self, runs: &mut Vec<DeadRun>) -> bool {
        let targets_max = targets_max(self.broker.settings.turn_work_max);
        for at in 0..runs.len() {
            for taken in 0..runs[at].count {
                let DeadRun { batch, index, reason, failures, .. } = &runs[at];
                let message = batch.message((index + taken) as usize);
                let death = (*reason, *failures);
                if self.target_count >= targets_max || !self.push(&message, death, targets_max) {
                    runs[at].count = taken;
                    runs.truncate(at + usize::from(taken > 0));
                    return false;
                }
            }
        }
        true
    }

    /// Adds a message. False if it has more targets than a turn has work for, and isn't the first one.
    fn push(&mut self, message: &MessageRef<'_>, death: (Reason, u32), targets_max: usize) -> bool {
        let Some((letter, routes)) = self.make(message, death) else {
            self.dropped += 1;
            return true;
        };
        if routes.len() > targets_max {
            let is_first = self.target_count + self.dropped as usize == 0;
            if is_first {
                self.push_wide(letter, routes);
            }
            return is_first;
        }
        let targets = self.targets_of(&letter, &routes);
        self.target_count += targets.len();
        if targets.is_empty() {
            self.dropped += 1;
            return true;
        }
        let persistent = is_persistent(&letter);
        if self.persistent != persistent || !are_same(&self.targets, &targets) || self.builder.is_full() {
            self.end_run();
            self.targets = targets;
            self.persistent = persistent;
        }
        self.builder.push_copy(&letter.message(0));
        true
    }

    /// Forgets the messages, but not the snapshot: what was found in it holds.
    fn begin_again(&mut self) {
        self.runs.clear();
        self.targets.clear();
        (self.target_count, self.dropped) = (0, 0);
    }

    /// Adds the first messages of these runs that go to the same queues, or nowhere, and cuts the runs to them.
    fn push_alike(&mut self, runs: &mut Vec<DeadRun>) {
        for at in 0..runs.len() {
            for taken in 0..runs[at].count {
                let DeadRun { batch, index, reason, failures, .. } = &runs[at];
                let message = batch.message((index + taken) as usize);
                if !self.push_if_alike(&message, (*reason, *failures)) {
                    runs[at].count = taken;
                    runs.truncate(at + usize::from(taken > 0));
                    return self.end_run();
                }
            }
        }
        self.end_run();
    }

    /// Adds a message if it is the first one, or goes to the same queues as the ones before it.
    fn push_if_alike(&mut self, message: &MessageRef<'_>, death: (Reason, u32)) -> bool {
        let is_first = self.builder.is_empty() && self.dropped == 0 && self.wide.is_none();
        if self.wide.is_some() || self.builder.is_full() {
            return false;
        }
        let Some((letter, routes)) = self.make(message, death) else { return false };
        let targets_max = targets_max(self.broker.settings.turn_work_max);
        if routes.len() > targets_max {
            if is_first {
                self.push_wide(letter, routes);
            }
            return is_first;
        }
        let (targets, persistent) = (self.targets_of(&letter, &routes), is_persistent(&letter));
        if is_first {
            (self.target_count, self.persistent) = (targets.len(), persistent);
            self.targets = targets;
        } else if self.persistent != persistent || !are_same(&self.targets, &targets) {
            return false;
        }
        match self.targets.is_empty() {
            true => self.dropped += 1,
            false => self.builder.push_copy(&letter.message(0)),
        }
        true
    }

    /// Cuts the runs of messages that go to the same queues to those for which each of these has room. Returns why there are none.
    fn fit(&self, runs: &mut Vec<DeadRun>) -> Option<Blocked> {
        let (targets, _, batch) = self.runs.front().filter(|_| self.wide.is_none())?;
        let count = batch.len() as u32;
        let part = BatchPart::of(batch, 0, count);
        let room = targets.iter().map(|target| room_for(target, part)).min().unwrap_or(0);
        if room == 0 {
            return Some(Blocked::Full);
        }
        let mut left = room;
        runs.retain_mut(|run| {
            run.count = run.count.min(left);
            left -= run.count;
            run.count > 0
        });
        None
    }

    /// The dead letter of a message that died for this reason, after so many failed deliveries, and the queues that it is routed to.
    /// `None` without an exchange.
    fn make(&mut self, message: &MessageRef<'_>, (reason, failures): (Reason, u32)) -> Option<(Batch, Routes)> {
        let options = self.options.as_ref()?;
        if self.queue.info().options.releases {
            self.letter.push_released(message, self.now.wall_ms);
            let letter = self.letter.finish();
            let routes = self.route(&letter.message(0), &options.exchange);
            return Some((letter, routes));
        }
        let death = DeadLetter {
            queue: self.queue.info().name.as_bytes(),
            reason,
            now_ms: self.now.wall_ms,
            exchange: options.exchange.as_bytes(),
            routing_key: options.routing_key.as_deref().map(str::as_bytes),
            failures,
        };
        self.letter.push_dead_letter(message, &death);
        let letter = self.letter.finish();
        let routes = self.route(&letter.message(0), &options.exchange);
        Some((letter, routes))
    }

    /// The queues among these that a dead letter goes to, each once.
    fn targets_of(&self, letter: &Batch, routes: &Routes) -> Targets {
        let view = letter.message(0);
        let view = view.view();
        routes.iter().filter_map(|id| target(&self.snapshot.queues, *id, self.queue, &view)).collect()
    }

    /// Adds the first dead letter, which has more targets than a turn has work for.
    fn push_wide(&mut self, letter: Batch, routes: Routes) {
        self.target_count = routes.len();
        self.runs.push_back((Targets::new(), is_persistent(&letter), Arc::new(letter)));
        self.wide = Some(Wide { queues: self.snapshot.queues.clone(), routes, next: 0 });
    }

    /// The queues that a dead letter is routed to.
    fn route(&self, letter: &MessageRef<'_>, exchange: &str) -> Routes {
        let letter = letter.view();
        let headers = MessageHeaders(Headers::stored(&letter));
        let Queue { id, vhost, options, .. } = &**self.queue.info();
        let mut routes = Routes::new();
        let keys: Vec<&[u8]> = letter.routing_keys().collect();
        // Without the exchange it is routed nowhere; the exchange may be declared later.
        let _ = match options.releases {
            true => {
                let headers = ReleasedHeaders { headers, queue: *id };
                self.snapshot.router.route_by(vhost, exchange, &keys, &headers, &mut routes)
            }
            false => self.snapshot.router.route_by(vhost, exchange, &keys, &headers, &mut routes),
        };
        routes
    }

    fn has_stopped_target(&self) -> bool {
        let mut targets = self.runs.iter().flat_map(|(targets, ..)| targets).chain(&self.targets);
        targets.any(QueueRef::has_failed)
    }

    fn end_run(&mut self) {
        if !self.builder.is_empty() {
            let targets = std::mem::take(&mut self.targets);
            self.runs.push_back((targets, self.persistent, Arc::new(self.builder.finish())));
        }
    }

    /// Ends the collection; `is_of_queue` unless the queue refused the messages.
    fn moving(mut self, is_of_queue: bool, reasons: Vec<(Reason, u32)>) -> Box<Moving> {
        self.end_run();
        Box::new(Moving {
            queue: self.queue.clone(),
            runs: self.runs,
            wide: self.wide,
            is_elsewhere: false,
            reached: 0,
            group: None,
            is_of_queue,
            is_refused: false,
            dropped: self.dropped,
            reasons,
        })
    }
}

/// The reason why dead letters stay in their queue.
#[derive(Debug, Clone, Copy)]
enum Blocked {
    NoRoute,
    Full,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoute => "their exchange isn't there, or routes them to no queue",
            Self::Full => "a queue that they go to is full or has stopped",
        })
    }
}

fn reasons_of(runs: &[DeadRun]) -> Vec<(Reason, u32)> {
    runs.iter().map(|run| (run.reason, run.count)).collect()
}

fn is_persistent(letter: &Batch) -> bool {
    letter.message(0).view().envelope.durable
}

/// The result of a search for targets that isn't over.
enum Found {
    /// A target has stopped, or has no room for a dead letter that is kept: it would refuse it.
    Stopped,
    /// Some of them, as many as the turn allows.
    Some,
}

impl Moving {
    /// The stream without room of a target that isn't in the queue's own.
    fn full_elsewhere(&self) -> Option<StreamRef> {
        let here = self.queue.stream().id();
        let targets = self.runs.iter().flat_map(|(targets, ..)| targets).map(QueueRef::stream);
        targets.filter(|stream| stream.id() != here).find(|stream| !stream.has_room()).map(|stream| stream.shared())
    }

    /// The targets in other streams have answered. `None` if it doesn't go on: a stream left that had targets of its dead letters.
    /// These are routed anew, since those queues are gone. Messages that a queue refused have been offered once.
    fn arrived_elsewhere(mut self: Box<Self>, end: WaitEnd, deferred: &Deferred) -> Option<Box<Self>> {
        match end {
            WaitEnd::Reached => {}
            WaitEnd::Refused(_) | WaitEnd::Unrouted => self.is_refused |= self.keeps_letters(),
            WaitEnd::Gone => {
                if self.is_of_queue {
                    self.queue.dead_stay();
                    deferred.request(&self.queue);
                }
                return None;
            }
        }
        Some(self)
    }

    /// Whether their queue keeps the dead letters until others take them.
    fn keeps_letters(&self) -> bool {
        self.is_of_queue && self.queue.keeps_dead_letters()
    }

    /// Finds the queues that a dead letter goes to which has very many. `None` if all are found.
    fn find_targets(&mut self, budget: &mut TurnBudget) -> Option<Found> {
        let keeps = self.keeps_letters();
        let (Wide { queues, routes, next }, (targets, _, batch)) = (self.wide.as_mut()?, self.runs.front_mut()?);
        let message = batch.message(0);
        let letter = message.view();
        while let Some(id) = routes.get(*next) {
            if budget.is_spent() {
                return Some(Found::Some);
            }
            if let Some(queue) = target(queues, *id, &self.queue, &letter) {
                let part = BatchPart::of(batch, 0, 1);
                if self.is_of_queue && queue.has_failed() || keeps && room_for(&queue, part) == 0 {
                    return Some(Found::Stopped);
                }
                targets.push(queue);
            }
            *next += 1;
            budget.spend(QUEUE_RUN);
        }
        if targets.is_empty() && keeps {
            return Some(Found::Stopped);
        }
        if targets.is_empty() {
            self.runs.clear();
            self.dropped += 1;
        }
        self.wide = None;
        None
    }
}

/// The queue of a route, unless a dead letter would cycle there forever. A message that leaves a delayed exchange isn't a dead letter.
fn target(
    queues: &OrdMap<QueueId, QueueRef>,
    id: QueueId,
    from: &LocalQueue,
    letter: &StoredMessage<'_>,
) -> Option<QueueRef> {
    let queue = queues.get(&id)?;
    let is_cycle = !from.info().options.releases && deaths::is_cycle(letter, queue.info().name.as_bytes());
    (!is_cycle).then(|| queue.clone())
}
