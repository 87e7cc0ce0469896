//! The arguments of a queue's declaration: which of them each type of queue takes, and the checks of their values.

mod classic;
mod common;
mod durable;
mod quorum;
pub(crate) mod stream;

use std::fmt;

use self::common::{KNOWN, Known, Wrong};
use crate::deduplication::{self, Deduplication};
use crate::{Arguments, DeprecatedFeatures, Durability, QueueType, Refused, RefusedKind, Value};

/// The arguments that queues of one type take. Other arguments known to RabbitMQ are refused, and unknown ones
/// accepted.
struct Table {
    queue_type: QueueType,
    arguments: &'static [(&'static str, State)],
    /// The arguments that a redeclaration has to repeat. The first that differs is named.
    compared: &'static [&'static str],
}

/// The properties of a declaration. Not all types of queues take all of them.
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    /// Whether the broker may have generated the name.
    pub(crate) server_named: bool,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) exclusive: bool,
}

/// How far an argument is supported.
#[derive(Clone, Copy)]
enum State {
    /// It takes effect, or needs no effect.
    Working,
    /// RabbitMQ deprecates it, and refuses it with this text unless the configuration permits it. It has no effect.
    Deprecated(&'static str),
}

impl Table {
    fn of(queue_type: QueueType) -> &'static Self {
        match queue_type {
            QueueType::Classic => &classic::TABLE,
            QueueType::Quorum => &quorum::TABLE,
            QueueType::Stream => &stream::TABLE,
        }
    }

    /// The state of an argument; `None` if RabbitMQ refuses it for this type.
    fn state(&self, argument: &str) -> Option<State> {
        // They are in the order of their names.
        let at = self.arguments.binary_search_by_key(&argument, |(name, _)| *name).ok()?;
        Some(self.arguments[at].1)
    }
}

const QUEUE_TYPE: &str = "x-queue-type";

/// The place of an argument, as errors name it.
struct Place<'a> {
    vhost: &'a str,
    queue: &'a str,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for queue '{}' in vhost '{}'", self.queue, self.vhost)
    }
}

/// Checks whether a queue can be declared with these properties and arguments. RabbitMQ's refusals come first, in its
/// order and with its error texts, then a type or an argument that is known but not supported.
pub(crate) fn check(
    vhost: &str,
    queue: &str,
    properties: Properties,
    arguments: &Arguments,
    permitted: DeprecatedFeatures,
) -> Result<(), Refused> {
    arguments.check_depth()?;
    let queue_type = queue_type(arguments);
    let table = Table::of(queue_type);
    if queue_type != QueueType::Classic {
        durable::check_name(queue, queue_type, properties)?;
    }
    check_values(vhost, queue, table, arguments, permitted)?;
    if queue_type != QueueType::Classic {
        durable::check_properties(vhost, queue, properties)?;
    }
    if queue_type == QueueType::Stream {
        stream::check_sizes(arguments)?;
    }
    match queue_type {
        QueueType::Classic => {}
        QueueType::Quorum => {
            quorum::check_durability(arguments).map_err(|wrong| wrong.refused("x-durability", vhost, queue))?
        }
        QueueType::Stream => {
            stream::check_durability(arguments).map_err(|wrong| wrong.refused("x-durability", vhost, queue))?
        }
    }
    Ok(())
}

