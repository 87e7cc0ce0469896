//! Hot functions, each over a run of small messages, and clients that do something to very many things at once.

mod codec;
mod control;
mod conversion;
mod count;
mod crowd;
mod filter;
mod log;
mod queue;
mod routing;
mod session;

use crowd::among;
pub use crowd::turns;

/// The body of all messages.
const BODY: &[u8; 12] = b"twelve bytes";
/// Queue and routing key.
const QUEUE: &str = "my-classic-queue";
/// Messages of a function that is measured by itself.
const MESSAGES: u64 = 1_000;
/// Messages in one read of a socket.
const RUN: u64 = 100;
/// Wall time in milliseconds since the Unix epoch.
const NOW_MS: u64 = 1_700_000_000_000;

/// A name, and a function that returns the number of messages counted.
pub type Benchmark = (&'static str, fn() -> u64);

/// The benchmarks whose instructions are counted.
pub const BENCHMARKS: &[Benchmark] = &[
    ("amqp091-decode-publish", codec::decode_publish),
    ("amqp091-encode-deliver", codec::encode_deliver),
    ("amqp10-decode-transfer", codec::decode_transfer),
    ("amqp10-encode-transfer", codec::encode_transfer),
    ("convert-amqp091-to-amqp10", conversion::amqp091_to_amqp10),
    ("convert-amqp10-to-amqp091", conversion::amqp10_to_amqp091),
    ("store-amqp10", conversion::store_amqp10),
    ("filter-amqp091", filter::amqp091),
    ("filter-amqp10", filter::amqp10),
    ("route-default", routing::default),
    ("route-direct", routing::direct),
    ("route-fanout-10", routing::fanout),
    ("route-headers-10", routing::headers),
    ("route-topic-1000", routing::topic),
    ("queue-submit", queue::submit),
    ("queue-take", queue::take),
    ("queue-settle", queue::settle),
    ("queue-among-10-consumers", queue::among_10_consumers),
    ("queue-among-60000-consumers", queue::among_60000_consumers),
    ("queue-acknowledge-60000-consumers", queue::acknowledge_of_60000_consumers),
    ("among-10-consumers", among::consumers::<10>),
    ("among-60000-consumers", among::consumers::<60_000>),
    ("among-10-channels", among::channels::<10>),
    ("among-60000-channels", among::channels::<60_000>),
    ("among-10-links", among::links::<10>),
    ("among-60000-links", among::links::<60_000>),
    ("among-10-bindings", among::bindings::<10>),
    ("among-60000-bindings", among::bindings::<60_000>),
    ("among-10-deliveries", among::deliveries::<10>),
    ("among-60000-deliveries", among::deliveries::<60_000>),
    ("among-10-exclusive-queues", among::exclusive::<10>),
    ("among-60000-exclusive-queues", among::exclusive::<60_000>),
    ("control-import", control::import),
    ("control-import-unchanged", control::import_unchanged),
    ("control-export", control::export),
    ("control-list", control::list),
    ("control-list-names", control::list_names),
    ("control-policy", control::policy),
    ("control-end-of-vhost", control::end_of_vhost),
    ("log-append", log::append),
    ("log-retire", log::retire),
    ("session-amqp091-durable", session::amqp091_durable),
    ("session-amqp091-transient", session::amqp091_transient),
    ("session-amqp091-topics", session::amqp091_topics),
    ("session-amqp091-headers", session::amqp091_headers),
    ("session-amqp10-durable", session::amqp10_durable),
    ("session-amqp10-transient", session::amqp10_transient),
    ("session-amqp10-properties", session::amqp10_properties),
    ("session-amqp10-to-amqp091", session::amqp10_to_amqp091),
];
