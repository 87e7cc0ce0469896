//! A queue and its surroundings: message names, a store for durable messages, positions, and consumers that hold deliveries.
//!
//! | command | step |
//! |---|---|
//! | `queue [x-...=VALUE]... [transient] [memory=BYTES] [strict] [activity]` | declares the queue; first. Receivers' activity is shown on request, because only quorum queues and streams tell it |
//! | `publish NAME... [subject=TEXT [only=NAME]]` | on a stream: one chunk, whose messages, or one of them, have a subject |
//! | `publish NAME... [volatile] [ttl=MS] [size=BYTES] [priority=N] [until=MS] [color=TEXT] [only=NAME] [in-file=NAME] [failed=N] [group=NAME]` | submits messages, durable ones at the next position; `until`: a time of delivery, `color`: a header, with `only=NAME` of this one; `in-file`: the body of this one is in a file, with its fields, as it was published over AMQP 1.0; `failed`: dead letters whose delivery failed so often |
//! | `apply POSITION` | everything up to there is durable |
//! | `write POSITION` | everything up to there is written, and durable up to the last `apply` |
//! | `withdraw` | the commit stream goes on without what wasn't applied |
//! | `close-group NAME` | its commit record gets the next position |
//! | `consume ID [prefetch=N] [priority=N] [exclusive] [auto] [credit] [copy] [filter=EXPRESSION]` | adds a consumer |
//! | `consume ID [offset=first/last/next/N/-N] [at=MS] [filter=EXPRESSION] [tracking=NAME]` | adds a reader to a stream; `-N`: before the next message |
//! | `consume ID group=NAME [partition=N]` | adds a reader to a group of a stream, of which one at a time is active |
//! | `activated ID [offset=...]`, `stepped-down ID` | a member of a group answers that it is active, and reads from there on, or that it isn't any more |
//! | `activate-group NAME`, `groups` | an operator doesn't wait for the one that steps down; the groups as operators see them |
//! | `take ID [N] [bytes=N]` | its turn |
//! | `get [auto]` | `basic.get` |
//! | `ack ID/NAME...` | the same on a stream, and also the others of the next line: several readers may have a message |
//! | `ack NAME...`, `reject NAME...`, `requeue NAME... [failed]` | settles deliveries; with `until=MS`, `token=NAME` and `note=TEXT` after adding annotations: a time of the next delivery, a deferral token, a text |
//! | `claim ID TOKEN...` | a consumer claims deferred messages |
//! | `cancel ID`, `leave ID [failed]` | ends a consumer; `leave` gives back what it holds |
//! | `room ID yes/no`, `window ID yes/no`, `credit ID N [drain] [seen=N]` | what a consumer can take |
//! | `purge`, `peek`, `parked`, `delayed`, `status` | |
//! | `drop-parked NAME...`, `drop-delayed NAME...` | deletes messages at their delivery limit, or that wait for a time |
//! | `claim-parked N`, `parked-moved NAME...` | at most N messages at their delivery limit are moved on; these were |
//! | `claim-ready N`, `ready-moved NAME...`, `unclaim NAME...` | at most N ready messages are moved on; these were; these couldn't be |
//! | `load [N] [nothing] [only]` | the reads that were asked for are done, with N messages each; for a stream, with N chunks; `only`: with the messages that they are for |
//! | `checkpoint` | of a stream: a later restart begins with it, and replays chunks and departures behind it |
//! | `move [nowhere] [failures]`, `stay` | a turn of dead letters; with how often their delivery failed |
//! | `time MS` | time passes, and the timers run if they are due |
//! | `hold REASON`, `release REASON` | publishers |
//! | `close [empty] [unused] [expired]`, `delete`, `fail REASON` | the end |
//! | `restart [clean]` | the queue is rebuilt from a checkpoint, after a crash or a clean stop |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use leveret_message::Batch;
use leveret_model::{QueueOptions, QueueType};
use leveret_queue::{
    Annotated, ConsumerId, DelayRun, Effects, Epoch, GroupPlace, LedgerQueue, Link, MemoryBudget, Queue, QueueState,
    Run, Signal, StoredRead, StreamQueue, Surroundings,
};

use super::stream::StreamLog;
use super::words::Words;

pub(super) const EPOCH_MS: u64 = 1_700_000_000_000;
pub(super) const MS: u64 = 1_000_000;

/// The link of all consumers and gets: records their signals.
#[derive(Default)]
pub(super) struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

/// A delivery that waits to be settled.
pub(super) struct Delivery {
    pub(super) consumer: Option<ConsumerId>,
    pub(super) run: Run,
}

/// A requested read, and its first number.
pub(super) type Wanted = (StoredRead, u64, Vec<(u64, u64)>);

