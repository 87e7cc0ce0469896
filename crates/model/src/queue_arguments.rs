use crate::{Arguments, Durability, Refused, RefusedKind, Value};

/// What a known argument of a classic queue is checked for, and whether its effect exists.
struct Known {
    name: &'static str,
    check: fn(&Value) -> Result<(), Wrong>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Takes effect, or needs none.
    Working,
    /// Refused by name unless the value asks for nothing.
    NotYet(fn(&Value) -> bool),
    /// RabbitMQ refuses it for classic queues.
    OtherQueueType,
    /// RabbitMQ withdrew it.
    Withdrawn(&'static str),
}

/// Why a value is wrong, as RabbitMQ words it.
enum Wrong {
    Reason(String),
    Type(&'static str),
}

/// Every argument that RabbitMQ 4.3 knows for queues, by name.
const KNOWN: &[Known] = &[
    known("x-consumer-disconnected-timeout", any, State::OtherQueueType),
    known("x-consumer-timeout", any, State::OtherQueueType),
    known("x-dead-letter-exchange", name, State::Working),
    known("x-dead-letter-routing-key", routing_key, State::Working),
    known("x-dead-letter-strategy", any, State::OtherQueueType),
    known("x-delayed-retry-max", any, State::OtherQueueType),
    known("x-delayed-retry-min", any, State::OtherQueueType),
    known("x-delayed-retry-type", any, State::OtherQueueType),
    known("x-delivery-limit", any, State::OtherQueueType),
    known("x-durability", durability, State::Working),
    known("x-expires", expires, State::Working),
    known("x-initial-cluster-size", any, State::OtherQueueType),
    known("x-max-age", any, State::OtherQueueType),
    known("x-max-in-memory-bytes", any, State::OtherQueueType),
    known("x-max-in-memory-length", any, State::OtherQueueType),
    known("x-max-length", not_negative, State::Working),
    known("x-max-length-bytes", not_negative, State::Working),
    known("x-max-priority", priority, State::NotYet(|value| value.as_int() != Some(0))),
    known("x-message-ttl", milliseconds, State::Working),
    known("x-overflow", overflow, State::Working),
    known("x-queue-leader-locator", locator, State::Working),
    known(
        "x-queue-master-locator",
        any,
        State::Withdrawn(
            "Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted anymore.",
        ),
    ),
    known("x-queue-mode", any, State::Working),
    known("x-queue-type", queue_type, State::Working),
    known("x-queue-version", version, State::Working),
    known("x-quorum-initial-group-size", any, State::OtherQueueType),
    known("x-single-active-consumer", boolean, State::NotYet(|value| *value == Value::Bool(true))),
    known("x-stream-filter-size-bytes", any, State::OtherQueueType),
    known("x-stream-max-segment-size-bytes", any, State::OtherQueueType),
];

/// The arguments that a redeclaration compares.
const COMPARED: &[&str] = &[
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-durability",
];

const fn known(name: &'static str, check: fn(&Value) -> Result<(), Wrong>, state: State) -> Known {
    Known { name, check, state }
}

/// Whether a queue can be declared with these arguments: first what RabbitMQ refuses, in its words, then
/// what is known but not built.
pub(crate) fn check(vhost: &str, queue: &str, arguments: &Arguments) -> Result<(), Refused> {
    arguments.check_depth()?;
    let place = format!("for queue '{queue}' in vhost '{vhost}'");
    let known = |key: &str| KNOWN.iter().find(|known| known.name == key);
    // Arguments of another type of queue are none that a classic one refuses.
    if let Some(value) =
        arguments.get("x-queue-type").filter(|value| matches!(value.as_str(), Some("quorum" | "stream")))
    {
        return Err(not_built("queue argument", "x-queue-type", value, &place));
    }
    for (key, value) in arguments.iter() {
        let Some(known) = known(key) else { continue };
        match known.state {
            State::Withdrawn(text) => return Err(Refused::new(RefusedKind::InternalError, text)),
            State::OtherQueueType => {
                return Err(Refused::precondition(format!(
                    "invalid arg '{key}' {place} of queue type rabbit_classic_queue"
                )));
            }
            State::Working | State::NotYet(_) => {}
        }
        match (known.check)(value) {
            Ok(()) => {}
            Err(Wrong::Reason(reason)) => {
                return Err(Refused::precondition(format!("invalid arg '{key}' {place}: {reason}")));
            }
            Err(Wrong::Type(name)) => {
                return Err(Refused::precondition(format!(
                    "invalid type '{name}' for arg '{key}' in queue '{queue}' in vhost '{vhost}'"
                )));
            }
        }
    }
    let dead_letters = arguments.get("x-dead-letter-exchange").is_some();
    if arguments.get("x-dead-letter-routing-key").is_some() && !dead_letters {
        return Err(Refused::precondition(format!(
            "invalid arg 'x-dead-letter-routing-key' {place}: routing_key_but_no_dlx_defined"
        )));
    }
    for (key, value) in arguments.iter() {
        if let Some(State::NotYet(asks)) = known(key).map(|known| known.state)
            && asks(value)
        {
            return Err(not_built("queue argument", key, value, &place));
        }
    }
    Ok(())
}

/// Whether a declaration of an existing queue asks for the same arguments.
pub(crate) fn check_equivalent(
    vhost: &str,
    queue: &str,
    current: &Arguments,
    received: &Arguments,
) -> Result<(), Refused> {
    for key in COMPARED {
        equivalent("queue", vhost, queue, key, current.get(key), received.get(key))?;
    }
    Ok(())
}

/// The arguments as a queue keeps them: with its type, which RabbitMQ adds too.
pub(crate) fn complete(arguments: &Arguments) -> Arguments {
    match arguments.get("x-queue-type").and_then(Value::as_str) {
        None | Some("") => arguments.with("x-queue-type", Value::from("classic")),
        Some(_) => arguments.clone(),
    }
}

/// Whether one argument is equivalent, in RabbitMQ's words if it isn't.
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

/// Whether a consumer of a classic queue can have these arguments.
///
/// # Errors
/// One is wrong, or known but not built; unknown ones are accepted.
pub fn check_consumer_arguments(vhost: &str, queue: &str, arguments: &Arguments) -> Result<(), Refused> {
    let place = format!("for queue '{queue}' in vhost '{vhost}'");
    for (key, value) in arguments.iter() {
        match key {
            "x-stream-offset" | "x-consumer-timeout" => {
                return Err(Refused::precondition(format!(
                    "invalid arg '{key}' {place} of queue type rabbit_classic_queue"
                )));
            }
            "x-priority" => {
                if let Err(Wrong::Reason(reason)) = integer(value) {
                    return Err(Refused::precondition(format!("invalid arg '{key}' {place}: {reason}")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A consumer's priority: its `x-priority`, which [`check_consumer_arguments`] found to be an integer; what
/// doesn't fit is cut to the nearest that does.
pub fn consumer_priority(arguments: &Arguments) -> i32 {
    match arguments.get("x-priority") {
        Some(Value::UInt(priority)) => i32::try_from(*priority).unwrap_or(i32::MAX),
        Some(priority) => priority.as_int().map_or(0, |n| n.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
        None => 0,
    }
}

fn not_built(what: &str, key: &str, value: &Value, place: &str) -> Refused {
    Refused::new(
        RefusedKind::NotImplemented,
        format!("{what} '{key}' {place}: received '{value}', but its effect is not built yet"),
    )
}

fn any(_: &Value) -> Result<(), Wrong> {
    Ok(())
}

fn integer(value: &Value) -> Result<(), Wrong> {
    match value {
        Value::Int(_) | Value::UInt(_) => Ok(()),
        other => Err(Wrong::Reason(format!("\"expected integer, got {}\"", other.type_name()))),
    }
}

fn unacceptable(value: &Value) -> Wrong {
    Wrong::Reason(format!("{{unacceptable_type,{}}}", value.type_name()))
}

fn string(value: &Value) -> Result<(), Wrong> {
    matches!(value, Value::String(_)).then_some(()).ok_or_else(|| unacceptable(value))
}

/// Exchanges and routing keys are short strings of 0-9-1: a message can't be moved to longer ones.
const NAME_BYTES_MAX: usize = 255;

fn short(value: &Value) -> Result<(), Wrong> {
    match value.as_str().map_or(0, str::len) {
        0..=NAME_BYTES_MAX => Ok(()),
        length => Err(Wrong::Reason(format!("\"{length} bytes, expected at most {NAME_BYTES_MAX}\""))),
    }
}

fn routing_key(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    short(value)
}

fn boolean(value: &Value) -> Result<(), Wrong> {
    matches!(value, Value::Bool(_)).then_some(()).ok_or_else(|| unacceptable(value))
}

fn name(value: &Value) -> Result<(), Wrong> {
    matches!(value, Value::String(_)).then_some(()).ok_or_else(|| Wrong::Type(value.type_name()))?;
    short(value)
}

fn not_negative(value: &Value) -> Result<(), Wrong> {
    integer(value)?;
    match value.as_int() {
        Some(n) if n < 0 => Err(Wrong::Reason(format!("{{value_negative,{n}}}"))),
        _ => Ok(()),
    }
}

/// RabbitMQ's longest time to live and longest expiry, ten years.
const TIMER_MS_MAX: i64 = 315_360_000_000;

fn milliseconds(value: &Value) -> Result<(), Wrong> {
    not_negative(value)?;
    match value.as_int() {
        Some(n) if n <= TIMER_MS_MAX => Ok(()),
        _ => Err(Wrong::Reason(format!("{{value_too_large,{value}}}"))),
    }
}

fn expires(value: &Value) -> Result<(), Wrong> {
    match value.as_int() {
        Some(0) => Err(Wrong::Reason("{value_zero,0}".to_owned())),
        _ => milliseconds(value),
    }
}

fn priority(value: &Value) -> Result<(), Wrong> {
    not_negative(value)?;
    match value.as_int() {
        Some(0..=255) => Ok(()),
        _ => Err(Wrong::Reason(format!("{{max_value_exceeded,{value}}}"))),
    }
}

fn overflow(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str() {
        Some("drop-head" | "reject-publish" | "reject-publish-dlx") => Ok(()),
        _ => Err(Wrong::Reason("invalid_overflow".to_owned())),
    }
}

fn durability(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str().and_then(Durability::parse) {
        Some(_) => Ok(()),
        None => Err(Wrong::Reason(format!("\"expected synced, os or memory, got '{value}'\""))),
    }
}

/// Whether a queue that doesn't survive a restart asks for a promise that it can't give.
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

fn locator(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str() {
        // The last three are older names of "balanced".
        Some("client-local" | "balanced" | "random" | "least-leaders" | "min-masters") => Ok(()),
        _ => Err(Wrong::Reason("invalid_queue_locator_arg".to_owned())),
    }
}

fn queue_type(value: &Value) -> Result<(), Wrong> {
    string(value)?;
    match value.as_str() {
        Some("classic" | "quorum" | "stream" | "") => Ok(()),
        _ => Err(Wrong::Reason(format!("\"unsupported queue type '{value}'\""))),
    }
}

fn version(value: &Value) -> Result<(), Wrong> {
    integer(value)?;
    match value.as_int() {
        Some(2) => Ok(()),
        _ => Err(Wrong::Reason(format!("\"unsupported queue version '{value}'\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(key: &str, value: Value) -> Option<Refused> {
        check("/", "q", &Arguments::from_iter([(key, value)])).err()
    }

    #[test]
    fn dead_letters_have_names_that_fit_into_a_message() {
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        let key = |text: &str| {
            let arguments = [("x-dead-letter-exchange", Value::from("x")), ("x-dead-letter-routing-key", text.into())];
            check("/", "q", &Arguments::from_iter(arguments))
        };
        assert!(key(&long[1..]).is_ok());
        let refused = [key(&long).err(), refused("x-dead-letter-exchange", Value::from(long.as_str()))];
        for refused in refused {
            let text = refused.expect("it is too long").text;
            assert!(text.ends_with("\"256 bytes, expected at most 255\""), "{text}");
        }
    }

    #[test]
    fn known_arguments_without_effect_are_refused_by_name_and_value() {
        for (key, value) in [
            ("x-max-priority", Value::Int(10)),
            ("x-single-active-consumer", Value::Bool(true)),
            ("x-queue-type", Value::from("quorum")),
        ] {
            let refused = refused(key, value.clone()).unwrap_or_else(|| panic!("{key} is accepted"));
            assert_eq!(refused.kind, RefusedKind::NotImplemented, "{key}");
            assert!(refused.text.contains(&format!("'{key}'")), "{refused}");
            assert!(refused.text.contains(&format!("'{value}'")), "{refused}");
        }
    }

    #[test]
    fn values_that_ask_for_nothing_and_unknown_arguments_are_accepted() {
        for (key, value) in [
            ("x-max-priority", Value::Int(0)),
            ("x-single-active-consumer", Value::Bool(false)),
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
    fn the_table_is_sorted_and_names_each_argument_once() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
    }
}
