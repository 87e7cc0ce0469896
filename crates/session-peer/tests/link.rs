//! Two brokers and a link between them: a client of one uses a queue of the other, in any order of turns, with links that break.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::authenticate::Anybody;
use leveret_broker::group::Group;
use leveret_broker::outbox::{Event, Outbox};
use leveret_broker::queue_handle::{
    Audience, KeptOffsetOf, Numbered, QueueRef, Reason, Size, StreamQueueRef, WriterSequence,
};
use leveret_broker::registry::{ChangeRequest, MetadataLeader, PlacedAnswer, PlacedRequest, decide};
use leveret_broker::settlement::Settlement;
use leveret_broker::streams::StoreId;
use leveret_broker::wait_for::{WaitEnd, WaitFor};
use leveret_broker::{Broker, Now, Session, Settings, Setup, Wake};
use leveret_log::{Lane, MemoryDisk, Next, Options, Wait};
use leveret_message::chunk::{ChunkBuilder, ChunkWriter, SharedChunk};
use leveret_message::{BatchBuilder, BatchPart, StoredMessage};
use leveret_model::{
    AppliedEntry, Arguments, Command, CommandOutcome, DeclareQueue, DeleteQueue, MemberNumber, Model, Permit, PutMember,
};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Deliveries, Departure, KeptOffset, Link, NoConsumer,
    Portion, PublishingIds, Run, Signal, StreamOptions, StreamStart, Taken,
};
use leveret_session_peer::{AskingSession, HomeSession};
use parking_lot::Mutex;

/// The node that has the queue.
const HOME: MemberNumber = MemberNumber(1);
const PREFETCH: u32 = 7;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Signals of a consumer.
#[derive(Default)]
struct Bell(Mutex<Vec<Signal>>);

impl Link for Bell {
    fn signal(&self, signal: Signal) {
        self.0.lock().push(signal);
    }
}

/// The metadata of two nodes, the second of which has a queue.
fn metadata() -> Vec<u8> {
    let mut model = Model::default();
    let submit = |model: &mut Model, command| drop(model.submit(Permit::system(), command).expect("is accepted"));
    for (name, node_id) in [("one", 7), ("two", 8)] {
        let member = PutMember { name: name.into(), node_id, boot: 1, nonce: 1, addresses: Vec::new() };
        submit(&mut model, Command::PutMember(member));
    }
    submit(&mut model, Command::CreateVhost { name: "/".into() });
    model.set_asker(HOME);
    let stream = Arguments::default().with("x-queue-type", "stream".into());
    let letters = Arguments::default().with("x-dead-letter-exchange", "".into());
    let letters = letters.with("x-dead-letter-routing-key", "q".into());
    for (name, arguments) in [("q", Arguments::default()), ("s", stream), ("d", letters)] {
        submit(&mut model, Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), arguments)));
    }
    model.snapshot()
}

struct Node {
    broker: Arc<Broker>,
    disk: MemoryDisk,
}

impl Node {
    fn new(member: MemberNumber, metadata: &[u8], now: Now) -> Self {
        Self::with(Settings { member, ..Settings::default() }, metadata, now)
    }

    fn with(settings: Settings, metadata: &[u8], now: Now) -> Self {
        let (disk, counters) = (MemoryDisk::new(), vec![Arc::default()]);
        let setup = Setup { settings, protocols: Vec::new(), authenticator: Arc::new(Anybody), counters };
        let (broker, _) = Broker::recover(&disk, Options::default(), setup, now).expect("an empty disk");
        let mut this = Self { broker, disk };
        this.broker.registry.replace(metadata, AppliedEntry::default(), now.monotonic).expect("it can be read");
        this.broker.streams.announce();
        this.work(now);
        this
    }

    fn queue(&self) -> QueueRef {
        self.named("q")
    }

    fn named(&self, name: &str) -> QueueRef {
        self.broker.registry.snapshot().queue("/", name).expect("it is known").clone()
    }

    fn stream(&self) -> StreamQueueRef {
        self.broker.registry.snapshot().queue("/", "s").and_then(QueueRef::as_stream).expect("it is known")
    }