pub(crate) struct Bench {
    pub(super) queue_type: QueueType,
    pub(super) queue: Option<Queue>,
    pub(super) options: QueueOptions,
    pub(super) durable: bool,
    pub(super) surroundings: Surroundings,
    pub(super) link: Arc<Recorder>,
    pub(super) now_ms: u64,
    pub(super) deadline_ms: Option<u64>,
    pub(super) position: u64,
    pub(super) durable_position: u64,
    pub(super) groups: BTreeMap<String, Arc<GroupPlace>>,
    pub(super) names: BTreeMap<u64, String>,
    /// Durable messages, each alone in a batch; those of a stream in chunks.
    pub(super) store: BTreeMap<u64, Arc<Batch>>,
    pub(super) held: BTreeMap<String, Delivery>,
    /// Consumers by number, with the deliveries that their receivers counted.
    pub(super) consumers: BTreeMap<u64, (String, u32)>,
    pub(super) wanted: Vec<Wanted>,
    pub(super) shows_activity: bool,
    pub(super) stream_log: StreamLog,
}

/// Each live message is in one place, and counts there with the size with which it left the last one.
fn assert_bytes_add_up(queue: &Queue) {
    let status = queue.status();
    if status.state == QueueState::Running && status.stream.is_none() {
        let aside = status.quorum.as_ref().map_or(0, |quorum| quorum.parked_bytes + quorum.delayed_bytes);
        let all = status.ready_bytes + status.unacknowledged_bytes + aside;
        assert_eq!(status.bytes, all, "all bytes, and the sum of those in each place: {status:?}");
    }
}

impl Bench {
    pub(crate) fn new(queue_type: QueueType) -> Self {
        let budget = Arc::new(MemoryBudget::new(1 << 30));
        Self {
            queue_type,
            queue: None,
            options: QueueOptions::default(),
            durable: true,
            surroundings: Surroundings {
                budget,
                epoch: Epoch::new(EPOCH_MS),
                strict_compat: false,
                standing_delay_target: 0,
            },
            link: Arc::default(),
            now_ms: 0,
            deadline_ms: None,
            position: 0,
            durable_position: 0,
            groups: BTreeMap::new(),
            names: BTreeMap::new(),
            store: BTreeMap::new(),
            held: BTreeMap::new(),
            consumers: BTreeMap::new(),
            wanted: Vec::new(),
            shows_activity: false,
            stream_log: StreamLog::default(),
        }
    }

    /// Carries out a step; returns the answer and its effects.
    ///
    /// # Errors
    /// The step can't be parsed, or can't be carried out here.
    pub(crate) fn step(&mut self, step: &str) -> Result<Vec<String>, String> {
        let (command, words) = Words::split(step);
        if self.queue.is_none() && command != "queue" {
            return Err("the first step is `queue`".to_owned());
        }
        let mut answers = self.carry_out(command, words)?;
        answers.retain(|answer| !answer.is_empty());
        self.check()?;
        Ok(answers)
    }

    fn carry_out(&mut self, command: &str, mut words: Words<'_>) -> Result<Vec<String>, String> {
        match command {
            "queue" => self.declare(words),
            "configure" => self.configure(words),
            "publish" => self.publish(words),
            "apply" => self.apply(words, true),
            "write" => self.apply(words, false),
            "close-group" => self.close_group(words),
            "consume" => self.consume(words),
            "take" => self.take(words),
            "get" => self.get(words),
            "ack" | "reject" | "requeue" => self.settle(command, words),
            "claim" => self.claim(words),
            "cancel" => self.cancel(words),
            "leave" => self.leave(words),
            "room" | "window" | "overdue" => self.able(command, words),
            "credit" => self.credit(words),
            "load" => self.load(words),
            "move" => self.move_dead(words),
            "time" => self.time(words),
            "close" => self.close(words),
            "fail" => {
                let reason = words.names()?.join(" ");
                self.with(|queue, effects| queue.fail(reason, effects)).map(|((), answers)| answers)
            }
            "hold" | "release" => self.publishers(command, words.next("a reason")?),
            "checkpoint" => self.checkpoint(words),
            "activated" | "stepped-down" => self.answer_activity(command, words),
            "activate-group" => self.activate_group(words),
            "restart" => {
                let clean = words.flag("clean");
                words.end()?;
                self.restart(clean)
            }
            "drop-parked" | "drop-delayed" => self.drop_set_aside(command, words),
            "claim-parked" => self.claim_parked(words),
            "parked-moved" => self.parked_moved(words),
            "claim-ready" => self.claim_ready(words),
            "ready-moved" | "unclaim" => self.end_claim(command == "ready-moved", words),
            "purge" | "peek" | "parked" | "delayed" | "status" | "delete" | "stay" | "block" | "withdraw"
            | "groups" => {
                words.end()?;
                self.plain(command)
            }
            unknown => Err(format!("there is no command `{unknown}`")),
        }
    }

