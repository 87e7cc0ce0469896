//! Power cuts after every change of the disk while streams are written, shortened, deleted and declared again. Each confirmed message is
//! at its offset for every reader of either protocol, unless retention removed it with all before it, and no offset is used again.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp10::performative::Attach;
use leveret_amqp10::{DeliveryState, OwnedValue, Role, Source, Target, TargetArchetype};
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::planted as broker;
use leveret_log as log;
use leveret_queue::planted as queue;
use leveret_sim::amqp10::{self, message};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::clock::Clock;
use leveret_sim::cuts;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::planted::Bug;
use leveret_sim::streams::extent;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp10::Send;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

/// Everything stays in it, whoever publishes: several connections, a transaction, a queue whose messages die.
const ALL: &str = "all";
/// It has a limit of bytes, and all its chunks have one length.
const SHORT: &str = "short";
const SHORT_BYTES: i64 = 12 << 10;
/// It has a limit of age.
const YOUNG: &str = "young";
const YOUNG_MS: u64 = 2_000;
/// It is deleted, and declared again.
const AGAIN: &str = "again";
/// The classic queue whose rejected messages go to [`ALL`].
const DYING: &str = "dying";
const STREAMS: [&str; 4] = [ALL, SHORT, YOUNG, AGAIN];

const ROUNDS: u64 = 45;
/// Rounds in which nothing is published to [`YOUNG`].
const IDLE: std::ops::Range<u64> = 22..32;
/// Length of a body in [`SHORT`].
const LENGTH: usize = 700;
/// Handles of the links of AMQP 1.0.
const SENDER: u32 = 0;
const COORDINATOR: u32 = 1;
const REJECTER: u32 = 2;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// The clients' knowledge of one message.
#[derive(Clone, Debug)]
struct Known {
    stream: &'static str,
    /// It is in the second stream of this name.
    is_again: bool,
    published: Stamp,
    published_ms: u64,
    confirmed: Stamp,
    /// It is in a transaction with the others that are.
    in_group: bool,
    /// It came from another queue, where it was rejected.
    has_died: bool,
}

/// The clients' knowledge, and the disk.
struct Trace {
    disk: Arc<SimDisk>,
    /// By id.
    known: Vec<Known>,
    /// When the streams were there.
    ready: Stamp,
    /// When the deletion of [`AGAIN`] was requested and done, and it was declared again.
    deletion: [Stamp; 3],
    /// The messages by offset, as they were read in the end: of each stream that isn't [`AGAIN`], and the offset of the first.
    read: Vec<(u64, Vec<u64>)>,
    /// Bytes of a chunk of [`SHORT`].
    chunk_bytes: u64,
    now_ms: u64,
}

fn wrong<T>(detail: String) -> Result<T, Failure> {
    Err(Failure::new(Check::NothingLost, detail))
}

fn text(text: &str) -> FieldValue {
    FieldValue::LongString(text.as_bytes().to_vec())
}

fn arguments(queue: &str) -> FieldTable {
    let mut table = FieldTable::new();
    if queue == DYING {
        table.insert("x-dead-letter-exchange", text(""));
        table.insert("x-dead-letter-routing-key", text(ALL));
        return table;
    }
    table.insert("x-queue-type", text("stream"));
    match queue {
        SHORT => drop(table.insert("x-max-length-bytes", FieldValue::I64(SHORT_BYTES))),
        YOUNG => drop(table.insert("x-max-age", text(&format!("{}s", YOUNG_MS / 1000)))),
        _ => {}
    }
    table
}

/// The clients of a trace.
struct Clients {
    publishers: [Script; 2],
    other: amqp10::script::Script,
    known: Vec<Known>,
}

