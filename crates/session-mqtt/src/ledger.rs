//! A keyed ledger: a durable queue of the broker whose messages are records by key. A newer record of a key ends the older one, which
//! is settled; one that only ends others is settled with them. So the log, recovery and checkpoints know nothing new, and the queue
//! stays as long as what it keeps. See docs/storage.md.
//!
//! A consumer of the broker reads the queue: first what was there, and later each record once it is durable. It never acknowledges a
//! record that is in force, so nobody else can take it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use leveret_broker::broker::Broker;
use leveret_broker::outbox::{Event, Outbox};
use leveret_broker::queue_handle::{Acceptance, Audience, QueueRef, Size};
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::settings::{TAKE_BYTES_MAX, TAKE_MESSAGES_MAX};
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_log::Wait;
use leveret_message::{BatchBuilder, BatchPart, StoredMessage};
use leveret_model::{Arguments, Command, DeclareQueue, Permit, Value};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Deliveries, Link, Portion, Signal, Taken, TurnEnd,
};
use parking_lot::{Mutex, MutexGuard};

use super::consumer::TAG;
use super::exchanges::{Unacknowledged, runs_of};
use super::node::Shared;

/// The key with which connections are signalled that a ledger is read.
pub(crate) const LEDGER_KEY: u64 = 2;
/// Rounds of reading in one turn.
const TURN_ROUNDS: usize = 8;
/// Most records that one record of the log settles.
const SETTLED_MAX: usize = 256;

/// The records of one kind of ledger, in memory.
pub(crate) trait Records: Default + Send + Sized + 'static {
    /// The name of the queue.
    const QUEUE: &'static str;

    /// Takes a record, in the order of the log, and adds those that aren't in force any more to `over`. What `is_loaded` came from
    /// this process, which knows it.
    fn take(
        &mut self,
        record: Unacknowledged,
        message: &StoredMessage<'_>,
        is_loaded: bool,
        over: &mut Vec<Unacknowledged>,
    );

    /// All records that were there are taken; nobody has used them yet.
    fn loaded(ledger: &RecordLedger<Self>, shared: &Arc<Shared>, broker: &Arc<Broker>, now: Now);
}

/// The reader of the queue.
#[derive(Clone)]
struct Reader {
    queue: QueueRef,
    id: ConsumerId,
}

#[derive(Default)]
enum Phase {
    /// There is no queue, as far as is known.
    #[default]
    Absent,
    /// Its queue is being declared.
    Declaring,
    /// Its records are being read.
    Loading(Reader),
    Ready(Reader),
    /// It can't be used.
    Failed(String),
}

impl Phase {
    fn reader(&self) -> Option<&Reader> {
        match self {
            Self::Loading(reader) | Self::Ready(reader) => Some(reader),
            Self::Absent | Self::Declaring | Self::Failed(_) => None,
        }
    }
}

#[derive(Default)]
struct State {
    phase: Phase,
    waiting: Vec<Arc<Outbox>>,
}

/// Whether a ledger can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// It can.
    Ready,
    /// It has no record, and no queue.
    Absent,
    /// The asker is signalled with [`LEDGER_KEY`].
    Later,
    /// The reason why it can't be used.
    Failed(String),
}

/// A ledger of a vhost.
pub(crate) struct RecordLedger<R> {
    pub vhost: Arc<str>,
    state: Mutex<State>,
    records: Mutex<R>,
    shared: Weak<Shared>,
    me: Weak<Self>,
}

/// The link of the reader.
struct ReaderLink<R> {
    ledger: Weak<RecordLedger<R>>,
    broker: Weak<Broker>,
}

impl<R: Records> Link for ReaderLink<R> {
    fn signal(&self, signal: Signal) {
        let (Some(broker), ledger) = (self.broker.upgrade(), self.ledger.clone()) else { return };
        match signal {
            Signal::Scheduled(_) => broker.call_after(WaitFor::default(), move |broker, now| {
                if let Some(ledger) = ledger.upgrade() {
                    ledger.read(broker, now);
                }
            }),
            Signal::Cancelled(key) => {
                if let Some(ledger) = ledger.upgrade() {
                    ledger.lose(key);
                }
            }
            _ => {}
        }
    }
}

