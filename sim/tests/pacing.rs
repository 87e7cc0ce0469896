//! Publishers and a consumer of several speeds: a queue whose consumer nearly keeps up stays short at full rate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::FieldTable;
use leveret_broker::queue_handle::QueueRef;
use leveret_queue::WaitReason;
use leveret_sim::amqp10;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::World;
use leveret_strict_client::amqp10::Send;
use leveret_strict_client::amqp091::{Consume, QueueDeclare};

const QUEUE: &str = "q";
const PREFETCH: u16 = 20;
const MS: u64 = 1_000_000;
/// [`leveret_broker::Settings::standing_delay_target`] by default.
const TARGET: u64 = MS;
/// Rates and delays are judged from here on.
const WARM_UP: u64 = 400 * MS;
const END: u64 = 1_000 * MS;
/// Lengths are looked at in parts of this duration, and rates in longer ones.
const PART: u64 = 20 * MS;
const LONG_PART: u64 = 100 * MS;

/// The way in which a publisher knows how much it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// AMQP 0-9-1, with at most so many unconfirmed.
    Confirms(usize),
    /// AMQP 0-9-1 without confirms.
    Blind,
    /// AMQP 1.0.
    Credit,
}

/// Something that happens at a rate: it doesn't catch up on more than a millisecond.
struct Ticker {
    interval: u64,
    next: u64,
}

impl Ticker {
    fn new(per_second: u64, now: u64) -> Self {
        Self { interval: 1_000_000_000 / per_second, next: now }
    }

    fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }

    fn tick(&mut self, now: u64) {
        self.next = self.next.max(now.saturating_sub(MS)) + self.interval;
    }
}

struct Publisher {
    way: Way,
    /// Index of its link.
    link: usize,
    ticker: Ticker,
    sent: u64,
}

impl Publisher {
    fn start(world: &mut World, way: Way, per_second: u64) -> Result<Self, Failure> {
        let link = match way {
            Way::Confirms(_) | Way::Blind => Script::start(world)?.link,
            Way::Credit => {
                let mut script = amqp10::script::Script::start(world)?;
                script.sender(world, 0, &format!("/queues/{QUEUE}"))?;
                script.link
            }
        };
        if let Way::Confirms(_) = way {
            world.links[link].amqp091().client.confirm_select(CHANNEL);
            Script { link }.reply(world, "confirm.select-ok")?;
        }
        Ok(Self { way, link, ticker: Ticker::new(per_second, world.clock.nanos()), sent: 0 })
    }

    /// Publishes a message if it is due and allowed.
    fn publish(&mut self, world: &mut World, id: u64) -> bool {
        let now = world.clock.nanos();
        if !self.ticker.is_due(now) {
            return false;
        }
        let link = &mut world.links[self.link];
        let is_sent = match self.way {
            Way::Confirms(window) if link.amqp091().client.unconfirmed(CHANNEL) >= window => false,
            // Its socket is full.
            Way::Blind if link.amqp091().client.output().len() > 4096 => false,
            Way::Confirms(_) | Way::Blind => {
                let properties = properties(id, self.way != Way::Blind);
                link.amqp091().client.publish(CHANNEL, b"", QUEUE.as_bytes(), true, &properties, &body(id, 40));
                true
            }
            Way::Credit => {
                let mut message = Vec::new();
                Header { durable: Some(true), ..Header::default() }.encode(&mut message);
                write_data(&mut message, &body(id, 40));
                let client = &mut link.amqp10().client;
                client.credit(0, 0) > 0 && client.send(0, 0, &id.to_be_bytes(), &message, &Send::default()).is_some()
            }
        };
        if is_sent {
            self.ticker.tick(now);
            self.sent += 1;
        }
        is_sent
    }

    /// Forgets what it hears: its client counts.
    fn listen(&self, world: &mut World) {
        match self.way {
            Way::Confirms(_) | Way::Blind => drop(world.links[self.link].amqp091().heard()),
            Way::Credit => drop(world.links[self.link].amqp10().heard()),
        }
    }
}

struct Scene {
    world: World,
    publishers: Vec<Publisher>,
    consumer: Script,
    ticker: Ticker,
    /// Delivery tags that the consumer hasn't acknowledged.
    held: VecDeque<u64>,
    next_id: u64,
    taken: u64,
    queue: QueueRef,
    /// The least number of ready messages in each part.
    least: BTreeMap<u64, u64>,
    /// The number of messages taken in each long part.
    taken_in: BTreeMap<u64, u64>,
}