impl Clients {
    fn start(world: &mut World) -> Result<Self, Failure> {
        let publishers = [Script::start(world)?, Script::start(world)?];
        for queue in STREAMS.into_iter().chain([DYING]) {
            publishers[0].declare(world, queue, &arguments(queue))?;
        }
        for script in &publishers {
            world.links[script.link].amqp091().client.confirm_select(CHANNEL);
            script.reply(world, "confirm.select-ok")?;
        }
        let mut other = amqp10::script::Script::start(world)?;
        other.sender(world, SENDER, &format!("/queues/{ALL}"))?;
        other.coordinator(world, COORDINATOR)?;
        other.receiver(world, REJECTER, &format!("/queues/{DYING}"))?;
        Ok(Self { publishers, other, known: Vec::new() })
    }

    /// Notes messages that are about to be published.
    fn note(&mut self, world: &World, stream: &'static str, count: usize) -> std::ops::Range<usize> {
        let first = self.known.len();
        let (published, published_ms) = (world.disk.count(), world.clock.now().wall_ms);
        let (is_again, in_group, has_died, confirmed) = (false, false, false, usize::MAX);
        let known = Known { stream, is_again, published, published_ms, confirmed, in_group, has_died };
        self.known.resize(first + count, known);
        first..first + count
    }

    /// Publishes messages over AMQP 0-9-1 and waits for their confirms.
    fn publish(
        &mut self,
        world: &mut World,
        by: usize,
        stream: &'static str,
        lengths: &[usize],
    ) -> Result<std::ops::Range<usize>, Failure> {
        let ids = self.note(world, stream, lengths.len());
        let script = &self.publishers[by];
        let mut last = 0;
        for (id, length) in ids.clone().zip(lengths) {
            // Messages with even ids have no message-id: they all have the same length.
            let properties = properties(if stream == SHORT { 0 } else { id as u64 }, true);
            let client = &mut world.links[script.link].amqp091().client;
            last = client.publish(
                CHANNEL,
                Publication::to_queue(stream.as_bytes(), &body(id as u64, *length)).with(&properties).mandatory(),
            );
        }
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        let confirmed = world.disk.count();
        self.known[ids.clone()].iter_mut().for_each(|known| known.confirmed = confirmed);
        Ok(ids)
    }

    /// Publishes messages in one transaction.
    fn publish_group(&mut self, world: &mut World, count: usize) -> Result<(), Failure> {
        let txn_id = self.other.declare(world, COORDINATOR)?;
        let ids = self.note(world, ALL, count);
        for id in ids.clone() {
            let payload = message::encode(id as u64, 2_000, true, None);
            let state = Some(DeliveryState::Transactional { txn_id: &txn_id, outcome: None });
            self.other.send(world, SENDER, &payload, &Send { state, ..Send::default() })?;
        }
        // Publishes of others end in other batches than the group began in.
        self.publish(world, 0, ALL, &[1_500, 1_500])?;
        self.other.discharge(world, COORDINATOR, &txn_id, false)?;
        let confirmed = world.disk.count();
        for known in &mut self.known[ids] {
            (known.confirmed, known.in_group) = (confirmed, true);
        }
        Ok(())
    }

    /// Lets a message die whose dead letter goes to [`ALL`].
    fn let_die(&mut self, world: &mut World) -> Result<(), Failure> {
        let ids = self.publish(world, 1, DYING, &[200])?;
        let received = self.other.receive(world, REJECTER)?;
        let (id, state) = (received.delivery_id, DeliveryState::Rejected { error: None });
        world.links[self.other.link].amqp10().client.dispose(0, id, id, false, Some(state));
        self.other.settled(world, Role::Sender, id)?;
        for known in &mut self.known[ids] {
            (known.stream, known.has_died) = (ALL, true);
        }
        Ok(())
    }

    /// Deletes [`AGAIN`] and declares it again. Returns when that was asked and done.
    fn delete(&mut self, world: &mut World) -> Result<[Stamp; 3], Failure> {
        let script = &self.publishers[0];
        let asked = world.disk.count();
        world.links[script.link].amqp091().client.delete_queue(CHANNEL, AGAIN.as_bytes());
        script.until(world, |heard| matches!(heard, Heard::Removed(..)).then_some(()))?;
        let done = world.disk.count();
        script.declare(world, AGAIN, &arguments(AGAIN))?;
        let declared = world.disk.count();
        let first = self.publish(world, 1, AGAIN, &[100, 100])?.start;
        self.publish(world, 0, AGAIN, &[400])?;
        self.known[first..].iter_mut().for_each(|known| known.is_again = true);
        Ok([asked, done, declared])
    }
}