    /// Does all disk work.
    fn work(&mut self, now: Now) {
        self.work_of_log(now);
        while self.broker.deferred_turn(0, now) {}
        while let Some(read) = self.broker.next_read() {
            read.run(&self.disk, now);
        }
    }

    /// Does the work of the log, and no other: dead letters stay where they are.
    fn work_of_log(&mut self, mut now: Now) {
        for lane in [Lane::Commit, Lane::Background] {
            loop {
                match self.broker.next_job(StoreId::FIRST, lane, now).expect("the log works") {
                    Next::Run(id, job) => {
                        let done = job.run(&self.disk);
                        self.broker.complete(StoreId::FIRST, id, done, now).expect("the log works");
                    }
                    Next::At(at) if at < now.monotonic + 10_000_000 => now.monotonic = now.monotonic.max(at),
                    Next::At(_) | Next::Idle => break,
                }
            }
        }
    }
}

/// One direction of a link.
#[derive(Default)]
struct Wire {
    bytes: VecDeque<u8>,
    /// Bytes that came and weren't used.
    kept: Vec<u8>,
}

impl Wire {
    fn send(&mut self, from: &mut dyn Session) {
        let output = from.output();
        let count = output.len();
        self.bytes.extend(output.pending());
        output.written(count);
    }

    fn receive(&mut self, most: usize, to: &mut dyn Session, now: Now) {
        let count = most.min(self.bytes.len());
        self.kept.extend(self.bytes.drain(..count));
        if to.wants_read() {
            let used = to.receive(&self.kept, now);
            self.kept.drain(..used);
        }
    }
}

struct Standing {
    asking: AskingSession,
    home: HomeSession,
    there: Wire,
    back: Wire,
}

fn options(link: Arc<dyn Link>) -> ConsumerOptions {
    ConsumerOptions {
        link,
        key: 5,
        tag: "c".into(),
        channel: "".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(PREFETCH),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "".into(),
        arguments: Arguments::default(),
    }
}

/// A consumer of the client.
struct Consumer {
    id: ConsumerId,
    bell: Arc<Bell>,
    added: Option<Later<Result<(), NoConsumer>>>,
    held: Vec<(u64, Run)>,
}

