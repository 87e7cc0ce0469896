use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Arguments, ConnectionId, Deduplication, EarlierPriorities, Home, QueueId, QueueType, Refused, RefusedKind, Value,
    queue_arguments,
};

/// The names of queues in which the broker keeps records for clients of MQTT begin with this.
pub const RECORDS_PREFIX: &str = "amq.mqtt.";

/// A declared queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Id of this incarnation.
    pub id: QueueId,
    /// The vhost it belongs to.
    pub vhost: Arc<str>,
    /// Its name there.
    pub name: Arc<str>,
    /// Whether it was declared durable.
    pub durable: bool,
    /// Whether it is deleted with its last consumer.
    pub auto_delete: bool,
    /// The connection that declared it exclusive. No other connection may use it, and it is deleted with the
    /// connection. No record of a node that is alone has it, since such a queue isn't logged; entries of a cluster do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive_owner: Option<ConnectionId>,
    /// The arguments of the declaration, with the type that RabbitMQ adds.
    pub arguments: Arguments,
    /// The user who declared it; empty for the broker itself, and for queues declared before this was recorded.
    #[serde(default = "nobody", skip_serializing_if = "str::is_empty")]
    pub declared_by: Arc<str>,
    /// The type of the queue.
    #[serde(rename = "type", default, skip_serializing_if = "is_default")]
    pub queue_type: QueueType,
    /// The place of its messages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub home: Home,
    /// The exchange whose messages wait in it: a delayed one, or one that drops duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays_for: Option<Arc<str>>,
    /// The recent history exchange whose last messages it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_of: Option<Arc<str>>,
    /// The priorities of messages from before it was converted, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_priorities: Vec<EarlierPriorities>,
    /// The options that its own arguments give. Policies may change them: see [`crate::EffectiveQueue`].
    #[serde(skip)]
    pub options: QueueOptions,
}

impl Queue {
    /// A durable queue of the broker itself, which neither an exchange nor a connection owns.
    pub(crate) fn durable(
        id: QueueId,
        vhost: Arc<str>,
        name: Arc<str>,
        arguments: Arguments,
        options: QueueOptions,
    ) -> Queue {
        Queue {
            id,
            vhost,
            name,
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments,
            declared_by: nobody(),
            queue_type: options.queue_type,
            home: Home::default(),
            delays_for: None,
            history_of: None,
            earlier_priorities: Vec::new(),
            options,
        }
    }
}

fn nobody() -> Arc<str> {
    "".into()
}