/// Runs until this many milliseconds have passed.
fn rest(world: &mut World, ms: u64) -> Result<(), Failure> {
    let end = world.clock.nanos() + ms * 1_000_000;
    while world.step_until(end)? {}
    Ok(())
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let mut clients = Clients::start(world)?;
    let ready = disk.count();
    let (mut deletion, mut chunk_bytes) = ([0; 3], 0);
    for round in 0..ROUNDS {
        let by = (round % 2) as usize;
        let length = [20, 300, 2_500, 6_000][world.random.below(4) as usize];
        clients.publish(world, by, ALL, &[length, 30, 40])?;
        clients.publish(world, by, SHORT, &[LENGTH])?;
        if !IDLE.contains(&round) {
            clients.publish(world, by, YOUNG, &[50, 60])?;
        }
        if round % 2 == 0 {
            // Everything comes to rest, and in the end the stream with a limit of age is empty.
            rest(world, if round == IDLE.start { 2 * YOUNG_MS } else { 100 })?;
            chunk_bytes = if round == 0 { extent(world, SHORT).expect("it is there").2 } else { chunk_bytes };
            check_short(world, chunk_bytes, true)?;
        }
        match round {
            3 | 17 | 30 => clients.publish_group(world, 20)?,
            5 | 6 | 20 | 35 => clients.let_die(world)?,
            8 | 9 => _ = clients.publish(world, by, AGAIN, &[40, 500])?,
            25 => deletion = clients.delete(world)?,
            _ => {}
        }
    }
    let now_ms = world.clock.now().wall_ms;
    let mut read = Vec::new();
    for stream in STREAMS {
        let (first, next, _) = extent(world, stream).expect("it is there");
        let found = read_whole(world, stream, now_ms)?;
        if found.len() as u64 != next - first && stream != YOUNG {
            return wrong(format!("{stream}: {} messages from {first} to {next}", found.len()));
        }
        read.push((found.first().map_or(next, |(offset, _)| *offset), found.iter().map(|(_, id)| *id).collect()));
    }
    world.count_log();
    assert!(world.tally.count("retirements") > 0, "the trace crosses no retirement");
    Ok(Trace { disk, known: clients.known, ready, deletion, read, chunk_bytes, now_ms })
}

/// Checks that the stream with a limit of bytes has all that it may have, at rest, and no more once something was published.
fn check_short(world: &World, chunk_bytes: u64, is_used: bool) -> Result<(), Failure> {
    let Some((first, next, bytes)) = extent(world, SHORT) else { return wrong(format!("{SHORT} is gone")) };
    // The part of it that goes at once.
    let stretch = 4096 / chunk_bytes.max(1) * chunk_bytes;
    let is_right = bytes == (next - first) * chunk_bytes
        && (bytes <= SHORT_BYTES as u64 || !is_used)
        && (first == 0 || bytes + stretch > SHORT_BYTES as u64);
    if is_right {
        Ok(())
    } else {
        wrong(format!("{SHORT} has {first} to {next}, {bytes} bytes in chunks of {chunk_bytes}"))
    }
}

/// The number of messages in a stream; `None` if there is no such stream.
fn count(world: &mut World, stream: &str) -> Result<Option<usize>, Failure> {
    if extent(world, stream).is_none() {
        return Ok(None);
    }
    let script = Script::start(world)?;
    let passive = QueueDeclare { passive: true, ..QueueDeclare::default() };
    let client = &mut world.links[script.link].amqp091().client;
    client.declare_queue(CHANNEL, stream.as_bytes(), passive, &FieldTable::new());
    let count = script.until(world, |heard| match heard {
        Heard::Declared(_, count) => Some(count as usize),
        _ => None,
    })?;
    world.disconnect(script.link);
    Ok(Some(count))
}