struct World {
    client: Node,
    home: Node,
    link: Option<Standing>,
    now: Now,
    random: Random,
    published: u64,
    /// Publishes whose end isn't known.
    open: Vec<(u64, WaitFor)>,
    confirmed: BTreeSet<u64>,
    /// Settlements whose end isn't known.
    settling: Vec<(u64, WaitFor)>,
    /// Messages that are acknowledged for good.
    settled: BTreeSet<u64>,
    /// Messages whose link broke before the client heard of it: they may have left their queue, or return.
    perhaps: BTreeSet<u64>,
    consumer: Option<Consumer>,
    /// How often each message was delivered.
    delivered: BTreeMap<u64, u32>,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Now { monotonic: 1_000_000_000, wall_ms: 1_000_000 };
        let metadata = metadata();
        Self {
            client: Node::new(MemberNumber(0), &metadata, now),
            home: Node::new(HOME, &metadata, now),
            link: None,
            now,
            random: Random(seed * 2 + 1),
            published: 0,
            open: Vec::new(),
            confirmed: BTreeSet::new(),
            settling: Vec::new(),
            settled: BTreeSet::new(),
            perhaps: BTreeSet::new(),
            consumer: None,
            delivered: BTreeMap::new(),
        }
    }

    fn connect(&mut self) {
        let asking = AskingSession::new(&self.client.broker, HOME, 0, Arc::new(NoWake), 0);
        let outbox = Arc::new(Outbox::new(Arc::new(NoWake)));
        let home = HomeSession::new(&self.home.broker, (MemberNumber(1), "one".into()), outbox);
        self.link = Some(Standing { asking, home, there: Wire::default(), back: Wire::default() });
    }

    fn cut(&mut self) {
        if let Some(mut link) = self.link.take() {
            link.asking.disconnected(self.now);
            link.home.disconnected(self.now);
        }
        // All that it held has returned.
        self.consumer = None;
    }

    fn link_turn(&mut self) {
        let (now, random) = (self.now, &mut self.random);
        let Some(Standing { asking, home, there, back }) = &mut self.link else { return };
        match random.below(4) {
            0 => {
                asking.turn(now);
                there.send(asking);
            }
            1 => there.receive(random.below(3000) as usize, home, now),
            2 => {
                home.turn(now);
                back.send(home);
            }
            _ => back.receive(random.below(3000) as usize, asking, now),
        }
        assert!(!asking.is_finished() && !home.is_finished(), "both understand each other");
    }

    fn publish(&mut self) {
        let mut builder = BatchBuilder::default();
        let count = 1 + self.random.below(3);
        let first = self.published;
        for number in first..first + count {
            let mut body = number.to_le_bytes().to_vec();
            body.resize(8 + self.random.below(200) as usize, 1);
            builder.push_message(&StoredMessage { body: &body, ..StoredMessage::default() });
        }
        self.published += count;
        let batch = Arc::new(builder.finish());
        let queue = self.client.queue();
        let published = queue.publish(BatchPart::whole(&batch), true, Audience::Alone, self.now.monotonic);
        let mut wait = WaitFor::default();
        wait.and_publish(published.awaited, &published.acceptance);
        if self.link.is_some() {
            self.open.extend((first..first + count).map(|number| (number, wait.clone())));
        }
    }

    fn consume(&mut self) {
        let bell = Arc::new(Bell::default());
        let id = self.client.broker.fresh_consumer_id();
        let options = options(bell.clone());
        match self.client.queue().consume(id, options, self.now.monotonic) {
            NowOrLater::Now(refused) => assert!(refused.is_err() && self.link.is_none(), "there is no link"),
            NowOrLater::Later(added) => {
                self.consumer = Some(Consumer { id, bell, added: Some(added), held: Vec::new() });
            }
        }
    }

    fn take(&mut self) {
        let Some(consumer) = &mut self.consumer else { return };
        if let Some(answer) = consumer.added.as_ref().and_then(Later::take) {
            answer.expect("a consumer is added");
            consumer.added = None;
        }
        consumer.bell.0.lock().clear();
        let mut taken: Vec<Taken> = Vec::new();
        let most = Portion { messages: 1 + self.random.below(5) as u32, bytes: 1000 };
        let _ = self.client.queue().take(consumer.id, most, self.now.monotonic, &mut taken);
        for taken in taken {
            for at in 0..taken.count {
                let body = taken.batch.message((taken.index + at) as usize).view().body;
                let number = u64::from_le_bytes(body[..8].try_into().expect("it is numbered"));
                assert!(!self.settled.contains(&number), "{number} was acknowledged for good");
                *self.delivered.entry(number).or_default() += 1;
                let run = Taken { count: 1, ..taken.rest(at) }.runs()[0];
                consumer.held.push((number, run));
            }
        }
        assert!(consumer.held.len() <= PREFETCH as usize, "no more than the prefetch");
    }

    fn settle(&mut self) {
        let Some(consumer) = &mut self.consumer else { return };
        if consumer.held.is_empty() {
            return;
        }
        let at = self.random.below(consumer.held.len() as u64) as usize;
        let (number, run) = consumer.held.remove(at);
        let how = match self.random.below(3) {
            0 => Settlement::Requeue { failed: false },
            _ => Settlement::Acknowledge,
        };
        let deliveries = [run];
        let deliveries = Deliveries::of(Some(consumer.id), &deliveries);
        let ticket = self.client.queue().settle(deliveries, how, Wait::Confirm, self.now.monotonic);
        if let (Settlement::Acknowledge, Some(ticket)) = (how, ticket) {
            self.settling.push((number, ticket.into()));
        }
    }

    fn cancel(&mut self) {
        if let Some(consumer) = self.consumer.take() {
            let held: Vec<Run> = consumer.held.iter().map(|(_, run)| *run).collect();
            let held = if held.is_empty() { Vec::new() } else { vec![(Some(consumer.id), held)] };
            let _ = self.client.queue().leave(&[consumer.id], &held, false, self.now.monotonic);
        }
    }

    /// Notes what has ended.
    fn look(&mut self) {
        let streams = self.client.broker.streams.clone();
        let confirmed = &mut self.confirmed;
        self.open.retain(|(number, wait)| match streams.end(wait) {
            None => true,
            Some(WaitEnd::Reached) => {
                confirmed.insert(*number);
                false
            }
            Some(_) => false,
        });
        let (settled, perhaps) = (&mut self.settled, &mut self.perhaps);
        self.settling.retain(|(number, wait)| match streams.end(wait) {
            None => true,
            Some(WaitEnd::Reached) => {
                settled.insert(*number);
                false
            }
            Some(_) => {
                perhaps.insert(*number);
                false
            }
        });
    }

    fn step(&mut self) {
        self.now.monotonic += 1_000_000;
        match self.random.below(40) {
            0..=3 => self.publish(),
            4..=6 => self.take(),
            7..=9 => self.settle(),
            10 if self.consumer.is_none() => self.consume(),
            11 if self.random.below(4) == 0 => self.cancel(),
            12 if self.random.below(6) == 0 => self.cut(),
            13 if self.link.is_none() => self.connect(),
            14..=17 => self.home.work(self.now),
            _ => self.link_turn(),
        }
        self.look();
    }

    /// Confirmed messages that aren't acknowledged yet.
    fn lost(&self) -> Vec<u64> {
        let is_over = |number: &u64| self.settled.contains(number) || self.perhaps.contains(number);
        self.confirmed.iter().copied().filter(|number| !is_over(number)).collect()
    }

    /// Everything that is left is delivered and acknowledged, over a link that stands.
    fn drain(&mut self) {
        if self.link.is_none() {
            self.connect();
        }
        if self.consumer.is_none() {
            self.consume();
        }
        for _ in 0..20_000 {
            self.now.monotonic += 1_000_000;
            self.home.work(self.now);
            self.link_turn();
            self.take();
            while self.consumer.as_ref().is_some_and(|consumer| !consumer.held.is_empty()) {
                self.settle();
            }
            self.look();
            if self.lost().is_empty() && self.open.is_empty() && self.settling.is_empty() {
                break;
            }
        }
        let lost = self.lost();
        assert!(lost.is_empty(), "confirmed, and never delivered to be acknowledged: {lost:?}");
        assert!(self.open.is_empty() && self.settling.is_empty(), "every wait ends");
    }
}

