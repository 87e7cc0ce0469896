use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hash_on::HashOn;
use crate::{Arguments, Deduplication, ExchangeId, MemberNumber, QueueId, Refused, Value};

/// The argument of a delayed exchange that names the type by which it routes.
pub(crate) const DELAYED_TYPE: &str = "x-delayed-type";

/// The argument of a recent history exchange with the number of messages that it keeps.
const HISTORY_LENGTH: &str = "x-recent-history-length";
/// That number if it isn't given.
const HISTORY_LENGTH_DEFAULT: i64 = 20;
/// The highest such number: a queue that is bound gets as many messages.
const HISTORY_LENGTH_MAX: i64 = 100_000;
/// Most bytes of bodies that a recent history exchange keeps.
pub(crate) const HISTORY_BYTES_MAX: i64 = 64 << 20;

/// The type of an exchange: how it picks destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeType {
    /// Binding key equals routing key.
    Direct,
    /// All bindings.
    Fanout,
    /// Words of the key, with `*` for one and `#` for any number.
    Topic,
    /// Message headers compared with binding arguments.
    Headers,
    /// One binding, by a hash and by the weights that are the binding keys.
    #[serde(rename = "x-consistent-hash")]
    ConsistentHash,
    /// One binding, by a hash of the routing key.
    #[serde(rename = "x-modulus-hash")]
    ModulusHash,
    /// One binding by chance.
    #[serde(rename = "x-random")]
    Random,
    /// One binding by chance, out of those to classic queues of this node.
    #[serde(rename = "x-local-random")]
    LocalRandom,
    /// As the type that its arguments name, after the delay that a message asks for.
    #[serde(rename = "x-delayed-message")]
    Delayed,
    /// All bindings; queues that are bound later get the last messages, too.
    #[serde(rename = "x-recent-history")]
    RecentHistory,
    /// All bindings, for messages that aren't duplicates.
    #[serde(rename = "x-message-deduplication")]
    Deduplication,
}

impl ExchangeType {
    /// All types, in the order in which RabbitMQ lists them.
    pub const ALL: [ExchangeType; 11] = [
        ExchangeType::Direct,
        ExchangeType::Fanout,
        ExchangeType::Headers,
        ExchangeType::Topic,
        ExchangeType::ConsistentHash,
        ExchangeType::Delayed,
        ExchangeType::LocalRandom,
        ExchangeType::Deduplication,
        ExchangeType::ModulusHash,
        ExchangeType::Random,
        ExchangeType::RecentHistory,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ExchangeType::Direct => "direct",
            ExchangeType::Fanout => "fanout",
            ExchangeType::Topic => "topic",
            ExchangeType::Headers => "headers",
            ExchangeType::ConsistentHash => "x-consistent-hash",
            ExchangeType::ModulusHash => "x-modulus-hash",
            ExchangeType::Random => "x-random",
            ExchangeType::LocalRandom => "x-local-random",
            ExchangeType::Delayed => "x-delayed-message",
            ExchangeType::RecentHistory => "x-recent-history",
            ExchangeType::Deduplication => "x-message-deduplication",
        }
    }

    /// The name as RabbitMQ shows it where a type is inequivalent: as an atom of Erlang, in quotes if it isn't a plain word.
    pub(crate) fn erlang_atom(self) -> String {
        match self.name() {
            name if name.contains('-') => format!("'{name}'"),
            name => name.to_owned(),
        }
    }

    /// RabbitMQ's description of the type.
    pub fn description(self) -> &'static str {
        match self {
            ExchangeType::Direct => "AMQP direct exchange, as per the AMQP specification",
            ExchangeType::Fanout => "AMQP fanout exchange, as per the AMQP specification",
            ExchangeType::Topic => "AMQP topic exchange, as per the AMQP specification",
            ExchangeType::Headers => "AMQP headers exchange, as per the AMQP specification",
            ExchangeType::ConsistentHash => "Consistent Hashing Exchange",
            ExchangeType::ModulusHash => "Modulus Hashing Exchange",
            ExchangeType::Random => "Randomly picks a binding (queue) to route via (to).",
            ExchangeType::Delayed => "Delayed Message Exchange.",
            ExchangeType::RecentHistory => "Recent History Exchange.",
            ExchangeType::Deduplication => "Message Deduplication Exchange.",
            ExchangeType::LocalRandom => "Picks one random local binding (queue) to route via (to).",
        }
    }

    /// The type of this name.
    ///
    /// # Errors
    /// No type has that name.
    pub fn parse(name: &str) -> Result<Self, Refused> {
        let known = ExchangeType::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| match name {
            "" => Refused::precondition("invalid exchange type ''"),
            _ => Refused::precondition(format!("unknown exchange type '{name}'")),
        })
    }
}