/// Offsets and ids of `count` messages from a place on, read over AMQP 0-9-1.
fn read(world: &mut World, stream: &str, start: FieldValue, count: usize) -> Result<Vec<(u64, u64)>, Failure> {
    let script = Script::start(world)?;
    let client = &mut world.links[script.link].amqp091().client;
    client.qos(CHANNEL, 1_000, false);
    let mut arguments = FieldTable::new();
    arguments.insert(body::X_STREAM_OFFSET, start);
    client.consume(CHANNEL, stream.as_bytes(), b"reader", Consume::default(), &arguments);
    let mut found = Vec::new();
    script.until(world, |heard| {
        if let Heard::Delivered(received) = heard {
            found.push(offset_and_id(&received.content));
        }
        (found.len() >= count).then_some(())
    })?;
    world.disconnect(script.link);
    Ok(found)
}

/// The same over AMQP 1.0, from an offset on.
fn read_over_amqp10(world: &mut World, stream: &str, from: u64, count: usize) -> Result<Vec<(u64, u64)>, Failure> {
    let mut script = amqp10::script::Script::start(world)?;
    let (address, filter) = (format!("/queues/{stream}"), message::stream_offset(OwnedValue::Ulong(from)));
    let attach = Attach {
        name: "reader",
        handle: 0,
        role: Role::Receiver,
        source: Some(Source { address: Some(&address), filter: Some(filter.as_map()), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    let client = &mut world.links[script.link].amqp10().client;
    client.attach(amqp10::script::CHANNEL, &attach);
    client.grant(amqp10::script::CHANNEL, 0, count as u32, false);
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(script.until(world, |heard| match heard {
            amqp10::Heard::Delivered(received) => Some(offset_and_id(&received.content)),
            amqp10::Heard::Event(_) => None,
        })?);
    }
    world.disconnect(script.link);
    Ok(found)
}

fn offset_and_id(content: &leveret_sim::content::Content) -> (u64, u64) {
    let id = body::id(&content.body).expect("every body has one");
    assert_eq!(content.body, body(id, content.body.len()), "message {id} is damaged");
    assert!(!content.redelivered, "message {id} of a stream is flagged");
    (content.offset.expect("messages of streams have one"), id)
}

/// Reads a stream from the first message on over both protocols. The one with a limit of age may lose messages meanwhile.
fn read_whole(world: &mut World, stream: &str, now_ms: u64) -> Result<Vec<(u64, u64)>, Failure> {
    let Some(count) = count(world, stream)?.filter(|count| *count > 0) else { return Ok(Vec::new()) };
    let found = read(world, stream, text("first"), count)?;
    if !found.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1) {
        return wrong(format!("{stream} has gaps: {found:?}"));
    }
    let ids: BTreeSet<u64> = found.iter().map(|(_, id)| *id).collect();
    if ids.len() < found.len() {
        return wrong(format!("{stream} has a message twice: {found:?}"));
    }
    let other = read_over_amqp10(world, stream, found[0].0, count)?;
    if other != found {
        return wrong(format!("{stream} read over AMQP 1.0: {other:?}, over AMQP 0-9-1: {found:?}"));
    }
    assert!(world.clock.now().wall_ms < now_ms + YOUNG_MS, "reading takes no time");
    Ok(found)
}

/// Starts after a power cut, reads everything and judges it.
fn judge(trace: &Trace, at: Stamp, disk: SimDisk, seed: u64) -> Result<(), Failure> {
    let (mut world, _) = World::start_at(Clock::at(trace.now_ms), Arc::new(disk), small_log(), seed)?;
    let world = &mut world;
    let mut is_gone = false;
    for (stream, (from, ids)) in STREAMS.into_iter().zip(&trace.read) {
        let is_there = extent(world, stream).is_some();
        let found = read_whole(world, stream, trace.now_ms)?;
        if stream == AGAIN {
            judge_again(trace, at, is_there, &found)?;
            is_gone = !is_there;
            continue;
        }
        for (offset, id) in &found {
            let expected = offset.checked_sub(*from).and_then(|at| ids.get(at as usize));
            if trace.known[*id as usize].published > at || expected.is_some_and(|expected| expected != id) {
                return wrong(format!("{stream}: offset {offset} is message {id}, and was {expected:?}"));
            }
        }
        judge_losses(trace, at, stream, &found)?;
    }
    judge_dying(trace, at, world)?;
    if extent(world, SHORT).is_some_and(|(first, next, _)| first < next) {
        check_short(world, trace.chunk_bytes, false)?;
    }
    go_on(trace, at, world, is_gone)
}

/// Checks that all confirmed messages of a stream are there, except those that retention removed, and of a transaction all or none.
fn judge_losses(trace: &Trace, at: Stamp, stream: &str, found: &[(u64, u64)]) -> Result<(), Failure> {
    let ids: BTreeSet<u64> = found.iter().map(|(_, id)| *id).collect();
    let first = found.first().map_or(u64::MAX, |(_, id)| *id);
    let of_it = || (0u64..).zip(&trace.known).filter(|(_, known)| known.stream == stream);
    for (id, known) in of_it().filter(|(id, known)| known.confirmed <= at && !known.has_died && !ids.contains(id)) {
        let is_removed = match stream {
            SHORT => id < first,
            YOUNG => id < first && known.published_ms + YOUNG_MS < trace.now_ms,
            _ => false,
        };
        if !is_removed {
            return wrong(format!("{stream}: message {id} was confirmed, {known:?}, and is gone"));
        }
    }
    let mut groups: Vec<Vec<bool>> = Vec::new();
    for (id, known) in of_it().filter(|(_, known)| known.in_group) {
        let begins = id == 0 || !trace.known[id as usize - 1].in_group;
        if begins {
            groups.push(Vec::new());
        }
        assert!(known.published <= known.confirmed);
        groups.last_mut().expect("one was begun").push(ids.contains(&id));
    }
    match groups.iter().find(|group| group.iter().any(|is_there| *is_there != group[0])) {
        Some(group) => Err(Failure::new(Check::TransactionsAreWhole, format!("of a transaction, {group:?} are there"))),
        None => Ok(()),
    }
}

/// Checks the stream that was deleted: it is the old one or the new one, never both.
fn judge_again(trace: &Trace, at: Stamp, is_there: bool, found: &[(u64, u64)]) -> Result<(), Failure> {
    let [asked, done, declared] = trace.deletion;
    let is_new = |id: &u64| trace.known[*id as usize].is_again;
    let news = found.iter().filter(|(_, id)| is_new(id)).count();
    if (at < asked || at >= declared) && !is_there || (news != 0 && news != found.len()) {
        return wrong(format!("{AGAIN}: {is_there}, {news} of {} messages are new", found.len()));
    }
    if at < asked && news > 0 || at >= done && news < found.len() {
        return Err(Failure::new(Check::NothingComesBack, format!("{AGAIN}: {found:?}")));
    }
    if found.first().is_some_and(|(offset, _)| *offset != 0) {
        return wrong(format!("{AGAIN} begins at another offset than 0: {found:?}"));
    }
    let ids: BTreeSet<u64> = found.iter().map(|(_, id)| *id).collect();
    let stays = |known: &Known| known.is_again || at < asked;
    let of_it = (0u64..).zip(&trace.known).filter(|(_, known)| known.stream == AGAIN && stays(known));
    match of_it.into_iter().find(|(id, known)| known.confirmed <= at && !ids.contains(id)) {
        Some((id, known)) => wrong(format!("{AGAIN}: message {id} was confirmed, {known:?}, and is gone")),
        None => Ok(()),
    }
}

/// Checks that each confirmed message that died is where it died, or in the stream.
fn judge_dying(trace: &Trace, at: Stamp, world: &mut World) -> Result<(), Failure> {
    let script = Script::start(world)?;
    let dying = script.drain(world, DYING)?;
    let dying: BTreeSet<u64> = dying.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let found: BTreeSet<u64> = read_whole(world, ALL, trace.now_ms)?.into_iter().map(|(_, id)| id).collect();
    for (id, known) in (0u64..).zip(&trace.known).filter(|(_, known)| known.has_died) {
        let places = [&dying, &found].into_iter().filter(|ids| ids.contains(&id)).count();
        if places > 1 || places == 0 && known.confirmed <= at {
            return wrong(format!("dead letter {id} is in {places} places, {known:?}"));
        }
    }
    Ok(())
}

/// Publishes and reads more: offsets go on where they were, and the limits hold.
fn go_on(trace: &Trace, at: Stamp, world: &mut World, is_gone: bool) -> Result<(), Failure> {
    let script = Script::start(world)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    for round in 0..6u64 {
        for stream in STREAMS.into_iter().filter(|stream| *stream != AGAIN || !is_gone) {
            let (_, next, _) = extent(world, stream).expect("it was there");
            let is_confirmed = |known: &&Known| known.stream == stream && known.confirmed <= at && !known.has_died;
            let confirmed = trace.known.iter().filter(is_confirmed).count() as u64;
            if stream != AGAIN && next < confirmed {
                return wrong(format!("{stream}: {next} is the next offset, and {confirmed} messages were confirmed"));
            }
            let (id, client) = (1_000_000 + round, &mut world.links[script.link].amqp091().client);
            let tag = client.publish(
                CHANNEL,
                Publication::to_queue(stream.as_bytes(), &body(id, LENGTH)).with(&properties(0, true)).mandatory(),
            );
            script.until(world, |heard| match heard {
                Heard::Confirmed { last, positive: true, .. } if last >= tag => Some(()),
                _ => None,
            })?;
            let last = read(world, stream, text("last"), 1)?;
            if last != [(next, id)] {
                return wrong(format!("{stream}: the last chunk is {last:?}, {id} was published when {next} was next"));
            }
        }
        check_short(world, trace.chunk_bytes, true)?;
    }
    // Everything is too old in the end.
    let (_, next, _) = extent(world, YOUNG).expect("it was there");
    rest(world, YOUNG_MS + 2_000)?;
    match extent(world, YOUNG) {
        Some((first, after, 0)) if (first, after) == (next, next) => Ok(()),
        left => wrong(format!("{YOUNG} has {left:?} when everything is too old, and had offsets up to {next}")),
    }
}

/// Cuts the power at every `every`th change of a trace; returns the number of cuts.
fn cut(seed: u64, every: usize) -> Result<usize, Failure> {
    let trace = trace(seed)?;
    cuts::cut(&trace.disk, trace.ready, (seed, every), |at, survived| judge(&trace, at, survived, seed))
}

#[test]
fn streams_hold_after_a_cut_at_every_change() {
    let cuts = cut(1, 1).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{cuts} power cuts");
}

#[test]
fn streams_hold_after_cuts_in_several_traces() {
    for seed in 2..8 {
        let cuts = cut(seed, 9).unwrap_or_else(|failure| panic!("{failure}"));
        println!("seed {seed}: {cuts} power cuts");
    }
}

#[test]
fn planted_bugs_of_streams_are_caught() {
    let bugs = [
        Bug::Queue(queue::Bug::DropTooMuch),
        Bug::Queue(queue::Bug::OffByOne),
        Bug::Queue(queue::Bug::SkipOffset),
        Bug::Queue(queue::Bug::ForgetLastStretch),
        Bug::Broker(broker::Bug::ConfirmChunkEarly),
        Bug::Broker(broker::Bug::LoseJoined),
        Bug::Log(log::Bug::IgnoreGroupCommit),
    ];
    cuts::assert_caught(&bugs, 0..6, |seed| cut(seed, 3));
}