#[test]
fn confirmed_messages_are_delivered_whatever_breaks() {
    for seed in 1..=60 {
        let mut world = World::new(seed);
        world.connect();
        for _ in 0..3000 {
            world.step();
        }
        world.drain();
        assert!(world.confirmed.len() > 20, "seed {seed}: {} are confirmed", world.confirmed.len());
    }
}

#[test]
fn a_queue_of_another_node_is_refused_without_a_link() {
    let mut world = World::new(1);
    let queue = world.client.queue();
    let text = queue.check_runs().expect_err("there is no link");
    assert_eq!(text, "home node 'two' of durable queue 'q' in vhost '/' is down or inaccessible");
    assert!(queue.has_failed() && queue.is_away());
    world.publish();
    world.connect();
    assert!(queue.check_runs().is_ok() && !queue.has_failed());
    assert!(!world.home.queue().is_away(), "the other node has it");
}

#[test]
fn a_call_on_a_queue_that_never_comes_is_answered() {
    let mut world = World::new(1);
    let nothing = Model::default().snapshot();
    world.home = Node::new(HOME, &nothing, world.now);
    world.connect();
    world.publish();
    let turns = |world: &mut World| {
        for _ in 0..100 {
            world.link_turn();
        }
        world.look();
    };
    turns(&mut world);
    assert!(!world.open.is_empty(), "it waits for the metadata");
    world.now.monotonic += 11_000_000_000;
    turns(&mut world);
    assert!(world.open.is_empty() && world.confirmed.is_empty(), "its queue counts as deleted");
}

/// A reader of the client, of the stream protocol.
struct Reader {
    id: ConsumerId,
    added: Option<Later<Result<(), NoConsumer>>>,
    sent: u32,
    credit: u32,
}

/// A client that publishes to a stream by a name, and reads it.
struct StreamClient {
    world: World,
    /// The number of its next message.
    next: u64,
    /// Chunks whose end isn't known, by the number of their first message.
    open: Vec<(u64, u64, WaitFor)>,
    confirmed: u64,
    reader: Option<Reader>,
    /// Messages that it has read: the next offset, too.
    read: u64,
    /// The messages of the stream as they were read.
    bodies: Vec<u64>,
}

