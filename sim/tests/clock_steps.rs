//! The system's clock is set, by parts of a second and by hours, forward and back, while messages expire and wait for a time, and the power
//! is cut: everything goes by the new time as soon as the broker follows it, nothing leaves before its time, nothing is lost, and what
//! counts by the monotonic clock doesn't notice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::queue_handle::{SetAsideOf, Status};
use leveret_broker::{Nanos, SetAside};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties, timed_properties};
use leveret_sim::clock::Clock;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::random::Random;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

/// How often something happened.
type Counts = BTreeMap<&'static str, u64>;

/// The queue whose messages have no time.
const PLAIN: &str = "plain";
/// The queue whose messages have a time to live of their own.
const OWN: &str = "own";
/// The queue whose messages have the queue's time to live.
const ALL: &str = "all";
/// The quorum queue whose messages aren't delivered before a time.
const DELAYED: &str = "delayed";
/// A queue that nobody uses, with a time that counts by the monotonic clock: longer than a seed, and shorter than a step.
const UNUSED: &str = "unused";
const UNUSED_MS: i32 = 3 * HOUR_MS as i32;
const QUEUES: [&str; 4] = [PLAIN, OWN, ALL, DELAYED];

const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;
const ALL_TTL_MS: u64 = 20 * SECOND_MS;
const ROUNDS: u64 = 80;
/// A message is late if its time has been over for this long by the monotonic clock.
const LATE: Nanos = 1_000_000_000;
/// Readings of the clock that agree take this long, and a little.
const TAKEN_MS: u64 = 32 * SECOND_MS;

/// A message with a time, at which it leaves, or comes due.
struct Known {
    id: u64,
    /// The time is between these, in milliseconds of wall time.
    between_ms: (u64, u64),
    /// Whether wall time has been there, as early as it may be.
    may: bool,
    /// Since when wall time has been there, as late as it may be, by the monotonic clock of all lives.
    since: Option<Nanos>,
}

impl Known {
    fn look(&mut self, wall_ms: u64, now: Nanos) {
        self.may |= wall_ms >= self.between_ms.0;
        if wall_ms >= self.between_ms.1 {
            self.since.get_or_insert(now);
        }
    }

    fn must(&self, now: Nanos) -> bool {
        self.since.is_some_and(|since| since + LATE < now)
    }
}

struct Scene {
    world: World,
    disk: Arc<SimDisk>,
    script: Script,
    random: Random,
    /// Time of earlier lives.
    lived: Nanos,
    published: u64,
    /// By the queues of [`QUEUES`].
    known: [Vec<Known>; 4],
    counts: Counts,
}

fn text(text: &str) -> FieldValue {
    FieldValue::LongString(text.as_bytes().to_vec())
}

/// Properties with delivery mode 2 and a time to live.
fn expiring(ttl_ms: u64) -> Vec<u8> {
    let text = ttl_ms.to_string();
    [&[0x11, 0, 2, text.len() as u8][..], text.as_bytes()].concat()
}

impl Scene {
    fn new(seed: u64) -> Result<Self, Failure> {
        let disk = Arc::new(SimDisk::new());
        let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
        let script = Script::start(&mut world)?;
        let with = |key: &str, value| {
            let mut arguments = FieldTable::new();
            arguments.insert(key, value);
            arguments
        };
        script.declare(&mut world, PLAIN, &FieldTable::new())?;
        script.declare(&mut world, OWN, &FieldTable::new())?;
        script.declare(&mut world, ALL, &with("x-message-ttl", FieldValue::I32(ALL_TTL_MS as i32)))?;
        script.declare(&mut world, DELAYED, &with("x-queue-type", text("quorum")))?;
        script.declare(&mut world, UNUSED, &with("x-expires", FieldValue::I32(UNUSED_MS)))?;
        let random = Random::new(seed);
        let known = Default::default();
        let mut scene = Self { world, disk, script, random, lived: 0, published: 0, known, counts: Counts::new() };
        scene.confirm()?;
        Ok(scene)
    }