    pub(super) fn queue(&mut self) -> &mut Queue {
        self.queue.as_mut().expect("steps begin with one")
    }

    pub(super) fn ledger(&mut self) -> &mut LedgerQueue {
        ledger(self.queue())
    }

    pub(super) fn stream(&mut self) -> &mut StreamQueue {
        stream(self.queue())
    }

    pub(super) fn now(&self) -> u64 {
        self.now_ms * MS
    }

    /// Calls the queue. Returns its answer, and the effects of the call in the order in which a broker would handle them.
    pub(super) fn with<R>(
        &mut self,
        call: impl FnOnce(&mut Queue, &mut Effects) -> R,
    ) -> Result<(R, Vec<String>), String> {
        let mut effects = Effects::default();
        let queue = self.queue.as_mut().expect("steps begin with one");
        let result = call(queue, &mut effects);
        assert_bytes_add_up(queue);
        effects.deadlines = queue.announce_deadlines();
        effects.fire();
        let mut rare = effects.take_rare().unwrap_or_default();
        while !rare.ended.is_empty() {
            rare.ended.tell();
        }
        let mut caused = Vec::new();
        let (fetched, delayed): (Vec<&DelayRun>, Vec<&DelayRun>) =
            rare.delayed.iter().partition(|run| run.due_ms < EPOCH_MS);
        let [fetched, delayed] = [fetched, delayed].map(|runs| {
            let runs = runs.into_iter();
            let runs = runs.map(|run| Run { first: run.first, last: run.last, bytes: run.bytes, durable: true });
            runs.collect::<Vec<Run>>()
        });
        let annotated: Vec<Run> = rare
            .annotated
            .iter()
            .map(|Annotated { number, .. }| Run { first: *number, last: *number, bytes: 0, durable: true })
            .collect();
        let dying: Vec<Run> = rare.dying.iter().map(|dying| dying.run()).collect();
        let logged = [
            ("annotated", &annotated),
            ("dropped", &rare.drops),
            ("settled", &effects.settled),
            ("expired", &rare.expired),
            ("parked", &rare.parked),
            ("delayed", &delayed),
            ("delayed no longer", &fetched),
            ("dying", &dying),
            ("dropped at the limit", &rare.over_limit),
        ];
        for (what, runs) in logged {
            if !runs.is_empty() {
                caused.push(format!("log {what}: {}", self.names_of(runs)));
            }
        }
        self.stream_log.keep_offsets(&rare.offsets);
        caused.extend(rare.offsets.iter().map(|kept| format!("log offset: {} at {}", kept.name, kept.offset)));
        if self.queue_type == QueueType::Stream {
            for run in rare.drops.iter().chain(&rare.expired) {
                self.store.retain(|first, _| !(run.first..=run.last).contains(first));
                self.stream_log.drop_runs(&[*run]);
            }
        }
        let signals = std::mem::take(&mut *self.link.0.lock().unwrap());
        caused.extend(signals.into_iter().map(|signal| self.signal(signal)));
        let read = effects.read.map(|from| (StoredRead::Delivery, from, std::mem::take(&mut rare.read_numbers)));
        let browse: Vec<Wanted> =
            rare.own_reads.iter().map(|(id, from)| (StoredRead::Own(*id, *from), *from, Vec::new())).collect();
        let dead = rare.read_dead.map(|from| (StoredRead::DeadLetters, from, std::mem::take(&mut rare.dead_numbers)));
        for wanted in read.into_iter().chain(browse).chain(dead) {
            let reader = match wanted.0 {
                StoredRead::Delivery => "to deliver".to_owned(),
                StoredRead::Own(id, _) if self.queue_type == QueueType::Stream => {
                    format!("for {}", self.consumer_name(id))
                }
                StoredRead::Own(id, _) => format!("to show {}", self.consumer_name(id)),
                StoredRead::DeadLetters => "to move dead letters".to_owned(),
            };
            let numbers = &wanted.2;
            match numbers.len() {
                0 | 1 => caused.push(format!("read from {} on, {reader}", self.name(wanted.1))),
                _ => {
                    let names = numbers.iter().flat_map(|(first, last)| *first..=*last).map(|number| self.name(number));
                    caused.push(format!("read {}, {reader}", names.collect::<Vec<_>>().join(" ")));
                }
            }
            self.wanted.push(wanted);
        }
        if effects.dead_letters {
            caused.push("dead letters wait".to_owned());
        }
        if let Some(deadline) = effects.deadlines.soonest(&Epoch::new(EPOCH_MS)) {
            let deadline_ms = deadline.div_ceil(MS);
            self.deadline_ms = Some(deadline_ms);
            caused.push(format!("timer at {deadline_ms} ms"));
        }
        Ok((result, caused))
    }