const NAME: &str = "name";

impl StreamClient {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.connect();
        Self { world, next: 1, open: Vec::new(), confirmed: 0, reader: None, read: 0, bodies: Vec::new() }
    }

    fn publish(&mut self) {
        let (mut builder, mut batch, mut numbers) =
            (ChunkBuilder::new(0), BatchBuilder::default(), PublishingIds::default());
        let count = 1 + self.world.random.below(3);
        for number in self.next..self.next + count {
            batch.push_message(&StoredMessage { body: &number.to_le_bytes(), ..StoredMessage::default() });
            numbers.push(number);
        }
        builder.push_all(&batch.finish(), 0..count as usize).expect("they fit");
        let writer = ChunkWriter { name: NAME, sequence: self.next + count - 1 };
        let chunk = Arc::new(SharedChunk::from(builder.finish_of(Some(&writer))));
        let numbered = Some(Numbered { name: NAME, numbers: &numbers });
        let published = self.world.client.stream().publish_chunk(&chunk, numbered, self.world.now.monotonic);
        if self.world.link.is_some() {
            let mut wait = WaitFor::default();
            wait.and_publish(published.awaited, &published.acceptance);
            self.open.push((self.next, self.next + count - 1, wait));
            self.next += count;
        }
    }

    /// Notes what is confirmed, and goes back to what isn't.
    fn look(&mut self) {
        let streams = self.world.client.broker.streams.clone();
        let (confirmed, next) = (&mut self.confirmed, &mut self.next);
        self.open.retain(|(first, last, wait)| match streams.end(wait) {
            None => true,
            Some(WaitEnd::Reached) => {
                *confirmed = (*confirmed).max(*last);
                false
            }
            Some(_) => {
                *next = (*next).min(*first);
                false
            }
        });
    }

    fn subscribe(&mut self) {
        let id = self.world.client.broker.fresh_consumer_id();
        let start = StreamStart::Offset(self.read);
        let stream = StreamOptions { start, whole_chunks: true, ..StreamOptions::default() };
        let options = ConsumerOptions {
            automatic_ack: true,
            flow: ConsumerFlow::Credit { delivery_count: 0 },
            stream: Some(Box::new(stream)),
            ..options(Arc::new(Bell::default()))
        };
        if let NowOrLater::Later(added) = self.world.client.stream().consume(id, options, self.world.now.monotonic) {
            self.reader = Some(Reader { id, added: Some(added), sent: 0, credit: 0 });
        }
    }

    fn read(&mut self) {
        let (stream, now) = (self.world.client.stream(), self.world.now.monotonic);
        let Some(reader) = &mut self.reader else { return };
        if let Some(answer) = reader.added.as_ref().and_then(Later::take) {
            answer.expect("a reader is added");
            reader.added = None;
        }
        if reader.added.is_some() {
            return;
        }
        if reader.credit == 0 || self.world.random.below(3) == 0 {
            reader.credit += 1 + self.world.random.below(3) as u32;
            let _ = stream.grant(reader.id, reader.sent, reader.credit, false, now);
        }
        let mut taken = Vec::new();
        let turn = stream.take_chunks(reader.id, self.world.random.below(400), now, &mut taken);
        for chunk in &taken {
            assert!(reader.credit > 0 && !chunk.joins, "no more than the credit");
            (reader.credit, reader.sent) = (reader.credit - 1, reader.sent + 1);
            assert!(chunk.first <= turn.committed || turn.committed == 0);
            let messages = chunk.chunk.messages().expect("it is whole");
            assert!(chunk.first <= self.read, "none is left out");
            for at in (self.read - chunk.first) as usize..messages.len() {
                let body = messages.message(at).view().body;
                self.bodies.push(u64::from_le_bytes(*body.last_chunk().expect("it is numbered")));
                self.read += 1;
            }
        }
    }

    fn step(&mut self) {
        self.world.now.monotonic += 1_000_000;
        let now = self.world.now;
        match self.world.random.below(40) {
            0..=3 => self.publish(),
            4..=7 => self.read(),
            8 if self.reader.is_none() => self.subscribe(),
            9 if self.world.random.below(6) == 0 => {
                self.world.cut();
                self.reader = None;
            }
            10 if self.world.link.is_none() => self.world.connect(),
            11..=14 => self.world.home.work(now),
            _ => self.world.link_turn(),
        }
        self.look();
    }

    /// Takes turns until something is true.
    fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..20_000 {
            if holds(self) {
                return;
            }
            if self.world.link.is_none() {
                self.world.connect();
            }
            if self.reader.is_none() {
                self.subscribe();
            }
            self.world.now.monotonic += 1_000_000;
            self.world.home.work(self.world.now);
            self.world.link_turn();
            self.read();
            self.look();
        }
        panic!("it never holds: {} read, {} confirmed, {} open", self.read, self.confirmed, self.open.len());
    }
}