/// Whether a record omits the field. A record of a release without the field then reads the same.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Queue {
    /// Whether it survives a restart: durable and not exclusive.
    pub fn is_logged(&self) -> bool {
        self.durable && self.exclusive_owner.is_none()
    }

    /// The type of the queue.
    pub fn queue_type(&self) -> QueueType {
        self.queue_type
    }

    /// The meaning of a confirm, on a node whose queues have the durability `default` unless they are declared
    /// otherwise.
    pub fn durability(&self, default: Durability) -> Durability {
        match self.is_logged() {
            true if self.queue_type == QueueType::Quorum => Durability::Synced,
            // Nothing of a stream is only in memory.
            true if self.queue_type == QueueType::Stream && default == Durability::Memory => {
                self.options.durability.unwrap_or(Durability::Synced)
            }
            true => self.options.durability.unwrap_or(default),
            false => Durability::Memory,
        }
    }

    /// Checks whether its messages can be purged.
    ///
    /// # Errors
    /// 540: messages leave a stream by its retention only.
    pub fn check_purge(&self) -> Result<(), Refused> {
        self.check_not_stream("queue.purge")
    }

    /// Refuses a method that streams don't have.
    fn check_not_stream(&self, method: &str) -> Result<(), Refused> {
        match self.queue_type {
            QueueType::Stream => Err(Refused::new(
                RefusedKind::WrongQueueType,
                format!("{method} not supported by stream queues queue '{}' in vhost '{}'", self.name, self.vhost),
            )),
            QueueType::Classic | QueueType::Quorum => Ok(()),
        }
    }

    /// Checks whether single messages can be got from it, without a consumer.
    ///
    /// # Errors
    /// 540: it is a stream. 405: it is a quorum queue with a single active consumer, which a get would pass over.
    pub fn check_get(&self) -> Result<(), Refused> {
        self.check_not_stream("basic.get")?;
        match self.options.single_active_consumer && self.queue_type == QueueType::Quorum {
            true => Err(Refused::new(
                RefusedKind::ResourceLocked,
                format!(
                    "cannot obtain access to locked queue '{}' in vhost '{}'. basic.get operations are not supported by \
                     {} queues with single active consumer",
                    self.name,
                    self.vhost,
                    self.queue_type.name()
                ),
            )),
            false => Ok(()),
        }
    }

    /// The exchange that it comes and goes with. Only that exchange puts messages into it.
    pub fn exchange(&self) -> Option<&Arc<str>> {
        self.delays_for.as_ref().or(self.history_of.as_ref())
    }

    /// Whether it is the broker's own: it comes and goes with an exchange, or keeps records of a protocol. Policies don't apply to it.
    pub fn is_own(&self) -> bool {
        self.exchange().is_some() || self.keeps_records()
    }

    /// Whether its messages are records of the broker. Clients can't declare a queue with such a name: `amq.` is reserved.
    fn keeps_records(&self) -> bool {
        self.name.starts_with(RECORDS_PREFIX)
    }

    /// Refuses what would take messages of an exchange out of its queue, or put others in.
    ///
    /// # Errors
    /// 403: it is the queue of an exchange.
    pub fn check_ordinary(&self) -> Result<(), Refused> {
        if self.keeps_records() {
            return Err(Refused::access(format!(
                "operation not permitted on queue '{}' in vhost '{}': it holds the broker's records of MQTT, and can only be looked at \
                 over HTTP",
                self.name, self.vhost
            )));
        }
        let Some(exchange) = self.exchange() else { return Ok(()) };
        let which = match (&self.history_of, &self.options.deduplication) {
            (Some(_), _) => "last",
            (None, Some(_)) => "new",
            (None, None) => "delayed",
        };
        Err(Refused::access(format!(
            "operation not permitted on queue '{}' in vhost '{}': it holds the {which} messages of exchange '{exchange}', and can \
             only be looked at and purged over HTTP",
            self.name, self.vhost
        )))
    }

    /// Whether it belongs to a connection.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive_owner.is_some()
    }
}

/// The guarantee that a confirm gives for a persistent message in a queue that survives a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The message is flushed to disk: it survives a power cut.
    #[default]
    Synced,
    /// The message is written to the operating system: it survives a crash of the process, but maybe not a power cut.
    Os,
    /// The message is only in memory: it doesn't survive a restart.
    Memory,
}

impl Durability {
    /// All of them, the strongest first.
    pub const ALL: [Durability; 3] = [Durability::Synced, Durability::Os, Durability::Memory];

    /// The name in arguments and configuration keys.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Synced => "synced",
            Durability::Os => "os",
            Durability::Memory => "memory",
        }
    }

    /// The durability with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|durability| durability.name() == name)
    }
}

/// The behaviour of a queue when a message would exceed its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drops messages from the head.
    #[default]
    DropHead,
    /// Refuses the new message.
    RejectPublish,
    /// Refuses the new message and dead-letters it.
    RejectPublishDlx,
}

impl Overflow {
    /// The behaviour with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "drop-head" => Some(Overflow::DropHead),
            "reject-publish" => Some(Overflow::RejectPublish),
            "reject-publish-dlx" => Some(Overflow::RejectPublishDlx),
            _ => None,
        }
    }
}

/// The returned messages of a quorum queue that are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryType {
    /// All that come back.
    All,
    /// Messages whose delivery failed.
    Failed,
    /// Messages that were returned without a failure.
    Returned,
}

impl RetryType {
    /// The type with this name; `None` for `disabled`, and for any other name, as in RabbitMQ.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "all" => Some(RetryType::All),
            "failed" => Some(RetryType::Failed),
            "returned" => Some(RetryType::Returned),
            _ => None,
        }
    }

    /// The name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            RetryType::All => "all",
            RetryType::Failed => "failed",
            RetryType::Returned => "returned",
        }
    }

    fn delays(self, failed: bool) -> bool {
        match self {
            RetryType::All => true,
            RetryType::Failed => failed,
            RetryType::Returned => !failed,
        }
    }
}