/// Checks whether queues of this type take these arguments with these values.
fn check_values(
    vhost: &str,
    queue: &str,
    table: &Table,
    arguments: &Arguments,
    permitted: DeprecatedFeatures,
) -> Result<(), Refused> {
    let place = Place { vhost, queue };
    // RabbitMQ looks at the limit of bytes before the age.
    let first = |key: &str| table.queue_type == QueueType::Stream && key == "x-max-length-bytes";
    let before = arguments.iter().filter(|(key, _)| first(key));
    for (key, value) in before.chain(arguments.iter().filter(|(key, _)| !first(key))) {
        let Some(known) = known(key) else { continue };
        match table.state(key) {
            // Of an argument that isn't taken, the wrong type is told first.
            None if key == "x-dead-letter-exchange" && value.as_str().is_none() => {}
            Some(State::Deprecated(text)) if !permitted.master_locator => {
                return Err(Refused::new(RefusedKind::InternalError, text));
            }
            None => return Err(other_type(key, &place, table.queue_type)),
            Some(State::Working | State::Deprecated(_)) => {}
        }
        (known.check)(value).map_err(|wrong| wrong.refused(key, vhost, queue))?;
    }
    let dead_letters = arguments.get("x-dead-letter-exchange").is_some();
    if arguments.get("x-dead-letter-routing-key").is_some() && !dead_letters {
        return Err(Refused::precondition(format!(
            "invalid arg 'x-dead-letter-routing-key' {place}: routing_key_but_no_dlx_defined"
        )));
    }
    if Deduplication::of(arguments).is_some() && deduplication::numbers_publishers(arguments) {
        return Err(Refused::precondition(format!(
            "invalid arg '{}' {place}: \"a queue compares either ids or the numbers of publishers\"",
            deduplication::PUBLISHERS
        )));
    }
    Ok(())
}

/// Checks whether a redeclaration of an existing queue has equivalent arguments. The type of the existing queue says
/// which of them are compared.
pub(crate) fn check_equivalent(
    vhost: &str,
    queue: &str,
    current: &Arguments,
    received: &Arguments,
) -> Result<(), Refused> {
    for key in Table::of(queue_type(current)).compared {
        if *key == stream::MAX_AGE {
            let [current, received] = [current, received].map(stream::max_age_as_told);
            equivalent("queue", vhost, queue, key, current.as_ref(), received.as_ref())?;
            continue;
        }
        equivalent("queue", vhost, queue, key, current.get(key), received.get(key))?;
    }
    Ok(())
}

/// The arguments as stored with a queue: with its type, which RabbitMQ adds too.
pub(crate) fn complete(arguments: &Arguments, default_type: QueueType) -> Arguments {
    match arguments.get(QUEUE_TYPE).map(Value::as_str) {
        None | Some(Some("")) => arguments.with(QUEUE_TYPE, Value::from(default_type.name())),
        Some(_) => arguments.clone(),
    }
}

/// The type that these arguments ask for; the default type if they name none or an unknown one.
pub(crate) fn queue_type(arguments: &Arguments) -> QueueType {
    arguments.get(QUEUE_TYPE).and_then(Value::as_str).and_then(QueueType::parse).unwrap_or_default()
}

/// Checks whether one argument is equivalent; if not, the error is worded as RabbitMQ's.
pub(crate) fn equivalent(
    kind: &str,
    vhost: &str,
    name: &str,
    key: &str,
    current: Option<&Value>,
    received: Option<&Value>,
) -> Result<(), Refused> {
    let described = |value: &Value| format!("the value '{value}' of type '{}'", value.type_name());
    let differs = match (received, current) {
        (None, None) => return Ok(()),
        (Some(received), Some(current)) if received.equivalent(current) => return Ok(()),
        (Some(received), Some(current)) => {
            format!("received '{received}' but current is '{current}'")
        }
        (Some(received), None) => format!("received {} but current is none", described(received)),
        (None, Some(current)) => format!("received none but current is {}", described(current)),
    };
    Err(Refused::precondition(format!("inequivalent arg '{key}' for {kind} '{name}' in vhost '{vhost}': {differs}")))
}