#[test]
fn a_stream_has_each_confirmed_message_once_whatever_breaks() {
    for seed in 1..=40 {
        let mut client = StreamClient::new(seed);
        for _ in 0..3000 {
            client.step();
        }
        client.until(|client| client.open.is_empty() && client.world.link.is_some());
        let stream = client.world.client.stream();
        let NowOrLater::Later(found) = stream.ask(WriterSequence(NAME.into())) else { panic!("it comes later") };
        let mut last = None;
        client.until(|_| {
            last = last.or_else(|| found.take().and_then(|(sequence, _)| sequence));
            last.is_some()
        });
        // Some may be there whose confirm was lost with its link.
        let last = last.unwrap_or_default();
        assert!(last >= client.confirmed && client.confirmed > 20, "seed {seed}: {last}, {}", client.confirmed);
        client.until(|client| client.read >= last);
        assert!(client.bodies.iter().copied().eq(1..=last), "seed {seed}: {:?}", client.bodies);
    }
}

#[test]
fn offsets_are_kept_at_the_home_of_a_stream() {
    let mut client = StreamClient::new(3);
    let stream = client.world.client.stream();
    let kept = KeptOffset { name: "reader".into(), offset: 5 };
    let NowOrLater::Later(is_kept) = stream.keep_offset(kept, client.world.now.monotonic) else {
        panic!("it comes later")
    };
    client.until(|_| is_kept.take() == Some(true));
    for (name, offset) in [("reader", Some(5)), ("another", None)] {
        let NowOrLater::Later(found) = stream.ask(KeptOffsetOf(name.into())) else { panic!("it comes later") };
        client.until(|_| found.take() == Some(offset));
    }
}

#[test]
fn a_large_transaction_is_carried_out_in_turns() {
    for is_cut in [false, true] {
        let mut world = World::new(5);
        let settings = Settings { member: HOME, turn_work_max: 200, ..Settings::default() };
        world.home = Node::with(settings, &metadata(), world.now);
        world.connect();
        let (queue, now) = (world.client.queue(), world.now);
        let mut group = Group::new(queue.stream().id());
        for number in 0..300u64 {
            let mut builder = BatchBuilder::default();
            builder.push_message(&StoredMessage { body: &number.to_le_bytes(), ..StoredMessage::default() });
            let batch = Arc::new(builder.finish());
            let _ = queue.publish_in(&mut group, BatchPart::whole(&batch), true, now.monotonic);
        }
        let committed = group.commit(Wait::Confirm);
        world.published = 300;
        world.publish();
        let Some(Standing { asking, home, there, .. }) = &mut world.link else { panic!("it stands") };
        while asking.wants_turn() {
            asking.turn(now);
            there.send(asking);
        }
        there.receive(usize::MAX, home, now);
        assert!(!home.wants_read() && home.wants_turn(), "it isn't done in one turn");
        home.turn(now);
        assert!(!home.wants_read(), "nor in two");
        if is_cut {
            world.cut();
        }
        for _ in 0..1000 {
            world.now.monotonic += 1_000_000;
            world.home.work(world.now);
            world.link_turn();
            world.look();
        }
        let (ready, _) = world.home.queue().look(Size { used: None });
        assert_eq!(ready, if is_cut { 300 } else { world.published }, "all of it has come");
        let end = world.client.broker.streams.end(&committed);
        assert!(matches!(end, Some(WaitEnd::Reached)) != is_cut && end.is_some());
    }
}

