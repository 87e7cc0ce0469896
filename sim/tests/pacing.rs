//! Publishers and a consumer of several speeds: a queue whose consumer nearly keeps up stays short at full rate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::FieldTable;
use leveret_broker::queue_handle::{QueueRef, Status};
use leveret_queue::WaitReason;
use leveret_sim::amqp10;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::World;
use leveret_strict_client::amqp10::Send;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

const QUEUE: &str = "q";
const EXCHANGE: &str = "amq.fanout";
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
    /// Each message goes to all queues, not to one.
    to_all: bool,
    /// Index of its link.
    link: usize,
    ticker: Ticker,
    sent: u64,
}

impl Publisher {
    fn start(world: &mut World, way: Way, per_second: u64, to_all: bool) -> Result<Self, Failure> {
        let link = match way {
            Way::Confirms(_) | Way::Blind => Script::start(world)?.link,
            Way::Credit => {
                let mut script = amqp10::script::Script::start(world)?;
                let address = if to_all { format!("/exchanges/{EXCHANGE}") } else { format!("/queues/{QUEUE}") };
                script.sender(world, 0, &address)?;
                script.link
            }
        };
        if let Way::Confirms(_) = way {
            world.links[link].amqp091().client.confirm_select(CHANNEL);
            Script { link }.reply(world, "confirm.select-ok")?;
        }
        Ok(Self { way, to_all, link, ticker: Ticker::new(per_second, world.clock.nanos()), sent: 0 })
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
                let (exchange, key) = if self.to_all { (EXCHANGE, "") } else { ("", QUEUE) };
                let client = &mut link.amqp091().client;
                client.publish(
                    CHANNEL,
                    Publication::to(exchange.as_bytes(), key.as_bytes(), &body(id, 40)).with(&properties).mandatory(),
                );
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

/// A queue with its consumer.
struct Served {
    queue: QueueRef,
    consumer: Script,
    ticker: Ticker,
    /// Delivery tags that the consumer hasn't acknowledged.
    held: VecDeque<u64>,
    taken: u64,
    /// The least number of ready messages in each part.
    least: BTreeMap<u64, u64>,
    /// The number of messages taken in each long part.
    taken_in: BTreeMap<u64, u64>,
}

impl Served {
    /// Declares the queue, bound to the exchange of all queues, and consumes from it at this rate.
    fn start(world: &mut World, name: &str, per_second: u64) -> Result<Self, Failure> {
        let consumer = Script::start(world)?;
        let client = &mut world.links[consumer.link].amqp091().client;
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        client.declare_queue(CHANNEL, name.as_bytes(), flags, &FieldTable::new());
        consumer.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
        let client = &mut world.links[consumer.link].amqp091().client;
        client.bind_queue(CHANNEL, name.as_bytes(), EXCHANGE.as_bytes(), b"", &FieldTable::new());
        consumer.reply(world, "queue.bind-ok")?;
        let client = &mut world.links[consumer.link].amqp091().client;
        client.qos(CHANNEL, PREFETCH, false);
        let flags = Consume { no_ack: false, exclusive: false };
        client.consume(CHANNEL, name.as_bytes(), b"c", flags, &FieldTable::new());
        consumer.until(world, |heard| matches!(heard, Heard::Consumer(_)).then_some(()))?;
        Ok(Self {
            queue: world.broker.registry.snapshot_full().queue("/", name).cloned().expect("it was declared"),
            consumer,
            ticker: Ticker::new(per_second, world.clock.nanos()),
            held: VecDeque::new(),
            taken: 0,
            least: BTreeMap::new(),
            taken_in: BTreeMap::new(),
        })
    }

    /// Acknowledges a message if it is due, and looks at the queue's length.
    fn step(&mut self, world: &mut World, now: u64) {
        if self.ticker.is_due(now)
            && let Some(tag) = self.held.pop_front()
        {
            world.links[self.consumer.link].amqp091().client.ack(CHANNEL, tag, false);
            self.ticker.tick(now);
            self.taken += 1;
            *self.taken_in.entry(now / LONG_PART).or_default() += 1;
        }
        let ready = self.queue.gauges().ready;
        let least = self.least.entry(now / PART).or_insert(u64::MAX);
        *least = ready.min(*least);
    }

    fn listen(&mut self, world: &mut World) {
        for heard in world.links[self.consumer.link].amqp091().heard() {
            if let Heard::Delivered(received) = heard {
                self.held.push_back(received.tag);
            }
        }
    }

    /// The time that messages stood in all but the worst tenth of the parts.
    fn standing(&self, taken: u64) -> u64 {
        let mut least: Vec<u64> = self.least.values().copied().collect();
        least.sort_unstable();
        least[least.len() * 9 / 10] * 1_000_000_000 / taken.max(1)
    }
}

struct Scene {
    world: World,
    publishers: Vec<Publisher>,
    queues: Vec<Served>,
    next_id: u64,
}

impl Scene {
    /// A scene with a queue for each consumer; the first is that of messages which go to one.
    fn new(seed: u64, sync: u64, publishers: &[(Way, u64)], consumers: &[u64]) -> Result<Self, Failure> {
        let (mut world, _) = World::start(Arc::new(SimDisk::new()), leveret_log::Options::default(), seed)?;
        world.quicken(sync);
        let names = [QUEUE, "q2", "q3"];
        let queues = names.iter().zip(consumers).map(|(name, rate)| Served::start(&mut world, name, *rate));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        let to_all = consumers.len() > 1;
        let publishers = publishers.iter().map(|(way, rate)| Publisher::start(&mut world, *way, *rate, to_all));
        let publishers = publishers.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { world, publishers, queues, next_id: 0 })
    }

    fn step(&mut self) -> Result<(), Failure> {
        let now = self.world.clock.nanos();
        for publisher in &mut self.publishers {
            self.next_id += u64::from(publisher.publish(&mut self.world, self.next_id));
        }
        self.queues.iter_mut().for_each(|queue| queue.step(&mut self.world, now));
        let publishing = self.publishers.iter().map(|publisher| publisher.ticker.next);
        let times = publishing.chain(self.queues.iter().map(|queue| queue.ticker.next));
        let next = times.filter(|at| *at > now).min().unwrap_or(now + MS).min(now + MS);
        self.world.step_until(next)?;
        self.queues.iter_mut().for_each(|queue| queue.listen(&mut self.world));
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

/// The results of a run after its warm-up: messages per second of each publisher.
struct Shown {
    sent: Vec<u64>,
    queues: Vec<ShownQueue>,
}

/// A queue's messages per second in all and in the worst long part, and how long they stood.
struct ShownQueue {
    taken: u64,
    taken_at_worst: u64,
    standing: u64,
}

fn rate(count: u64, time: u64) -> u64 {
    count * 1_000_000_000 / time
}

/// Runs publishers with their rates, and a consumer with its rate for each queue. A sync takes `sync` nanoseconds.
fn run(seed: u64, sync: u64, publishers: &[(Way, u64)], consumers: &[u64]) -> Shown {
    let run = || -> Result<Shown, Failure> {
        let mut scene = Scene::new(seed, sync, publishers, consumers)?;
        let begin = scene.world.clock.nanos().next_multiple_of(LONG_PART);
        scene.run(begin + WARM_UP)?;
        let sent: Vec<_> = scene.publishers.iter().map(|one| one.sent).collect();
        for queue in &mut scene.queues {
            queue.taken = 0;
            queue.least.clear();
            queue.taken_in.clear();
        }
        scene.run(begin + END)?;
        let time = END - WARM_UP;
        let queues = scene.queues.iter_mut().map(|queue| {
            queue.taken_in.pop_last();
            let taken = rate(queue.taken, time);
            let taken_at_worst = rate(queue.taken_in.values().copied().min().unwrap_or(0), LONG_PART);
            ShownQueue { taken, taken_at_worst, standing: queue.standing(taken) }
        });
        let queues = queues.collect();
        let sent = scene.publishers.iter().zip(sent).map(|(one, before)| rate(one.sent - before, time)).collect();
        Ok(Shown { sent, queues })
    };
    run().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
}

const QUICK: u64 = MS / 2;
const WAYS: [Way; 3] = [Way::Confirms(100), Way::Blind, Way::Credit];

#[test]
fn a_queue_stays_short_at_the_rate_of_the_slower_side() {
    for way in WAYS {
        for (publisher, consumer) in [(11_000, 10_000), (15_000, 10_000), (10_000, 10_000), (10_000, 15_000)] {
            let shown = run(1, QUICK, &[(way, publisher)], &[consumer]);
            let ShownQueue { taken, taken_at_worst, standing } = shown.queues[0];
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
        let shown = run(2, QUICK, &[(way, 10_000)], &[3_000]);
        assert!(shown.sent[0] >= 9_500, "{way:?}: {}", shown.sent[0]);
    }
}

#[test]
fn paced_publishers_of_a_queue_starve_nobody() {
    let publishers = [(Way::Confirms(20), 5_000), (Way::Confirms(100), 5_000), (Way::Credit, 5_000)];
    let shown = run(3, QUICK, &publishers, &[10_000]);
    let ShownQueue { taken, standing, .. } = shown.queues[0];
    println!("{:?}, {taken} taken, {standing} ns", shown.sent);
    assert!(taken >= 9_500, "{taken}");
    assert!(standing <= 2 * TARGET, "{standing}");
    assert!(shown.sent.iter().all(|sent| *sent >= 2_500), "half of its rate at least: {:?}", shown.sent);
}

#[test]
fn messages_for_several_queues_stand_in_none_that_keeps_up() {
    for way in WAYS {
        let shown = run(8, QUICK, &[(way, 11_000)], &[10_000, 15_000, 10_000]);
        for ShownQueue { taken, taken_at_worst, standing } in shown.queues {
            let found = format!("{way:?}: {taken}/s, {taken_at_worst}/s, {standing} ns");
            println!("{found}");
            assert!(taken >= 9_500 && taken_at_worst >= 8_500, "{found}");
            assert!(standing <= 2 * TARGET, "{found}");
        }
    }
}

#[test]
fn a_slow_queue_takes_little_from_others_with_the_same_messages() {
    for way in WAYS {
        for slow in [8_500, 7_000, 5_800, 1_000] {
            let sent = run(9, QUICK, &[(way, 10_000)], &[slow, 15_000]).sent[0];
            println!("{way:?}, {slow}: {sent}");
            assert!(sent >= 8_500, "{way:?}, {slow}: {sent}");
        }
    }
}

#[test]
fn a_slow_disk_costs_no_rate() {
    for way in [Way::Confirms(1000), Way::Credit] {
        let shown = run(5, 10 * MS, &[(way, 11_000)], &[10_000]);
        assert!(shown.queues[0].taken >= 9_500, "{way:?}: {}", shown.queues[0].taken);
    }
}

#[test]
fn many_publishers_without_confirms_are_paced_together() {
    let shown = run(6, QUICK, &[(Way::Blind, 1_500); 8], &[10_000]);
    let ShownQueue { taken, standing, .. } = shown.queues[0];
    println!("{:?}, {taken} taken, {standing} ns", shown.sent);
    assert!(taken >= 9_500, "{taken}");
    assert!(standing <= 2 * TARGET, "{standing}");
}

#[test]
fn a_paced_queue_that_comes_to_rest_shows_it() {
    let mut scene = Scene::new(7, QUICK, &[(Way::Credit, 11_000)], &[10_000]).unwrap();
    let begin = scene.world.clock.nanos();
    scene.run(begin + WARM_UP).unwrap();
    assert!(waits(&scene).contains(&WaitReason::Pacing), "{:?}", waits(&scene));
    scene.publishers.clear();
    scene.run(begin + WARM_UP + 200 * MS).unwrap();
    assert!(!waits(&scene).contains(&WaitReason::Pacing));
}

#[test]
fn a_queue_whose_consumer_goes_lets_its_publishers_go() {
    let mut scene = Scene::new(4, QUICK, &[(Way::Confirms(100), 11_000)], &[10_000]).unwrap();
    let begin = scene.world.clock.nanos();
    scene.run(begin + WARM_UP).unwrap();
    assert!(waits(&scene).contains(&WaitReason::Pacing), "{:?}", waits(&scene));
    scene.world.links[scene.queues[0].consumer.link].amqp091().client.cancel(CHANNEL, b"c");
    scene.run(begin + WARM_UP + 100 * MS).unwrap();
    assert!(!waits(&scene).contains(&WaitReason::Pacing));
    let sent = scene.publishers[0].sent;
    scene.run(begin + WARM_UP + 300 * MS).unwrap();
    let sent = rate(scene.publishers[0].sent - sent, 200 * MS);
    assert!(sent >= 10_500, "{sent}");
}

fn waits(scene: &Scene) -> Vec<WaitReason> {
    scene.queues[0].queue.look(Status).expect("it is there").waits.iter().map(|wait| wait.reason).collect()
}
