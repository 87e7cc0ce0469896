//! Message annotations (AMQP 1.0, 3.2.3) in stored form, and the annotations that have a meaning for the broker.

/// The exchange that the message was published to; set by the broker.
pub const X_EXCHANGE: &str = "x-exchange";
/// The message's first routing key; set by the broker.
pub const X_ROUTING_KEY: &str = "x-routing-key";
/// The publisher's further routing keys: a list of strings.
pub const X_CC: &str = "x-cc";
/// The property `type` of AMQP 0-9-1.
pub const X_BASIC_TYPE: &str = "x-basic-type";
/// The deaths of a message, in AMQP 1.0.
pub const X_OPT_DEATHS: &str = "x-opt-deaths";
/// The deaths of a message, in AMQP 0-9-1.
pub const X_DEATH: &str = "x-death";
/// The reason of a message's first death, in AMQP 0-9-1.
pub(crate) const FIRST_DEATH_REASON: &str = "x-first-death-reason";
pub(crate) const FIRST_DEATH_QUEUE: &str = "x-first-death-queue";
pub(crate) const FIRST_DEATH_EXCHANGE: &str = "x-first-death-exchange";
/// The reason of its last death.
pub(crate) const LAST_DEATH_REASON: &str = "x-last-death-reason";
pub(crate) const LAST_DEATH_QUEUE: &str = "x-last-death-queue";
pub(crate) const LAST_DEATH_EXCHANGE: &str = "x-last-death-exchange";
/// The headers about the first and last death.
pub(crate) const DEATH_SUMMARY: [&str; 6] = [
    FIRST_DEATH_REASON,
    FIRST_DEATH_QUEUE,
    FIRST_DEATH_EXCHANGE,
    LAST_DEATH_REASON,
    LAST_DEATH_QUEUE,
    LAST_DEATH_EXCHANGE,
];
/// The time at which the message was received, in AMQP 1.0.
pub const X_OPT_RECEIVED_TIME: &str = "x-opt-rabbitmq-received-time";
/// The time at which the message was received, in AMQP 0-9-1.
pub const TIMESTAMP_IN_MS: &str = "timestamp_in_ms";

/// The time at which the message was sent to this receiver, in both protocols.
pub const X_OPT_SENT_TIME: &str = "x-opt-rabbitmq-sent-time";
/// Number of earlier deliveries from a quorum queue.
pub const X_ACQUIRED_COUNT: &str = "x-acquired-count";
/// How many of these failed.
pub const X_DELIVERY_COUNT: &str = "x-delivery-count";
/// The time before which a message isn't to be delivered (again), in both protocols.
pub const X_OPT_DELIVERY_TIME: &str = "x-opt-delivery-time";
/// The milliseconds for which a delayed exchange holds a message, in both protocols; negated once it has.
pub const X_DELAY: &str = "x-delay";
/// The token by which a consumer can fetch a message that it deferred.
pub const X_OPT_DEFERRAL_TOKEN: &str = "x-opt-deferral-token";
/// The number of messages of a stream right before this one that were skipped, because they can't be read.
pub const X_STREAM_SKIPPED: &str = "x-stream-skipped";
/// The offset of a message in the stream that it comes from, in both protocols.
pub const X_STREAM_OFFSET: &str = "x-stream-offset";
/// The node that received the message, in both protocols.
pub const X_ROUTED_BY: &str = "x-routed-by";

/// Whether a header or annotation of this name is part of the history of deaths. The broker's value then replaces the
/// publisher's.
pub(crate) fn is_of_deaths(name: &str) -> bool {
    name == X_OPT_DEATHS || DEATH_SUMMARY.contains(&name)
}

/// Whether only a broker's history of deaths sets an annotation of this name.
pub(crate) fn is_death_annotation(name: &str) -> bool {
    name == X_DEATH || is_of_deaths(name)
}

/// Descriptor of the section in its shortest form, which all clients use.
const DESCRIPTOR: [u8; 3] = [0x00, 0x53, 0x72];
const MAP_8: u8 = 0xc1;
const MAP_32: u8 = 0xd1;

/// The items of a stored message-annotations section, located without decoding them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RawAnnotations<'a> {
    /// Number of keys and values together.
    pub count: u32,
    /// The encoded keys and values.
    pub items: &'a [u8],
}

impl<'a> RawAnnotations<'a> {
    /// The items of a checked section; `None` if its descriptor has another form.
    #[inline]
    pub(crate) fn of(section: &'a [u8]) -> Option<Self> {
        if section.is_empty() {
            return Some(Self::default());
        }
        let map = section.strip_prefix(&DESCRIPTOR)?;
        match map {
            [MAP_8, _, count, items @ ..] => Some(Self { count: u32::from(*count), items }),
            [MAP_32, _, _, _, _, a, b, c, d, items @ ..] => {
                Some(Self { count: u32::from_be_bytes([*a, *b, *c, *d]), items })
            }
            _ => None,
        }
    }
}