/// Delays between the attempts to deliver a message of a quorum queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedRetry {
    /// The messages that are delayed.
    pub retries: RetryType,
    /// The delay after the first failure, in milliseconds. Further ones are as many times longer.
    pub min_ms: u64,
    /// The longest delay, in milliseconds.
    pub max_ms: u64,
}

impl DelayedRetry {
    /// The delay of a message in milliseconds that comes back from a delivery, which `failed` or not, and has failed so often
    /// altogether. One that never failed waits as after the first failure, as in RabbitMQ 4.3.
    pub fn delay_ms(&self, failed: bool, failures: u32) -> Option<u64> {
        let delay_ms = self.min_ms.saturating_mul(u64::from(failures.max(1))).min(self.max_ms);
        self.retries.delays(failed).then_some(delay_ms)
    }

    /// The delays of these arguments; `None` if there are none. A minimum has to be positive, and the maximum is the minimum unless
    /// it is positive.
    fn effective(arguments: &Arguments) -> Option<Self> {
        let positive = |key| {
            let number = arguments.get(key).and_then(Value::as_int);
            number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
        };
        let retries = RetryType::parse(arguments.get("x-delayed-retry-type")?.as_str()?)?;
        let min_ms = positive("x-delayed-retry-min")?;
        Some(Self { retries, min_ms, max_ms: positive("x-delayed-retry-max").unwrap_or(min_ms) })
    }
}

/// Settings of dead-lettering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterOptions {
    /// Name of the exchange; empty for the default one. It needn't exist.
    pub exchange: Arc<str>,
    /// The routing key of dead letters; without one they keep their own.
    pub routing_key: Option<Arc<str>>,
    /// Whether dead letters wait until queues take them, instead of being dropped: `x-dead-letter-strategy` = `at-least-once`.
    pub at_least_once: bool,
}

/// The meaning of arguments to a queue: of those of its declaration, or of those that are effective with policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// The type of the queue.
    pub queue_type: QueueType,
    /// Maximum number of ready messages.
    pub max_length: Option<u64>,
    /// Maximum of the body bytes of all ready messages; of a stream, maximum of the bytes of its chunks.
    pub max_length_bytes: Option<u64>,
    /// Milliseconds after which the messages of a stream leave it.
    pub max_age_ms: Option<u64>,
    /// Bytes of a Bloom filter in a stream's chunks.
    pub stream_filter_bytes: u8,
    /// The highest priority of messages; `None` if the queue doesn't tell priorities apart, or is of a type that always does.
    pub max_priority: Option<u8>,
    /// The behaviour at these limits.
    pub overflow: Overflow,
    /// Time to live of messages in milliseconds, unless a message's own is lower.
    pub message_ttl_ms: Option<u64>,
    /// Milliseconds without use after which the queue is deleted.
    pub expires_ms: Option<u64>,
    /// The meaning of a confirm; `None` for the node's setting.
    pub durability: Option<Durability>,
    /// Failed deliveries of a message after which it isn't delivered again; `None` if there is no limit.
    pub delivery_limit: Option<u64>,
    /// Whether only one of its consumers gets messages, while the others wait for it to end.
    pub single_active_consumer: bool,
    /// Most messages at this limit that a queue without dead-letter exchange keeps aside; `None` for the default.
    pub parked_max: Option<u64>,
    /// Delays of returned messages; `None` if they are ready at once.
    pub delayed_retry: Option<DelayedRetry>,
    /// Whether returned messages go back to their old places (`x-return-order` = `position`). Otherwise they are delivered first.
    pub returns_in_place: bool,
    /// Milliseconds for which a consumer may leave a delivery unacknowledged; `None` for the node's setting. Only quorum queues
    /// take messages back.
    pub consumer_timeout_ms: Option<u64>,
    /// Milliseconds for which a replicated queue waits for its single active consumer while that one's node can't be reached; `None` for
    /// the node's setting.
    pub consumer_disconnected_timeout_ms: Option<u64>,
    /// Dead-lettering of messages that are rejected, expire or exceed a limit; without it they are dropped.
    pub dead_letter: Option<DeadLetterOptions>,
    /// Whether its messages leave for an exchange when they are due, instead of being ready: it is the queue of a delayed exchange, or
    /// of one that drops duplicates.
    pub releases: bool,
    /// Whether messages are changed before it takes them: they get times or ids.
    pub changes_messages: bool,
    /// How it drops duplicates, if it does.
    pub deduplication: Option<Arc<Deduplication>>,
    /// Whether it drops what publishers send again that number their messages.
    pub numbers_publishers: bool,
    /// Whether it has the last messages of a recent history exchange: no time and no priority of a message counts.
    pub remembers: bool,
}