impl<R: Records> RecordLedger<R> {
    pub(crate) fn new(vhost: Arc<str>, shared: Weak<Shared>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self { vhost, state: Mutex::default(), records: Mutex::default(), shared, me: me.clone() })
    }

    /// Its records. No other lock may be taken before.
    pub(crate) fn records(&self) -> MutexGuard<'_, R> {
        self.records.lock()
    }

    /// Makes it usable: reads its queue, or declares one if there is none and it `creates` one.
    pub(crate) fn prepare(
        &self,
        broker: &Arc<Broker>,
        creates: bool,
        outbox: Option<&Arc<Outbox>>,
        now: Now,
    ) -> Prepared {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Ready(_) => return Prepared::Ready,
            Phase::Declaring | Phase::Loading(_) => {
                state.waiting.extend(outbox.cloned());
                return Prepared::Later;
            }
            Phase::Failed(why) if !creates => return Prepared::Failed(why.clone()),
            Phase::Absent | Phase::Failed(_) => {}
        }
        let found = broker.registry.snapshot().queue(&self.vhost, R::QUEUE).map(QueueRef::newest);
        if found.is_none() && !creates {
            state.phase = Phase::Absent;
            return Prepared::Absent;
        }
        state.phase = Phase::Declaring;
        state.waiting.extend(outbox.cloned());
        drop(state);
        match found {
            Some(queue) => self.attach(broker, queue, now),
            None => self.declare(broker, now),
        }
        Prepared::Later
    }

    fn declare(&self, broker: &Arc<Broker>, now: Now) {
        // Acknowledged records are synced, with any defaults of the vhost and the node.
        let arguments =
            Arguments::from_iter([("x-queue-type", Value::from("classic")), ("x-durability", Value::from("synced"))]);
        let declare = DeclareQueue {
            server_named: true,
            ..DeclareQueue::durable(self.vhost.clone(), R::QUEUE.into(), arguments)
        };
        let request = ChangeRequest::new(Permit::system(), Command::DeclareQueue(declare));
        let (me, broker_later) = (self.me.clone(), Arc::downgrade(broker));
        broker.registry.change(request, now.monotonic).then(move |outcome: ChangeOutcome| {
            let (Some(ledger), Some(broker)) = (me.upgrade(), broker_later.upgrade()) else { return };
            match outcome {
                Ok(changed) => {
                    let Some(queue) = changed.declared else { return ledger.fail("its queue wasn't declared") };
                    broker.call_after(changed.ticket.into(), move |broker, now| {
                        broker.registry.publish();
                        ledger.attach(broker, queue, now);
                    });
                }
                Err(refused) => ledger.fail(&refused.to_string()),
            }
        });
    }

    fn fail(&self, why: &str) {
        let text = format!("queue '{}' in vhost '{}' can't be used: {why}", R::QUEUE, self.vhost);
        tracing::error!("MQTT: {text}");
        self.turn_to(Phase::Failed(text));
    }

    fn turn_to(&self, phase: Phase) {
        let waiting = {
            let mut state = self.state.lock();
            state.phase = phase;
            std::mem::take(&mut state.waiting)
        };
        waiting.iter().for_each(|outbox| outbox.send(Event::Queue(Signal::Answered(LEDGER_KEY))));
    }

    /// Begins to read the queue.
    fn attach(&self, broker: &Arc<Broker>, queue: QueueRef, now: Now) {
        let id = broker.fresh_consumer_id();
        *self.records.lock() = R::default();
        self.state.lock().phase = Phase::Loading(Reader { queue: queue.clone(), id });
        let options = ConsumerOptions {
            link: Arc::new(ReaderLink { ledger: self.me.clone(), broker: Arc::downgrade(broker) }),
            key: id.0,
            tag: TAG.into(),
            channel: "MQTT".into(),
            automatic_ack: false,
            flow: ConsumerFlow::Prefetch(0),
            priority: 0,
            exclusive: true,
            mode: ConsumerMode::Move,
            filter: None,
            stream: None,
            timeout_ms: None,
            user: "".into(),
            arguments: Arguments::default(),
        };
        if let Err(why) = queue.check_runs_here() {
            return self.fail(&why);
        }
        let me = self.me.clone();
        queue.consume(id, options, now.monotonic).then(move |added| {
            if let (Err(_), Some(ledger)) = (added, me.upgrade()) {
                ledger.fail("it is gone or has another consumer");
            }
        });
        let me = self.me.clone();
        // An empty queue schedules no consumer.
        broker.call_after(WaitFor::default(), move |broker, now| {
            if let Some(ledger) = me.upgrade() {
                ledger.read(broker, now);
            }
        });
    }

    /// The queue is gone: with its vhost, or because it failed.
    fn lose(&self, key: u64) {
        if self.state.lock().phase.reader().is_some_and(|reader| reader.id.0 == key) {
            *self.records.lock() = R::default();
            self.turn_to(Phase::Absent);
        }
    }

    /// Reads what is ready. Only the first core's turns call it.
    fn read(&self, broker: &Arc<Broker>, now: Now) {
        let (reader, is_loaded) = match &self.state.lock().phase {
            Phase::Loading(reader) => (reader.clone(), false),
            Phase::Ready(reader) => (reader.clone(), true),
            Phase::Absent | Phase::Declaring | Phase::Failed(_) => return,
        };
        let portion = Portion { messages: TAKE_MESSAGES_MAX, bytes: TAKE_BYTES_MAX };
        let (mut taken, mut over) = (Vec::new(), Vec::new());
        let mut rounds = 0;
        let end = loop {
            let end = reader.queue.take(reader.id, portion, now.monotonic, &mut taken);
            let mut records = self.records.lock();
            taken.drain(..).for_each(|run| take_run(&mut *records, &run, is_loaded, &mut over));
            drop(records);
            rounds += 1;
            if end == TurnEnd::Done || rounds >= TURN_ROUNDS {
                break end;
            }
        };
        for over in over.chunks(SETTLED_MAX) {
            let runs = runs_of(over.to_vec());
            reader.queue.settle(
                Deliveries::of(Some(reader.id), &runs),
                Settlement::Acknowledge,
                Wait::Lazy,
                now.monotonic,
            );
        }
        if end == TurnEnd::More {
            let me = self.me.clone();
            broker.call_after(WaitFor::default(), move |broker, now| {
                if let Some(ledger) = me.upgrade() {
                    ledger.read(broker, now);
                }
            });
        // A ledger is a queue of this node, so it answers at once.
        } else if !is_loaded && reader.queue.look(Size { used: None }).0 == 0 {
            if let Some(shared) = self.shared.upgrade() {
                R::loaded(self, &shared, broker, now);
            }
            self.turn_to(Phase::Ready(reader));
        }
        broker.streams.announce();
    }

    /// The state of all connections.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.upgrade()
    }

    /// Its queue, while it has one.
    pub(crate) fn queue(&self) -> Option<QueueRef> {
        self.state.lock().phase.reader().map(|reader| reader.queue.clone())
    }

    /// Appends records. Returns the condition under which they are safe.
    ///
    /// # Errors
    /// There is no queue, or it takes no messages: the text for the log.
    pub(crate) fn append(&self, broker: &Arc<Broker>, records: BatchBuilder, now: Now) -> Result<WaitFor, String> {
        let queue = self.queue().ok_or_else(|| format!("queue '{}' isn't there", R::QUEUE))?;
        append_to(broker, &queue, records, now)
    }
}