/// A leader of the metadata that decides on what the home knows.
struct DecidesAt(Arc<Broker>);

impl MetadataLeader for DecidesAt {
    fn ask(&self, request: PlacedRequest, answer: Box<dyn FnOnce(PlacedAnswer) + Send>) {
        answer(decide(&mut self.0.registry.committed_model(), request).answer);
    }

    fn catch_up(&self, answer: Box<dyn FnOnce(bool) + Send>) {
        answer(true);
    }
}

#[test]
fn of_two_deletions_elsewhere_only_one_has_deleted_it() {
    let mut world = World::new(1);
    world.connect();
    world.client.broker.registry.join(Arc::new(DecidesAt(world.home.broker.clone())));
    let delete = DeleteQueue { vhost: "/".into(), name: "q".into(), connection: None, id: None };
    let request = ChangeRequest::new(Permit::system(), Command::DeleteQueue(delete));
    // Another one comes first, of which the client's node hasn't heard.
    let first = world.home.broker.registry.change(request.clone(), world.now.monotonic);
    assert!(matches!(first, NowOrLater::Now(Ok(changed)) if changed.outcome == CommandOutcome::Deleted));
    let outcome = Arc::new(Mutex::new(None));
    let told = outcome.clone();
    let second = world.client.broker.registry.change(request, world.now.monotonic);
    second.then(move |changed| *told.lock() = Some(changed.map(|changed| changed.outcome)));
    for _ in 0..2_000 {
        world.now.monotonic += 1_000_000;
        world.home.work(world.now);
        world.link_turn();
    }
    assert_eq!(*outcome.lock(), Some(Ok(CommandOutcome::Absent)));
}

/// A message of the queue `d`, which dead-letters what is rejected, and which a consumer holds.
fn held_message(world: &mut World) -> (ConsumerId, Run) {
    let (queue, now) = (world.client.named("d"), world.now.monotonic);
    let mut builder = BatchBuilder::default();
    builder.push_message(&StoredMessage { body: b"rejected", ..StoredMessage::default() });
    let _ = queue.publish(BatchPart::whole(&Arc::new(builder.finish())), true, Audience::Alone, now);
    let id = world.client.broker.fresh_consumer_id();
    let _ = queue.consume(id, options(Arc::new(Bell::default())), now);
    let mut taken: Vec<Taken> = Vec::new();
    for _ in 0..2000 {
        world.now.monotonic += 1_000_000;
        world.home.work(world.now);
        world.link_turn();
        let _ = queue.take(id, Portion { messages: 1, bytes: 1000 }, world.now.monotonic, &mut taken);
        if let Some(taken) = taken.first() {
            return (id, taken.runs()[0]);
        }
    }
    panic!("it is delivered");
}

#[test]
fn calls_go_on_behind_a_rejection_whose_dead_letter_waits() {
    let mut world = World::new(3);
    world.connect();
    let (id, run) = held_message(&mut world);
    let outbox = Arc::new(Outbox::new(Arc::new(NoWake)));
    let runs = [run];
    let deliveries = Deliveries::of(Some(id), &runs);
    let rejected = world.client.named("d").reject(deliveries, false, &outbox, Reason::Settlement, 0);
    world.publish();
    let end = |world: &World| world.client.broker.streams.end(&rejected);
    for _ in 0..500 {
        world.now.monotonic += 1_000_000;
        world.home.work_of_log(world.now);
        world.link_turn();
        world.look();
    }
    assert!(!world.confirmed.is_empty() && world.open.is_empty(), "a publish is confirmed");
    assert!(end(&world).is_none(), "the rejected message isn't moved");
    for _ in 0..500 {
        world.now.monotonic += 1_000_000;
        world.home.work(world.now);
        world.link_turn();
    }
    assert!(matches!(end(&world), Some(WaitEnd::Reached)));
    let mut events = Vec::new();
    outbox.drain(&mut events);
    assert!(events.iter().any(|event| matches!(event, Event::Durable(_))), "the client's connection is told");
    let (ready, _) = world.home.queue().look(Size { used: None });
    assert_eq!(ready, world.published + 1, "its dead letter came");
}