    fn confirm(&mut self) -> Result<(), Failure> {
        self.published = 0;
        self.world.links[self.script.link].amqp091().client.confirm_select(CHANNEL);
        self.script.reply(&mut self.world, "confirm.select-ok")
    }

    fn count(&mut self, kind: &'static str, count: u64) {
        *self.counts.entry(kind).or_default() += count;
    }

    fn now(&self) -> Nanos {
        self.lived + self.world.clock.nanos()
    }

    fn look(&mut self) {
        let (wall_ms, now) = (self.world.clock.now().wall_ms, self.now());
        self.known.iter_mut().flatten().for_each(|known| known.look(wall_ms, now));
    }

    /// Lets time pass; the cores meanwhile do the work that is due.
    fn pass(&mut self, ms: u64) -> Result<(), Failure> {
        let until = self.world.clock.nanos() + ms * 1_000_000;
        while self.world.clock.nanos() < until {
            let before_ms = self.world.broker.wall.epoch().ms();
            let next = until.min(self.world.clock.nanos() + 50_000_000);
            while self.world.step_until(next)? {}
            let by_ms = self.world.broker.wall.epoch().ms().wrapping_sub(before_ms).cast_signed();
            match by_ms {
                0 => {}
                -1 | 1 => self.count("milliseconds of wall time followed", 1),
                1.. => self.count("wall time set forward", 1),
                _ => self.count("wall time set back", 1),
            }
            self.look();
        }
        Ok(())
    }

