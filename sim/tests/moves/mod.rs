//! Moves of messages from one queue to another, and the verdict after a power cut.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};

use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::{Peek, QueueRef};
use leveret_broker::ticket::Ticket;
use leveret_broker::transfer::StoredRuns;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

/// Number of changes that the disk had seen.
pub(crate) type Stamp = usize;

/// The client's knowledge of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    published: Stamp,
    confirmed: Stamp,
    /// A move of it began.
    asked: Option<Stamp>,
    /// Its move was durable.
    moved: Option<Stamp>,
}

/// The messages that were published, each with the id of its place.
#[derive(Default)]
pub(crate) struct Story {
    known: Vec<Known>,
    /// The number of the first message in the queue that they are moved out of.
    pub(crate) first: u64,
}

pub(crate) fn queue(world: &World, name: &str) -> QueueRef {
    world.broker.registry.snapshot_full().queue("/", name).expect("it was declared").clone()
}

/// Runs the world until an answer is there.
fn wait<T>(world: &mut World, answers: &mpsc::Receiver<T>) -> Result<T, Failure> {
    loop {
        if let Ok(answer) = answers.try_recv() {
            return Ok(answer);
        }
        assert!(world.step()?, "the answer never comes");
    }
}

/// Reads a queue's messages from disk.
pub(crate) fn read(world: &mut World, queue: &QueueRef, from: u64) -> Result<StoredRuns, Failure> {
    let (sender, read) = mpsc::channel();
    world.broker.read_directly(queue, from, move |read| sender.send(read).expect("it is awaited"));
    Ok(wait(world, &read)?.expect("the disk works"))
}

/// The answer that a turn of the queue's core gives.
pub(crate) fn answer<T: Send + 'static>(world: &mut World, asked: NowOrLater<T>) -> Result<T, Failure> {
    let NowOrLater::Later(later) = asked else { panic!("it is made in a turn of the core") };
    let (sender, answers) = mpsc::channel();
    later.then(move |answer| sender.send(answer).unwrap_or_else(|_| panic!("it is awaited")));
    wait(world, &answers)
}

impl Story {
    /// Publishes the next message.
    pub(crate) fn publish(&mut self, world: &mut World, script: &Script, name: &str) -> Result<(), Failure> {
        let id = self.known.len() as u64;
        let mut know = Known { published: world.disk.count(), ..Known::default() };
        let length = [20, 700, 5_000, 12_000][world.random.below(4) as usize];
        let client = &mut world.links[script.link].amqp091().client;
        let last = client.publish(
            CHANNEL,
            Publication::to_queue(name.as_bytes(), &body(id, length)).with(&properties(id, true)).mandatory(),
        );
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        know.confirmed = world.disk.count();
        self.known.push(know);
        if id == 0 {
            while queue(world, name).gauges().ready == 0 {
                assert!(world.step()?, "it is never ready");
            }
            self.first = queue(world, name).look(Peek { offset: 0, count: 1 })[0].number;
        }
        Ok(())
    }

    /// A move of these messages begins.
    pub(crate) fn asked(&mut self, world: &World, ids: &BTreeSet<u64>) {
        let asked = world.disk.count();
        ids.iter().for_each(|id| self.known[*id as usize].asked = Some(asked));
    }

    /// The messages that aren't in their queue any more were moved, as many as the answer says; waits until that is durable.
    pub(crate) fn moved(
        &mut self,
        world: &mut World,
        (before, after): (&BTreeSet<u64>, &BTreeSet<u64>),
        (moved, ticket): (u64, Ticket),
    ) -> Result<(), Failure> {
        let gone: Vec<u64> = before.difference(after).copied().collect();
        assert!(moved > 0 && gone.len() as u64 == moved, "{moved} moved, {gone:?} are gone");
        while !world.broker.streams.is_durable(ticket) {
            assert!(world.step()?, "it never becomes durable");
        }
        gone.iter().for_each(|id| self.known[*id as usize].moved = Some(world.disk.count()));
        Ok(())
    }

    /// Checks the places of all messages at a moment. Returns how many had moved, and how many that were to move hadn't.
    pub(crate) fn judge(&self, at: Stamp, here: &BTreeSet<u64>, there: &BTreeSet<u64>) -> (u64, u64) {
        let (mut moved, mut not_yet) = (0, 0);
        for (id, known) in (0..).zip(&self.known) {
            let (here, there) = (here.contains(&id), there.contains(&id));
            assert!(!(here && there), "message {id} is in both places");
            assert!(known.confirmed > at || here || there, "message {id} is lost");
            assert!(known.published <= at || !here && !there, "message {id} was never published");
            let asked = known.asked.is_some_and(|asked| asked <= at);
            assert!(asked || !there, "message {id} moved without a request");
            let was_moved = known.moved.is_some_and(|moved| moved <= at);
            assert!(!was_moved || there, "message {id} has moved back");
            moved += u64::from(there);
            not_yet += u64::from(asked && !there);
        }
        (moved, not_yet)
    }
}

/// The messages of a queue that are ready.
pub(crate) fn drain(script: &Script, world: &mut World, queue: &str) -> BTreeSet<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{queue}: {failure}"));
    let ids: Vec<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let set: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "{queue}: a message is there twice: {ids:?}");
    set
}

/// Judges a world that starts after each moment of a disk from `ready` on. Returns the numbers of power cuts, of messages that had
/// moved, and of those that were to move and hadn't. The error is the first wrong verdict.
pub(crate) fn judge_all(
    (disk, ready): (&SimDisk, Stamp),
    seed: u64,
    judge: impl Fn(Stamp, &mut World, &Script) -> (u64, u64) + std::panic::RefUnwindSafe,
) -> Result<(u64, u64, u64), String> {
    let mut sums = (0, 0, 0);
    for (at, moment) in disk.moments().enumerate().filter(|(at, _)| *at >= ready) {
        let crash_seed = seed << 32 | at as u64;
        let crashed = moment.crash(crash_seed);
        let judged = std::panic::catch_unwind(|| {
            let started = World::start(Arc::new(crashed), small_log(), crash_seed);
            let (mut world, _) = started.unwrap_or_else(|failure| panic!("{failure}"));
            let script = Script::start(&mut world).unwrap_or_else(|failure| panic!("{failure}"));
            judge(at, &mut world, &script)
        });
        let (moved, not_yet) = judged.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            format!("seed {seed}, power cut after change {at}: {text}")
        })?;
        sums = (sums.0 + 1, sums.1 + moved, sums.2 + not_yet);
    }
    Ok(sums)
}

/// Enough was cut, and moved.
pub(crate) fn is_enough((cuts, moved, not_yet): (u64, u64, u64), what: &str) {
    println!("{what}: {cuts} power cuts, {moved} times moved, {not_yet} times not yet");
    assert!(cuts > 100 && moved > 100 && not_yet > 10, "{cuts} cuts, {moved} moved, {not_yet} not yet");
}
