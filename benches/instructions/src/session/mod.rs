//! The whole way through a broker, bytes in and bytes out: a strict client publishes, another one takes and settles,
//! and the disk is in memory. Counted is what the broker does, the log's bookkeeping included; clients and disk are not.

mod amqp091;
mod amqp10;
mod stage;

use stage::Line;
pub(crate) use stage::{Nobody, Stage};

/// Messages that are under way together, a window of the publisher and of the consumer.
const WINDOW: u64 = crate::RUN;
/// Windows before counting begins: buffers have grown and caches are filled by then.
const WARM_UP: u64 = 20;
const COUNTED: u64 = 20;
/// Routing keys of a publisher that has many.
const TOPICS: usize = 50;

/// What a client is here for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Publisher,
    Consumer,
}

/// A client of either protocol that opens what its role needs by itself.
trait Client {
    fn output(&mut self) -> &mut Vec<u8>;
    /// Takes what the broker wrote, as far as it goes; returns how many bytes.
    fn receive(&mut self, input: &[u8]) -> usize;
    /// Sends one message.
    fn publish(&mut self);
    /// Settles all that came, and asks for more.
    fn settle(&mut self);
    /// Messages that were confirmed, or came.
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