/// Failed deliveries of a message that a quorum queue without `x-delivery-limit` allows, as in RabbitMQ.
const DELIVERY_LIMIT_DEFAULT: u64 = 20;

impl QueueOptions {
    /// Options of the queue in which messages of this exchange wait: until they are due, or for a moment if its `arguments` ask for
    /// the duplicates among them to be dropped.
    pub(crate) fn delaying(exchange: &Arc<str>, arguments: &Arguments) -> Self {
        let dead_letter = DeadLetterOptions { exchange: exchange.clone(), ..DeadLetterOptions::default() };
        Self {
            queue_type: QueueType::Quorum,
            dead_letter: Some(dead_letter),
            releases: true,
            changes_messages: true,
            deduplication: Deduplication::of(arguments),
            ..Self::default()
        }
    }

    /// Options of the queue with the last messages of a recent history exchange.
    pub(crate) fn remembering(arguments: &Arguments) -> Self {
        Self { remembers: true, ..Self::effective(arguments) }
    }

    /// Whether its dead letters wait until queues take them, instead of being dropped.
    pub fn keeps_dead_letters(&self) -> bool {
        self.dead_letter.as_ref().is_some_and(|dead_letter| dead_letter.at_least_once)
    }

    /// Reads these arguments, which were checked when the queue was declared.
    pub fn effective(arguments: &Arguments) -> Self {
        let queue_type = queue_arguments::queue_type(arguments);
        let delivery_limit = (queue_type == QueueType::Quorum).then_some(DELIVERY_LIMIT_DEFAULT);
        let mut options = QueueOptions { queue_type, delivery_limit, ..QueueOptions::default() };
        let (mut routing_key, mut at_least_once) = (None, false);
        for (key, value) in arguments.iter() {
            let limit = || value.as_int().and_then(|n| u64::try_from(n).ok());
            match key {
                "x-max-length" => options.max_length = limit(),
                "x-max-length-bytes" => options.max_length_bytes = limit(),
                "x-max-priority" if queue_type == QueueType::Classic => {
                    let max = limit().map(|max| u8::try_from(max).unwrap_or(u8::MAX));
                    // One priority is none.
                    options.max_priority = max.filter(|max| *max > 0);
                }
                "x-message-ttl" => options.message_ttl_ms = limit(),
                "x-expires" => options.expires_ms = limit(),
                // Another value than an integer is as if there were none.
                "x-delivery-limit" if value.as_int().is_some() => options.delivery_limit = limit(),
                "x-single-active-consumer" => options.single_active_consumer = *value == Value::Bool(true),
                "x-parked-max" => options.parked_max = limit(),
                "x-return-order" => options.returns_in_place = value.as_str() == Some("position"),
                "x-consumer-timeout" => options.consumer_timeout_ms = limit(),
                "x-consumer-disconnected-timeout" => options.consumer_disconnected_timeout_ms = limit(),
                "x-durability" => options.durability = value.as_str().and_then(Durability::parse),
                "x-overflow" => options.overflow = value.as_str().and_then(Overflow::parse).unwrap_or_default(),
                "x-dead-letter-exchange" => {
                    options.dead_letter = value.as_str().map(|exchange| DeadLetterOptions {
                        exchange: exchange.into(),
                        ..DeadLetterOptions::default()
                    });
                }
                "x-dead-letter-strategy" => at_least_once = value.as_str() == Some("at-least-once"),
                "x-dead-letter-routing-key" => routing_key = value.as_str().map(Into::into),
                _ => {}
            }
        }
        if queue_type != QueueType::Stream {
            options.deduplication = Deduplication::of(arguments);
            options.numbers_publishers = crate::deduplication::numbers_publishers(arguments);
            options.changes_messages = options.deduplication.is_some() || options.numbers_publishers;
        }
        if let Some(dead_letter) = &mut options.dead_letter {
            dead_letter.routing_key = routing_key;
            // RabbitMQ takes the argument for quorum queues only.
            dead_letter.at_least_once = at_least_once && queue_type == QueueType::Quorum;
        }
        if queue_type == QueueType::Quorum {
            options.delayed_retry = DelayedRetry::effective(arguments);
        }
        if queue_type == QueueType::Stream {
            options.max_age_ms = queue_arguments::stream::max_age_ms(arguments);
            options.stream_filter_bytes = queue_arguments::stream::filter_bytes(arguments);
        }
        // RabbitMQ accepts this overflow for quorum queues and gives them the default one.
        if options.queue_type == QueueType::Quorum && options.overflow == Overflow::RejectPublishDlx {
            options.overflow = Overflow::DropHead;
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_from_arguments() {
        let arguments =
            Arguments::from_iter([("x-max-length", Value::Int(5)), ("x-overflow", Value::from("reject-publish"))]);
        let options = QueueOptions::effective(&arguments);
        assert_eq!(options.max_length, Some(5));
        assert_eq!(options.max_length_bytes, None);
        assert_eq!(options.overflow, Overflow::RejectPublish);
        assert_eq!(options.dead_letter, None);
        let single = |value| QueueOptions::effective(&Arguments::from_iter([("x-single-active-consumer", value)]));
        assert!(single(Value::Bool(true)).single_active_consumer && !single(Value::Bool(false)).single_active_consumer);
        let priority = |pairs: &[(&'static str, Value)]| {
            QueueOptions::effective(&Arguments::from_iter(pairs.iter().cloned())).max_priority
        };
        assert_eq!(priority(&[("x-max-priority", Value::Int(5))]), Some(5));
        assert_eq!(priority(&[("x-max-priority", Value::Int(0))]), None);
        assert_eq!(priority(&[("x-max-priority", Value::Int(5)), ("x-queue-type", "stream".into())]), None);
        assert_eq!(QueueOptions::effective(&Arguments::default()), QueueOptions::default());
        let arguments = Arguments::from_iter([
            ("x-dead-letter-exchange", Value::from("")),
            ("x-dead-letter-routing-key", Value::from("dead")),
            ("x-overflow", Value::from("reject-publish-dlx")),
        ]);
        let options = QueueOptions::effective(&arguments);
        assert_eq!(options.overflow, Overflow::RejectPublishDlx);
        let dead_letter = options.dead_letter.expect("the default exchange is one");
        assert_eq!((&*dead_letter.exchange, dead_letter.routing_key.as_deref()), ("", Some("dead")));
        let quorum = arguments.with("x-queue-type", Value::from("quorum"));
        assert_eq!(QueueOptions::effective(&quorum).overflow, Overflow::DropHead);
    }

    #[test]
    fn a_delay_grows_with_the_failures_up_to_its_maximum() {
        let retry = |retries: &'static str, min: Value, max: Option<Value>| {
            let mut arguments = vec![("x-queue-type", "quorum".into()), ("x-delayed-retry-type", retries.into())];
            arguments.push(("x-delayed-retry-min", min));
            arguments.extend(max.map(|max| ("x-delayed-retry-max", max)));
            QueueOptions::effective(&Arguments::from_iter(arguments)).delayed_retry
        };
        let all = retry("all", Value::Int(500), Some(Value::Int(1_200))).expect("it delays");
        let delays = [0, 1, 2, 3, u32::MAX].map(|failures| all.delay_ms(true, failures));
        assert_eq!(delays, [500, 500, 1_000, 1_200, 1_200].map(Some));
        assert_eq!(all.delay_ms(false, 2), Some(1_000));
        let failed = retry("failed", Value::Int(500), None).expect("it delays");
        assert_eq!((failed.delay_ms(true, 3), failed.delay_ms(false, 3)), (Some(500), None));
        let returned = retry("returned", Value::Int(500), Some(Value::Int(-1))).expect("it delays");
        assert_eq!((returned.delay_ms(true, 3), returned.delay_ms(false, 3)), (None, Some(500)));
        assert_eq!(retry("disabled", Value::Int(500), None), None);
        assert_eq!(retry("all", Value::Int(0), None), None);
        assert_eq!(retry("all", Value::from("a"), Some(Value::Int(5))), None);
    }
}