/// Checks the arguments of a consumer of a queue of this type.
///
/// # Errors
/// An argument is wrong, or known but not supported; unknown ones are accepted.
pub fn check_consumer_arguments(
    vhost: &str,
    queue: &str,
    queue_type: QueueType,
    arguments: &Arguments,
) -> Result<(), Refused> {
    let place = Place { vhost, queue };
    for (key, value) in arguments.iter() {
        match key {
            "x-consumer-timeout" if queue_type == QueueType::Quorum => {
                common::not_negative(value).map_err(|wrong| wrong.refused(key, vhost, queue))?;
            }
            "x-stream-filter" | "x-stream-match-unfiltered" if queue_type != QueueType::Stream => {
                return Err(other_type(key, &place, queue_type));
            }
            "x-stream-offset" if queue_type == QueueType::Stream => {}
            "x-stream-offset" | "x-consumer-timeout" => return Err(other_type(key, &place, queue_type)),
            "x-priority" if queue_type == QueueType::Stream => return Err(other_type(key, &place, queue_type)),
            "x-priority" => {
                if let Err(Wrong::Reason(reason)) = common::integer(value) {
                    return Err(Refused::precondition(format!("invalid arg '{key}' {place}: {reason}")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A consumer's priority: its `x-priority`, which [`check_consumer_arguments`] found to be an integer, clamped to the
/// range of `i32`.
pub fn consumer_priority(arguments: &Arguments) -> i32 {
    match arguments.get("x-priority") {
        Some(Value::UInt(priority)) => i32::try_from(*priority).unwrap_or(i32::MAX),
        Some(priority) => priority.as_int().map_or(0, |n| n.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
        None => 0,
    }
}

/// Milliseconds for which a consumer may leave a delivery unacknowledged: its `x-consumer-timeout`, which
/// [`check_consumer_arguments`] found to be an integer. `None` if it has none.
pub fn consumer_timeout_ms(arguments: &Arguments) -> Option<u64> {
    match arguments.get("x-consumer-timeout")? {
        Value::UInt(milliseconds) => Some(*milliseconds),
        milliseconds => milliseconds.as_int().and_then(|milliseconds| u64::try_from(milliseconds).ok()),
    }
}

/// Whether queues of this type take this argument.
#[cfg(test)]
pub(crate) fn takes(queue_type: QueueType, argument: &str) -> bool {
    matches!(Table::of(queue_type).state(argument), Some(State::Working))
}

fn known(key: &str) -> Option<&'static Known> {
    let at = KNOWN.binary_search_by_key(&key, |known| known.name).ok()?;
    Some(&KNOWN[at])
}

/// The error for an argument that RabbitMQ knows, but not for this type of queue.
fn other_type(key: &str, place: &Place<'_>, queue_type: QueueType) -> Refused {
    Refused::precondition(format!("invalid arg '{key}' {place} of queue type {}", queue_type.label()))
}

/// Refuses a durability that a queue which doesn't survive a restart can't give.
pub(crate) fn check_durability(vhost: &str, queue: &str, arguments: &Arguments) -> Result<(), Refused> {
    const KEY: &str = "x-durability";
    match arguments.get(KEY).and_then(Value::as_str) {
        Some(class) if Durability::parse(class) != Some(Durability::Memory) => Err(Refused::precondition(format!(
            "invalid arg '{KEY}' for queue '{queue}' in vhost '{vhost}': \"received '{class}', but a queue that isn't \
             durable, or is exclusive, keeps its messages in memory\""
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::common::NAME_BYTES_MAX;
    use super::*;

    pub(super) const PERMITTED: DeprecatedFeatures =
        DeprecatedFeatures { transient_queues: true, master_locator: false };
    const DURABLE: Properties = Properties { server_named: false, durable: true, auto_delete: false, exclusive: false };

    fn refused(key: &str, value: Value) -> Option<Refused> {
        check("/", "q", DURABLE, &Arguments::from_iter([(key, value)]), PERMITTED).err()
    }

    #[test]
    fn names_for_dead_letters_have_to_fit_into_a_message() {
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        let key = |text: &str| {
            let arguments = [("x-dead-letter-exchange", Value::from("x")), ("x-dead-letter-routing-key", text.into())];
            check("/", "q", DURABLE, &Arguments::from_iter(arguments), PERMITTED)
        };
        assert!(key(&long[1..]).is_ok());
        let refused = [key(&long).err(), refused("x-dead-letter-exchange", Value::from(long.as_str()))];
        for refused in refused {
            let text = refused.expect("it is too long").text;
            assert!(text.ends_with("\"256 bytes, expected at most 255\""), "{text}");
        }
    }

    #[test]
    fn a_deprecated_argument_is_refused_unless_it_is_permitted() {
        let arguments = Arguments::from_iter([("x-queue-master-locator", Value::from("min-masters"))]);
        let refused = check("/", "q", DURABLE, &arguments, PERMITTED).expect_err("it isn't permitted");
        assert_eq!(refused.kind, RefusedKind::InternalError);
        assert!(refused.text.starts_with("Feature `queue_master_locator` is deprecated.\n"), "{refused}");
        let permitted = DeprecatedFeatures { master_locator: true, ..PERMITTED };
        assert_eq!(check("/", "q", DURABLE, &arguments, permitted), Ok(()));
    }

    #[test]
    fn values_without_effect_and_unknown_arguments_are_accepted() {
        for (key, value) in [
            ("x-max-priority", Value::Int(0)),
            ("x-single-active-consumer", Value::Bool(true)),
            ("x-queue-type", Value::from("classic")),
            ("x-queue-mode", Value::from("lazy")),
            ("x-dead-letter-exchange", Value::from("")),
            ("x-overflow", Value::from("reject-publish-dlx")),
            ("x-unknown", Value::Int(1)),
        ] {
            assert_eq!(refused(key, value), None, "{key}");
        }
    }

    #[test]
    fn a_durability_is_one_of_three() {
        for class in Durability::ALL {
            assert_eq!(refused("x-durability", Value::from(class.name())), None);
        }
        for value in [Value::from("disk"), Value::from(""), Value::Int(1)] {
            let refused = refused("x-durability", value).expect("it is none");
            assert_eq!(refused.kind, RefusedKind::PreconditionFailed);
            assert!(refused.text.starts_with("invalid arg 'x-durability' for queue 'q' in vhost '/': "), "{refused}");
        }
        let asks = |class: &str| check_durability("/", "q", &Arguments::from_iter([("x-durability", class.into())]));
        assert!(asks("memory").is_ok());
        assert!(asks("os").is_err() && asks("synced").is_err());
    }

    #[test]
    fn each_table_is_sorted_and_takes_known_arguments() {
        for table in QueueType::ALL.into_iter().map(Table::of) {
            assert!(table.arguments.is_sorted_by(|a, b| a.0 < b.0), "{:?}", table.queue_type);
            assert!(table.arguments.iter().all(|(name, _)| known(name).is_some()), "{:?}", table.queue_type);
            assert!(table.compared.iter().all(|name| table.state(name).is_some()), "{:?}", table.queue_type);
        }
    }

    #[test]
    fn consumers_of_each_type_have_their_arguments() {
        let check = |queue_type, key: &'static str, value: Value| {
            let checked = check_consumer_arguments("/", "q", queue_type, &Arguments::from_iter([(key, value)]));
            checked.map_err(|refused| (refused.kind, refused.text))
        };
        let wrong = |text: &str| Err((RefusedKind::PreconditionFailed, text.to_owned()));
        for queue_type in [QueueType::Classic, QueueType::Quorum] {
            assert_eq!(check(queue_type, "x-priority", Value::Int(-5)), Ok(()));
            assert_eq!(check(queue_type, "x-unknown", Value::Int(-5)), Ok(()));
            let label = queue_type.label();
            let text = format!("invalid arg 'x-stream-offset' for queue 'q' in vhost '/' of queue type {label}");
            assert_eq!(check(queue_type, "x-stream-offset", Value::from("first")), wrong(&text));
        }
        let timeout = |value| check(QueueType::Quorum, "x-consumer-timeout", value);
        let text = "invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': {value_negative,-1}";
        assert_eq!(timeout(Value::Int(-1)), wrong(text));
        assert_eq!(timeout(Value::Int(1000)), Ok(()));
    }

    #[test]
    fn an_argument_of_another_type_is_refused() {
        let refused = refused("x-max-age", Value::from("1h")).expect("only streams take it");
        assert_eq!(
            refused.text,
            "invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
        );
    }
}
