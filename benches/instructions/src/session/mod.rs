//! The whole path through a broker, bytes in and bytes out: a strict client publishes, another one consumes and
//! settles, and the disk is in memory. The broker's work is counted, including the log's bookkeeping; clients and
//! disk are not.

mod amqp091;
mod amqp10;
mod stage;

use stage::Line;
pub(crate) use stage::{Nobody, Stage};

/// Messages in flight: the window of publisher and consumer.
const WINDOW: u64 = crate::RUN;
/// Windows before counting begins, in which buffers grow and caches are filled.
const WARM_UP: u64 = 20;
const COUNTED: u64 = 20;
/// Number of routing keys of a publisher with many.
const TOPICS: usize = 50;

/// The role of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Publisher,
    Consumer,
}

/// A client of either protocol that opens everything that its role needs.
trait Client {
    fn output(&mut self) -> &mut Vec<u8>;
    /// Processes bytes of the broker. Returns the number of bytes processed.
    fn receive(&mut self, input: &[u8]) -> usize;
    /// Sends one message.
    fn publish(&mut self);
    /// Settles all deliveries, and grants more credit if necessary.
    fn settle(&mut self);
    /// Number of messages confirmed or received.
    fn done(&self) -> u64;
}

pub(crate) fn amqp091_durable() -> u64 {
    through(amqp091::Client::new(Role::Publisher, true), amqp091::Client::new(Role::Consumer, true))
}

pub(crate) fn amqp091_transient() -> u64 {
    through(amqp091::Client::new(Role::Publisher, false), amqp091::Client::new(Role::Consumer, false))
}

/// All keys lead to one queue.
pub(crate) fn amqp091_topics() -> u64 {
    through(amqp091::Client::with_topics(), amqp091::Client::new(Role::Consumer, true))
}

pub(crate) fn amqp091_headers() -> u64 {
    through(amqp091::Client::with_header(), amqp091::Client::new(Role::Consumer, true))
}

pub(crate) fn amqp10_durable() -> u64 {
    through(amqp10::Client::new(Role::Publisher, true), amqp10::Client::new(Role::Consumer, true))
}

pub(crate) fn amqp10_transient() -> u64 {
    through(amqp10::Client::new(Role::Publisher, false), amqp10::Client::new(Role::Consumer, false))
}

/// With properties and application properties.
pub(crate) fn amqp10_properties() -> u64 {
    through(amqp10::Client::with_names(), amqp10::Client::new(Role::Consumer, true))
}

pub(crate) fn amqp10_to_amqp091() -> u64 {
    through(amqp10::Client::new(Role::Publisher, true), amqp091::Client::new(Role::Consumer, true))
}

fn through(publisher: impl Client, consumer: impl Client) -> u64 {
    let mut stage = Stage::new();
    let mut consumer = Line::new(&stage, 50_001, consumer);
    let mut publisher = Line::new(&stage, 50_002, publisher);
    for _ in 0..10 {
        publisher.step(&stage);
        consumer.step(&stage);
        stage.write();
    }
    for window in 1..=WARM_UP + COUNTED {
        stage.counts = window > WARM_UP;
        (0..WINDOW).for_each(|_| publisher.client.publish());
        publisher.step(&stage);
        stage.write();
        publisher.step(&stage);
        consumer.step(&stage);
        consumer.client.settle();
        consumer.step(&stage);
        let done = (publisher.client.done(), consumer.client.done());
        assert_eq!(done, (window * WINDOW, window * WINDOW), "confirmed and received");
    }
    COUNTED * WINDOW
}