impl Scene {
    fn new(seed: u64, sync: u64, publishers: &[(Way, u64)], consumer: u64) -> Result<Self, Failure> {
        let (mut world, _) = World::start(Arc::new(SimDisk::new()), leveret_log::Options::default(), seed)?;
        world.quicken(sync);
        let script = Script::start(&mut world)?;
        let client = &mut world.links[script.link].amqp091().client;
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        client.declare_queue(CHANNEL, QUEUE.as_bytes(), flags, &FieldTable::new());
        script.until(&mut world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
        let client = &mut world.links[script.link].amqp091().client;
        client.qos(CHANNEL, PREFETCH, false);
        client.consume(
            CHANNEL,
            QUEUE.as_bytes(),
            b"c",
            Consume { no_ack: false, exclusive: false },
            &FieldTable::new(),
        );
        script.until(&mut world, |heard| matches!(heard, Heard::Consumer(_)).then_some(()))?;
        let publishers = publishers.iter().map(|(way, rate)| Publisher::start(&mut world, *way, *rate));
        let publishers = publishers.collect::<Result<Vec<_>, _>>()?;
        let ticker = Ticker::new(consumer, world.clock.nanos());
        let queue = world.broker.registry.snapshot_full().queue("/", QUEUE).cloned().expect("it was declared");
        Ok(Self {
            world,
            publishers,
            consumer: script,
            ticker,
            held: VecDeque::new(),
            next_id: 0,
            taken: 0,
            queue,
            least: BTreeMap::new(),
            taken_in: BTreeMap::new(),
        })
    }

    fn step(&mut self) -> Result<(), Failure> {
        let now = self.world.clock.nanos();
        for publisher in &mut self.publishers {
            self.next_id += u64::from(publisher.publish(&mut self.world, self.next_id));
        }
        if self.ticker.is_due(now)
            && let Some(tag) = self.held.pop_front()
        {
            self.world.links[self.consumer.link].amqp091().client.ack(CHANNEL, tag, false);
            self.ticker.tick(now);
            self.taken += 1;
            *self.taken_in.entry(now / LONG_PART).or_default() += 1;
        }
        let ready = self.queue.gauges().ready;
        let least = self.least.entry(now / PART).or_insert(u64::MAX);
        *least = ready.min(*least);
        let times = self.publishers.iter().map(|publisher| publisher.ticker.next).chain([self.ticker.next]);
        let next = times.filter(|at| *at > now).min().unwrap_or(now + MS).min(now + MS);
        self.world.step_until(next)?;
        for heard in self.world.links[self.consumer.link].amqp091().heard() {
            if let Heard::Delivered(received) = heard {
                self.held.push_back(received.tag);
            }
        }
        self.publishers.iter().for_each(|publisher| publisher.listen(&mut self.world));
        Ok(())
    }

    fn run(&mut self, until: u64) -> Result<(), Failure> {
        while self.world.clock.nanos() < until {
            self.step()?;
        }
        Ok(())
    }
}

/// The results of a run after its warm-up: messages per second of each publisher and of the consumer in all and in the worst long
/// part, and the time that messages stood in all but the worst tenth of the parts.
struct Shown {
    sent: Vec<u64>,
    taken: u64,
    taken_at_worst: u64,
    standing: u64,
}

fn rate(count: u64, time: u64) -> u64 {
    count * 1_000_000_000 / time
}

/// Runs publishers with their rates, and a consumer with its rate. A sync takes `sync` nanoseconds.
fn run(seed: u64, sync: u64, publishers: &[(Way, u64)], consumer: u64) -> Shown {
    let run = || -> Result<Shown, Failure> {
        let mut scene = Scene::new(seed, sync, publishers, consumer)?;
        let begin = scene.world.clock.nanos().next_multiple_of(LONG_PART);
        scene.run(begin + WARM_UP)?;
        let (sent, taken): (Vec<_>, _) = (scene.publishers.iter().map(|one| one.sent).collect(), scene.taken);
        scene.least.clear();
        scene.taken_in.clear();
        scene.run(begin + END)?;
        scene.taken_in.pop_last();
        let time = END - WARM_UP;
        let taken = rate(scene.taken - taken, time);
        let mut least: Vec<u64> = scene.least.into_values().collect();
        least.sort_unstable();
        Ok(Shown {
            sent: scene.publishers.iter().zip(sent).map(|(one, before)| rate(one.sent - before, time)).collect(),
            taken,
            taken_at_worst: rate(scene.taken_in.into_values().min().unwrap_or(0), LONG_PART),
            standing: least[least.len() * 9 / 10] * 1_000_000_000 / taken.max(1),
        })
    };
    run().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
}

const QUICK: u64 = MS / 2;
const WAYS: [Way; 3] = [Way::Confirms(100), Way::Blind, Way::Credit];

#[test]
fn a_queue_stays_short_at_the_rate_of_the_slower_side() {
    for way in WAYS {
        for (publisher, consumer) in [(11_000, 10_000), (15_000, 10_000), (10_000, 10_000), (10_000, 15_000)] {
            let shown = run(1, QUICK, &[(way, publisher)], consumer);
            let Shown { taken, taken_at_worst, standing, .. } = shown;
            let slower = publisher.min(consumer);
            let found = format!("{way:?}, {publisher}/{consumer}: {taken}/s, {taken_at_worst}/s, {standing} ns");
            println!("{found}");
            assert!(taken >= slower * 95 / 100, "{found}");
            assert!(taken_at_worst >= slower * 85 / 100, "it oscillates: {found}");
            assert!(standing <= 2 * TARGET, "{found}");
        }
    }
}

#[test]
fn a_consumer_slower_than_half_holds_nobody_back() {
    for way in WAYS {
        let shown = run(2, QUICK, &[(way, 10_000)], 3_000);
        assert!(shown.sent[0] >= 9_500, "{way:?}: {}", shown.sent[0]);
    }
}

#[test]
fn paced_publishers_of_a_queue_starve_nobody() {
    let publishers = [(Way::Confirms(20), 5_000), (Way::Confirms(100), 5_000), (Way::Credit, 5_000)];
    let shown = run(3, QUICK, &publishers, 10_000);
    println!("{:?}, {} taken, {} ns", shown.sent, shown.taken, shown.standing);
    assert!(shown.taken >= 9_500, "{}", shown.taken);
    assert!(shown.standing <= 2 * TARGET, "{}", shown.standing);
    assert!(shown.sent.iter().all(|sent| *sent >= 2_500), "half of its rate at least: {:?}", shown.sent);
}

#[test]
fn a_slow_disk_costs_no_rate() {
    for way in [Way::Confirms(1000), Way::Credit] {
        let shown = run(5, 10 * MS, &[(way, 11_000)], 10_000);
        assert!(shown.taken >= 9_500, "{way:?}: {}", shown.taken);
    }
}

#[test]
fn many_publishers_without_confirms_are_paced_together() {
    let shown = run(6, QUICK, &[(Way::Blind, 1_500); 8], 10_000);
    println!("{:?}, {} taken, {} ns", shown.sent, shown.taken, shown.standing);
    assert!(shown.taken >= 9_500, "{}", shown.taken);
    assert!(shown.standing <= 2 * TARGET, "{}", shown.standing);
}

#[test]
fn a_paced_queue_that_comes_to_rest_shows_it() {
    let mut scene = Scene::new(7, QUICK, &[(Way::Credit, 11_000)], 10_000).unwrap();
    let begin = scene.world.clock.nanos();
    scene.run(begin + WARM_UP).unwrap();
    assert!(waits(&scene).contains(&WaitReason::Pacing), "{:?}", waits(&scene));
    scene.publishers.clear();
    scene.run(begin + WARM_UP + 200 * MS).unwrap();
    assert!(!waits(&scene).contains(&WaitReason::Pacing));
}

#[test]
fn a_queue_whose_consumer_goes_lets_its_publishers_go() {
    let mut scene = Scene::new(4, QUICK, &[(Way::Confirms(100), 11_000)], 10_000).unwrap();
    let begin = scene.world.clock.nanos();
    scene.run(begin + WARM_UP).unwrap();
    assert!(waits(&scene).contains(&WaitReason::Pacing), "{:?}", waits(&scene));
    scene.world.links[scene.consumer.link].amqp091().client.cancel(CHANNEL, b"c");
    scene.run(begin + WARM_UP + 100 * MS).unwrap();
    assert!(!waits(&scene).contains(&WaitReason::Pacing));
    let sent = scene.publishers[0].sent;
    scene.run(begin + WARM_UP + 300 * MS).unwrap();
    let sent = rate(scene.publishers[0].sent - sent, 200 * MS);
    assert!(sent >= 10_500, "{sent}");
}

fn waits(scene: &Scene) -> Vec<WaitReason> {
    scene.queue.status().waits.iter().map(|wait| wait.reason).collect()
}