    /// Publishes a message to each queue.
    fn publish(&mut self, id: u64) -> Result<(), Failure> {
        let before_ms = self.world.clock.now().wall_ms;
        let own_ms = [300, 5_000, 45_000, 2 * HOUR_MS][self.random.below(4) as usize];
        let due_ms = before_ms + [500, 30_000, HOUR_MS][self.random.below(3) as usize] + self.random.below(9_000);
        let of_each =
            [properties(id, true), expiring(own_ms), properties(id, true), timed_properties(id, true, due_ms)];
        for (queue, properties) in QUEUES.into_iter().zip(of_each) {
            let length = [20, 700, 5_000][self.random.below(3) as usize];
            let client = &mut self.world.links[self.script.link].amqp091().client;
            self.published = client.publish(
                CHANNEL,
                Publication::to_queue(queue.as_bytes(), &body(id, length)).with(&properties).mandatory(),
            );
        }
        let last = self.published;
        self.script.until(&mut self.world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        let after_ms = self.world.clock.now().wall_ms;
        let (early_ms, late_ms) = (before_ms.min(after_ms), before_ms.max(after_ms));
        let never = (u64::MAX, u64::MAX);
        let lives = |ttl_ms| (early_ms + ttl_ms, late_ms + ttl_ms);
        let times = [never, lives(own_ms), lives(ALL_TTL_MS), (due_ms, due_ms)];
        for (known, between_ms) in self.known.iter_mut().zip(times) {
            known.push(Known { id, between_ms, may: false, since: None });
        }
        self.look();
        Ok(())
    }

    fn cut_power(&mut self, seed: u64) -> Result<(), Failure> {
        self.lived = self.now();
        let now = self.lived;
        for (at, known) in self.known.iter_mut().enumerate() {
            // Coming due isn't logged, only kept by checkpoints: it may be decided anew.
            let is_delayed = QUEUES[at] == DELAYED;
            known.iter_mut().filter(|known| is_delayed || !known.must(now)).for_each(|known| known.since = None);
        }
        self.disk = Arc::new(self.disk.crash(seed));
        let clock = Clock::at(self.world.clock.system_ms());
        (self.world, _) = World::start_at(clock, self.disk.clone(), small_log(), seed)?;
        self.script = Script::start(&mut self.world)?;
        self.look();
        self.count("power cuts", 1);
        self.confirm()
    }

    /// Compares the queues with what is known of their messages.
    fn judge(&mut self) {
        let (snapshot, now) = (self.world.broker.registry.snapshot_full(), self.now());
        assert!(snapshot.queue("/", UNUSED).is_some(), "a queue was deleted because the clock was set");
        for (name, known) in QUEUES.into_iter().zip(&self.known) {
            let queue = snapshot.queue("/", name).expect("it was declared");
            let (ready, delayed) = (
                queue.look(Status).expect("it is there").ready as usize,
                queue.look(SetAsideOf(SetAside::Delayed)).0 as usize,
            );
            let may = known.iter().filter(|known| known.may).count();
            let must = known.iter().filter(|known| known.must(now)).count();
            let (least, most) = match name {
                DELAYED => (must, may),
                _ => (known.len() - may, known.len() - must),
            };
            assert!((least..=most).contains(&ready), "{name}: {ready} ready, not {least} to {most}");
            if name == DELAYED {
                assert_eq!(ready + delayed, known.len(), "{name}: some are lost, or there twice");
                *self.counts.entry("delayed messages seen").or_default() += delayed as u64;
            } else {
                *self.counts.entry("expired messages seen").or_default() += (known.len() - ready) as u64;
            }
        }
    }

    /// Takes all messages, and compares them one by one.
    fn end(&mut self) -> Result<(), Failure> {
        // All delays are over.
        self.world.clock.set_system(2 * HOUR_MS as i64 * 1_000_000);
        self.pass(TAKEN_MS)?;
        let latest_ms = self.known[3].iter().map(|known| known.between_ms.1).max().unwrap_or(0);
        let left_ms = latest_ms.saturating_sub(self.world.clock.now().wall_ms);
        self.world.clock.set_system(left_ms as i64 * 1_000_000);
        self.pass(TAKEN_MS + 2 * SECOND_MS)?;
        self.judge();
        for (at, name) in QUEUES.into_iter().enumerate() {
            let found = self.script.drain(&mut self.world, name)?;
            let found: Vec<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
            let unique: BTreeSet<u64> = found.iter().copied().collect();
            assert_eq!(unique.len(), found.len(), "{name}: a message came twice");
            let now = self.now();
            for known in &self.known[at] {
                let (is_there, id) = (unique.contains(&known.id), known.id);
                let ends = name != DELAYED && name != PLAIN;
                assert!(is_there || ends && known.may, "{name}: message {id} is lost, or left before its time");
                assert!(!is_there || !ends || !known.must(now), "{name}: message {id} is there after its time");
            }
        }
        Ok(())
    }
}

fn run(seed: u64) -> Result<(u64, Counts), Failure> {
    let mut scene = Scene::new(seed)?;
    for id in 0..ROUNDS {
        if scene.random.below(6) == 0 {
            let by_ms = [1, 300, 999, 1_000, 5_000, 60_000, HOUR_MS][scene.random.below(7) as usize] as i64;
            let sign = if scene.random.below(2) == 0 { 1 } else { -1 };
            scene.world.clock.set_system(sign * (by_ms * 1_000_000 + scene.random.below(1_000_000) as i64));
        }
        scene.publish(id)?;
        let pauses = [0, 200, 2_000, 12_000, 45_000];
        let ms = pauses[scene.random.below(pauses.len() as u64) as usize];
        scene.pass(ms)?;
        if scene.random.below(25) == 0 {
            let cut = seed ^ scene.random.next();
            scene.cut_power(cut)?;
        }
        scene.judge();
    }
    scene.end()?;
    Ok((scene.world.hash.value(), scene.counts))
}

#[test]
fn messages_go_by_the_time_to_which_the_clock_is_set() {
    let mut all = Counts::new();
    for seed in 0..24 {
        let ran = std::panic::catch_unwind(|| run(seed));
        let ran = ran.unwrap_or_else(|_| panic!("seed {seed}"));
        let (_, counts) = ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        counts.into_iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
    }
    for (kind, least) in [
        ("wall time set forward", 40),
        ("wall time set back", 20),
        ("milliseconds of wall time followed", 1_000),
        ("power cuts", 20),
        ("expired messages seen", 1_000),
        ("delayed messages seen", 1_000),
    ] {
        let count = all.get(kind).copied().unwrap_or(0);
        println!("{kind}: {count}");
        assert!(count >= least, "{kind}: {count}");
    }
}

#[test]
fn a_seed_sets_the_clock_at_the_same_moments_again() {
    assert_eq!(run(5).unwrap().0, run(5).unwrap().0);
}