fn append_to(broker: &Arc<Broker>, queue: &QueueRef, mut records: BatchBuilder, now: Now) -> Result<WaitFor, String> {
    let batch = Arc::new(records.finish());
    let published = queue.publish(BatchPart::whole(&batch), true, Audience::Alone, now.monotonic);
    if matches!(published.acceptance, Acceptance::Known(accepted) if (accepted as usize) < batch.len()) {
        return Err(format!("queue '{}' takes no messages", queue.info().name));
    }
    let mut wait = WaitFor::default();
    wait.and_publish(published.awaited, &published.acceptance);
    broker.streams.notify(published.awaited.synced(), queue.waiter());
    broker.streams.announce();
    Ok(wait)
}

fn take_run<R: Records>(records: &mut R, run: &Taken, is_loaded: bool, over: &mut Vec<Unacknowledged>) {
    for at in 0..run.count {
        let index = (run.index + at) as usize;
        let record = Unacknowledged {
            number: run.first + u64::from(at),
            bytes: run.batch.body_length(index),
            durable: run.durable,
        };
        records.take(record, &run.batch.message(index).view(), is_loaded, over);
    }
}

/// Changes that were appended and aren't durable yet, in the order of the log.
pub(crate) type Changes<T> = VecDeque<(WaitFor, T)>;