/// The type by which an exchange of this type, with these arguments, routes.
///
/// # Errors
/// A delayed exchange names no type by which it can route.
pub(crate) fn routing_type(kind: ExchangeType, arguments: &Arguments) -> Result<ExchangeType, Refused> {
    match kind {
        ExchangeType::Delayed => {}
        ExchangeType::Deduplication => return Ok(ExchangeType::Fanout),
        _ => return Ok(kind),
    }
    let Some(named) = arguments.get(DELAYED_TYPE) else {
        let text = "Invalid argument, 'x-delayed-type' must be an existing exchange type; it is missing";
        return Err(Refused::precondition(text));
    };
    let Some(name) = named.as_str() else {
        return Err(Refused::precondition(format!(
            "Invalid argument, 'x-delayed-type' must be an existing exchange type; received '{named}' of type '{}'",
            named.type_name()
        )));
    };
    match ExchangeType::parse(name)? {
        ExchangeType::Delayed => {
            Err(Refused::precondition("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"))
        }
        // It would have two queues of its own.
        other @ (ExchangeType::RecentHistory | ExchangeType::Deduplication) => {
            Err(Refused::precondition(format!("Invalid argument, '{other}' can't be used for 'x-delayed-type'")))
        }
        routing => Ok(routing),
    }
}

/// Checks the arguments that a new exchange that routes by this type has.
pub(crate) fn check_arguments(routing: ExchangeType, arguments: &Arguments) -> Result<(), Refused> {
    match routing {
        ExchangeType::ConsistentHash => HashOn::of(arguments).map(drop),
        ExchangeType::RecentHistory => history_length(arguments).map(drop),
        _ => Ok(()),
    }
}

/// The number of messages that a recent history exchange with these arguments keeps.
///
/// # Errors
/// `x-recent-history-length` isn't a positive integer, or is higher than [`HISTORY_LENGTH_MAX`].
pub(crate) fn history_length(arguments: &Arguments) -> Result<i64, Refused> {
    let Some(value) = arguments.get(HISTORY_LENGTH) else { return Ok(HISTORY_LENGTH_DEFAULT) };
    match value.as_int() {
        Some(length @ 1..=HISTORY_LENGTH_MAX) => Ok(length),
        Some(length) if length > 0 => Err(Refused::precondition(format!(
            "Invalid argument {length}, '{HISTORY_LENGTH}' is at most {HISTORY_LENGTH_MAX}"
        ))),
        _ => Err(Refused::precondition(format!(
            "Invalid argument {}, '{HISTORY_LENGTH}' must be a positive integer",
            erlang_term(value)
        ))),
    }
}