    fn signal(&mut self, signal: Signal) -> String {
        let name = |key: u64| self.consumers.get(&key).map_or("the get", |(name, _)| name);
        match signal {
            Signal::Scheduled(key) => format!("signal {}: take", name(key)),
            Signal::Cancelled(key) => format!("signal {}: cancelled", name(key)),
            Signal::Loaded(_) => "signal the get: try again".to_owned(),
            Signal::Answered(_) => unreachable!("a machine answers at once"),
            Signal::Activity { .. } if !self.shows_activity => String::new(),
            Signal::Activity { key, active, available, .. } => {
                format!("signal {}: {}, {available} available", name(key), if active { "active" } else { "inactive" })
            }
            Signal::Drained { key, delivery_count, available } => {
                let text = format!("signal {}: drained, count {delivery_count}, {available} available", name(key));
                if let Some((_, seen)) = self.consumers.get_mut(&key) {
                    *seen = delivery_count;
                }
                text
            }
        }
    }

    pub(super) fn name(&self, number: u64) -> &str {
        self.names.get(&number).map_or("?", String::as_str)
    }

    pub(super) fn number_of(&self, name: &str) -> Result<u64, String> {
        let found = self.names.iter().find(|(_, known)| *known == name);
        found.map(|(number, _)| *number).ok_or_else(|| format!("there was no message `{name}`"))
    }

    pub(super) fn names_of(&self, runs: &[Run]) -> String {
        let numbers = runs.iter().flat_map(|run| run.first..=run.last);
        numbers.map(|number| self.name(number)).collect::<Vec<_>>().join(" ")
    }

    fn consumer_name(&self, id: ConsumerId) -> &str {
        self.consumers.get(&id.0).map_or("?", |(name, _)| name)
    }

    pub(super) fn consumer(&self, name: &str) -> Result<ConsumerId, String> {
        let found = self.consumers.iter().find(|(_, (known, _))| known == name);
        found.map(|(id, _)| ConsumerId(*id)).ok_or_else(|| format!("there was no consumer `{name}`"))
    }

    /// Checks the rules that hold after every step: messages are accounted for, and sums match the single messages.
    fn check(&mut self) -> Result<(), String> {
        let queue = self.queue.as_ref().expect("steps begin with one");
        if *queue.state() != QueueState::Running {
            return Ok(());
        }
        let (status, gauges) = (queue.status(), queue.gauges());
        let ready: BTreeSet<u64> = queue.peek(0, usize::MAX).into_iter().map(|peeked| peeked.number).collect();
        if let Some(stream) = &status.stream {
            let is_there =
                |delivery: &&Delivery| delivery.consumer.is_some_and(|id| queue.consumer_status(id).is_some());
            let held = self.held.values().filter(is_there).count() as u64;
            let conservation = status.conservation;
            let sizes = [stream.next - stream.first, conservation.accepted - conservation.gone(), ready.len() as u64];
            if held != status.unacknowledged || sizes != [status.ready; 3] {
                return Err(format!("{sizes:?} messages are there and {held} with readers: {status:?}"));
            }
            return Ok(());
        }
        let conservation = status.conservation;
        let left = conservation.accepted - conservation.gone();
        let delayed = status.quorum.as_ref().map_or(0, |quorum| quorum.delayed);
        if left != status.ready + status.unacknowledged + delayed {
            return Err(format!("{left} messages should be left: {status:?}"));
        }
        if ready.len() as u64 != status.ready || self.held.len() as u64 != status.unacknowledged {
            return Err(format!("{} are ready and {} with consumers: {status:?}", ready.len(), self.held.len()));
        }
        if (gauges.ready, gauges.unacknowledged) != (status.ready, status.unacknowledged) {
            return Err(format!("gauges differ from the status: {gauges:?}, {status:?}"));
        }
        Ok(())
    }
}

/// The machine of a classic or quorum queue, for commands that streams lack.
pub(super) fn ledger(queue: &mut Queue) -> &mut LedgerQueue {
    queue.ledger_mut().expect("its scenario holds for classic and quorum queues only")
}

/// The machine of a stream, for commands that only streams have.
pub(super) fn stream(queue: &mut Queue) -> &mut StreamQueue {
    queue.stream_mut().expect("its scenario holds for streams only")
}