#[test]
fn a_core_that_dials_again_is_served_once_its_old_link_has_left() {
    let mut world = World::new(4);
    world.connect();
    world.consume();
    let turns = |world: &mut World, count| {
        for _ in 0..count {
            world.now.monotonic += 1_000_000;
            world.home.work(world.now);
            world.link_turn();
            world.take();
            world.look();
        }
    };
    turns(&mut world, 200);
    // This side has seen the end of the link, the other one hasn't. The same consumer is registered again, as that of a replicated queue is.
    let mut old = world.link.take().expect("it stands");
    old.asking.disconnected(world.now);
    world.connect();
    let (queue, now) = (world.client.queue(), world.now.monotonic);
    let id = world.consumer.as_ref().expect("there is one").id;
    let bell = Arc::new(Bell::default());
    let NowOrLater::Later(added) = queue.consume(id, options(bell.clone()), now) else { panic!("the home is asked") };
    world.consumer = Some(Consumer { id, bell, added: Some(added), held: Vec::new() });
    world.publish();
    turns(&mut world, 200);
    assert!(!world.open.is_empty(), "nothing is carried out before");
    old.home.turn(world.now);
    assert!(old.home.is_finished(), "it is ended");
    old.home.disconnected(world.now);
    turns(&mut world, 400);
    assert!(world.open.is_empty() && world.delivered.len() == world.published as usize, "{:?}", world.delivered);
    assert_eq!(world.home.queue().look(Size { used: None }).1, 1, "one consumer");
}

/// Its node has lost sight of the queue's home for a moment.
#[test]
fn a_consumer_that_is_registered_twice_is_one() {
    let mut world = World::new(5);
    world.connect();
    let (id, run) = held_message(&mut world);
    let (queue, now) = (world.client.named("d"), world.now.monotonic);
    let count = |world: &World| world.home.named("d").look(Size { used: None });
    assert_eq!(count(&world), (0, 1));
    let bell = Arc::new(Bell::default());
    let NowOrLater::Later(added) = queue.consume(id, options(bell), now) else { panic!("the home is asked") };
    let mut taken: Vec<Taken> = Vec::new();
    for _ in 0..500 {
        world.now.monotonic += 1_000_000;
        world.home.work(world.now);
        world.link_turn();
        let _ = queue.take(id, Portion { messages: 1, bytes: 1000 }, world.now.monotonic, &mut taken);
    }
    assert!(matches!(added.take(), Some(Ok(()))), "it is added");
    assert_eq!(taken.iter().flat_map(Taken::runs).collect::<Vec<_>>(), [run], "what it doesn't name has returned");
    let _ = queue.leave(&[id], &[(Some(id), vec![run])], false, world.now.monotonic);
    for _ in 0..100 {
        world.now.monotonic += 1_000_000;
        world.link_turn();
    }
    assert_eq!(count(&world), (1, 0));
}

#[test]
fn consumers_of_two_starts_have_different_ids() {
    let now = Now::default();
    let id = |boot| {
        let settings = Settings { member: HOME, boot, ..Settings::default() };
        Node::with(settings, &metadata(), now).broker.fresh_consumer_id()
    };
    let ids = [id(1), id(2), id(65_535)];
    assert_eq!(BTreeSet::from(ids).len(), 3);
    assert!(ids.iter().all(|id| id.member() == HOME));
}

#[test]
fn a_transaction_that_cant_be_carried_out_is_not_done() {
    for is_held in [true, false] {
        let mut world = World::new(6);
        world.connect();
        let (id, run) = held_message(&mut world);
        let (queue, now, runs) = (world.client.named("d"), world.now.monotonic, [run]);
        let deliveries = Deliveries::of(Some(id), &runs);
        if !is_held {
            let _ = queue.settle(deliveries, Settlement::Requeue { failed: false }, Wait::Lazy, now);
        }
        let mut group = Group::new(queue.stream().id());
        queue.settle_in(&mut group, deliveries, Departure::Settled, now);
        let committed = group.commit(Wait::Confirm);
        for _ in 0..500 {
            world.now.monotonic += 1_000_000;
            world.home.work(world.now);
            world.link_turn();
        }
        let end = world.client.broker.streams.end(&committed);
        assert!(matches!((is_held, end), (true, Some(WaitEnd::Reached)) | (false, Some(WaitEnd::Gone))));
    }
}