/// A value as RabbitMQ shows it where it prints a term of Erlang.
fn erlang_term(value: &Value) -> String {
    match value {
        Value::String(text) | Value::Bytes(text) => format!("<<\"{}\">>", String::from_utf8_lossy(text)),
        Value::Void => "undefined".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for ExchangeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The comparison of a headers exchange's binding (argument `x-match`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadersMatch {
    /// All headers of the binding have to match, except those that start with `x-`.
    #[default]
    All,
    /// At least one header of the binding has to match, except those that start with `x-`.
    Any,
    /// All headers of the binding except `x-match` have to match.
    AllWithX,
    /// At least one header of the binding other than `x-match` has to match.
    AnyWithX,
}

impl HeadersMatch {
    /// Reads `x-match` from the arguments of a binding.
    ///
    /// # Errors
    /// `x-match` has another type or value.
    pub fn of(arguments: &Arguments) -> Result<Self, Refused> {
        match arguments.get("x-match") {
            None => Ok(HeadersMatch::All),
            Some(Value::String(text)) => match &text[..] {
                b"all" => Ok(HeadersMatch::All),
                b"any" => Ok(HeadersMatch::Any),
                b"all-with-x" => Ok(HeadersMatch::AllWithX),
                b"any-with-x" => Ok(HeadersMatch::AnyWithX),
                other => Err(Refused::precondition(format!(
                    "Invalid x-match field value <<\"{}\">>; expected all, any, all-with-x, or any-with-x",
                    String::from_utf8_lossy(other)
                ))),
            },
            Some(other) => Err(Refused::precondition(format!(
                "Invalid x-match field type {} (value {other}); expected longstr",
                other.type_name()
            ))),
        }
    }
}

/// A declared exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Id of this incarnation.
    pub id: ExchangeId,
    /// The vhost it belongs to.
    pub vhost: Arc<str>,
    /// Its name there; empty for the default exchange.
    pub name: Arc<str>,
    /// Its type.
    pub kind: ExchangeType,
    /// Whether it survives a restart.
    pub durable: bool,
    /// Whether it is deleted with the last binding that it is the source of.
    pub auto_delete: bool,
    /// Whether clients may not publish to it.
    pub internal: bool,
    /// The arguments of the declaration.
    pub arguments: Arguments,
    /// The user who declared it; empty for the broker itself.
    #[serde(default)]
    pub declared_by: Arc<str>,
    /// The queue in which the messages of a delayed exchange wait, or those of one that drops duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_queue: Option<QueueId>,
    /// The queue with the last messages of a recent history exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_queue: Option<QueueId>,
    /// The member of a cluster where it was declared, if it doesn't survive a restart of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transient_of: Option<MemberNumber>,
}

impl Exchange {
    /// Whether this is the default exchange, which routes to the queue named by the routing key.
    pub fn is_default(&self) -> bool {
        self.name.is_empty()
    }

    /// The queue that comes and goes with it.
    pub fn own_queue(&self) -> Option<QueueId> {
        self.delay_queue.or(self.history_queue)
    }

    /// How it drops duplicates, if it does.
    pub fn deduplication(&self) -> Option<Arc<Deduplication>> {
        Deduplication::of_exchange(self.kind, &self.arguments)
    }

    /// The type by which it routes: its own, or the one that the arguments of a delayed exchange name.
    pub fn routing_type(&self) -> ExchangeType {
        routing_type(self.kind, &self.arguments).unwrap_or(self.kind)
    }

    /// The exchange that gets messages which this one can't route (argument `alternate-exchange`).
    pub fn alternate(&self) -> Option<&str> {
        self.arguments.get("alternate-exchange")?.as_str()
    }

    /// Refuses publishes of clients to internal exchanges.
    ///
    /// # Errors
    /// Clients may not publish to this exchange.
    pub fn check_publish(&self) -> Result<(), Refused> {
        if !self.internal {
            return Ok(());
        }
        Err(Refused::access(format!("cannot publish to internal exchange '{}' in vhost '{}'", self.name, self.vhost)))
    }
}

/// The exchanges that every vhost has: name, type, internal.
pub(crate) const PREDECLARED: [(&str, ExchangeType, bool); 7] = [
    ("", ExchangeType::Direct, false),
    ("amq.direct", ExchangeType::Direct, false),
    ("amq.fanout", ExchangeType::Fanout, false),
    ("amq.headers", ExchangeType::Headers, false),
    ("amq.match", ExchangeType::Headers, false),
    ("amq.rabbitmq.trace", ExchangeType::Topic, true),
    ("amq.topic", ExchangeType::Topic, false),
];
