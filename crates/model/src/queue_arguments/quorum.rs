//! The arguments and properties of quorum queues.

use super::common::Wrong;
use super::{State, Table};
use crate::{Arguments, Durability, QueueType, Value};

/// `x-quorum-target-group-size` isn't among them: RabbitMQ accepts it for queues of any type, with any value.
pub(super) const TABLE: Table = Table {
    queue_type: QueueType::Quorum,
    arguments: &[
        ("x-cache-size", State::Working),
        ("x-cache-ttl", State::Working),
        ("x-consumer-disconnected-timeout", State::Working),
        ("x-consumer-timeout", State::Working),
        ("x-dead-letter-exchange", State::Working),
        ("x-dead-letter-routing-key", State::Working),
        ("x-dead-letter-strategy", State::Working),
        ("x-deduplication-header", State::Working),
        ("x-delayed-retry-max", State::Working),
        ("x-delayed-retry-min", State::Working),
        ("x-delayed-retry-type", State::Working),
        ("x-delivery-limit", State::Working),
        ("x-durability", State::Working),
        ("x-expires", State::Working),
        ("x-max-in-memory-bytes", State::Working),
        ("x-max-in-memory-length", State::Working),
        ("x-max-length", State::Working),
        ("x-max-length-bytes", State::Working),
        ("x-message-deduplication", State::Working),
        ("x-message-ttl", State::Working),
        ("x-overflow", State::Working),
        ("x-parked-max", State::Working),
        ("x-publisher-deduplication", State::Working),
        ("x-queue-leader-locator", State::Working),
        ("x-queue-type", State::Working),
        ("x-quorum-initial-group-size", State::Working),
        ("x-return-order", State::Working),
        ("x-single-active-consumer", State::Working),
    ],
    compared: &[
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
        "x-consumer-disconnected-timeout",
        "x-consumer-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
        "x-durability",
        "x-parked-max",
        "x-return-order",
        "x-message-deduplication",
        "x-cache-size",
        "x-cache-ttl",
        "x-deduplication-header",
        "x-publisher-deduplication",
    ],
};

/// Refuses a durability that is weaker than the one that a quorum queue gives.
pub(super) fn check_durability(arguments: &Arguments) -> Result<(), Wrong> {
    match arguments.get("x-durability").and_then(Value::as_str) {
        Some(class) if Durability::parse(class) != Some(Durability::Synced) => {
            Err(Wrong::Reason(format!("\"received '{class}', but a quorum queue flushes its messages to disk\"")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refused;
    use crate::queue_arguments::tests::PERMITTED;
    use crate::queue_arguments::{Properties, check, check_equivalent};

    const FITTING: Properties = Properties { server_named: false, durable: true, auto_delete: false, exclusive: false };

    fn quorum(pairs: &[(&'static str, Value)]) -> Arguments {
        pairs.iter().cloned().chain([("x-queue-type", Value::from("quorum"))]).collect()
    }

    fn refused(properties: Properties, pairs: &[(&'static str, Value)]) -> Refused {
        check("/", "q", properties, &quorum(pairs), PERMITTED).expect_err("it is wrong")
    }

    /// The text of a refusal that RabbitMQ gives too.
    fn text(properties: Properties, pairs: &[(&'static str, Value)]) -> String {
        let refused = refused(properties, pairs);
        assert_eq!(refused.kind.code(), 406, "{refused}");
        refused.text
    }

    #[test]
    fn the_first_wrong_property_is_named() {
        let invalid = |name: &str| format!("invalid property '{name}' for queue 'q' in vhost '/'");
        let transient = Properties { durable: false, ..FITTING };
        assert_eq!(text(transient, &[]), invalid("non-durable"));
        let exclusive = Properties { exclusive: true, ..transient };
        assert_eq!(text(exclusive, &[]), invalid("exclusive-owner"));
        assert_eq!(text(Properties { auto_delete: true, ..exclusive }, &[]), invalid("auto-delete"));
    }

    #[test]
    fn a_generated_name_is_refused_before_wrong_arguments() {
        let generated = Properties { server_named: true, ..FITTING };
        let arguments = quorum(&[("x-dead-letter-strategy", Value::from("none"))]);
        let refused = check("/", "amq.gen-1", generated, &arguments, PERMITTED).expect_err("the broker made the name");
        assert_eq!(
            refused.reply_text(),
            "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
        );
        assert!(check("/", "q", generated, &quorum(&[]), PERMITTED).is_ok(), "an import may bring such names");
    }

    #[test]
    fn wrong_arguments_are_refused_before_properties() {
        let exclusive = Properties { exclusive: true, ..FITTING };
        for (key, value, reason) in [
            ("x-consumer-timeout", Value::Int(-1), ": {value_negative,-1}"),
            ("x-consumer-timeout", Value::from("a"), ": \"expected integer, got longstr\""),
            ("x-consumer-disconnected-timeout", Value::Int(-1), ": {value_negative,-1}"),
            ("x-dead-letter-routing-key", Value::from("k"), ": routing_key_but_no_dlx_defined"),
            ("x-dead-letter-strategy", Value::from("none"), ": invalid_dlx_strategy"),
            ("x-dead-letter-strategy", Value::Bool(true), ": {unacceptable_type,bool}"),
            ("x-max-in-memory-bytes", Value::Int(-1), ": {value_negative,-1}"),
            ("x-max-in-memory-length", Value::from("a"), ": \"expected integer, got longstr\""),
            ("x-quorum-initial-group-size", Value::Int(0), ": {value_zero,0}"),
            ("x-quorum-initial-group-size", Value::Int(-1), ": {value_negative,-1}"),
            ("x-quorum-initial-group-size", Value::Bool(true), ": \"expected integer, got bool\""),
            ("x-overflow", Value::from("none"), ": invalid_overflow"),
            ("x-return-order", Value::from("last"), ": \"expected returned or position, got 'last'\""),
            ("x-return-order", Value::Int(1), ": {unacceptable_type,signedint}"),
            ("x-max-priority", Value::Int(5), " of queue type rabbit_quorum_queue"),
            ("x-queue-mode", Value::from("lazy"), " of queue type rabbit_quorum_queue"),
            ("x-queue-master-locator", Value::from("min-masters"), " of queue type rabbit_quorum_queue"),
            ("x-max-age", Value::from("1h"), " of queue type rabbit_quorum_queue"),
        ] {
            let expected = format!("invalid arg '{key}' for queue 'q' in vhost '/'{reason}");
            assert_eq!(text(exclusive, &[(key, value)]), expected);
        }
    }

    #[test]
    fn values_that_rabbitmq_accepts_are_accepted() {
        for (key, value) in [
            ("x-overflow", Value::from("reject-publish-dlx")),
            ("x-delivery-limit", Value::Int(-5)),
            ("x-delivery-limit", Value::from("5")),
            ("x-delivery-limit", Value::Void),
            ("x-dead-letter-strategy", Value::from("at-most-once")),
            ("x-dead-letter-strategy", Value::from("at-least-once")),
            ("x-delayed-retry-type", Value::from("none")),
            ("x-delayed-retry-type", Value::from("all")),
            ("x-delayed-retry-min", Value::from("a")),
            ("x-delayed-retry-max", Value::Int(-1)),
            ("x-consumer-timeout", Value::Int(0)),
            ("x-return-order", Value::from("returned")),
            ("x-return-order", Value::from("position")),
            ("x-consumer-disconnected-timeout", Value::Int(0)),
            ("x-quorum-initial-group-size", Value::Int(100)),
            ("x-quorum-target-group-size", Value::from("3")),
            ("x-single-active-consumer", Value::Bool(true)),
            ("x-unknown", Value::Int(1)),
        ] {
            check("/", "q", FITTING, &quorum(&[(key, value)]), PERMITTED)
                .unwrap_or_else(|refused| panic!("{key}: {refused}"));
        }
    }

    #[test]
    fn only_the_strongest_durability_is_given() {
        assert_eq!(
            text(FITTING, &[("x-durability", Value::from("os"))]),
            "invalid arg 'x-durability' for queue 'q' in vhost '/': \"received 'os', but a quorum queue flushes its \
             messages to disk\""
        );
        assert!(check("/", "q", FITTING, &quorum(&[("x-durability", Value::from("synced"))]), PERMITTED).is_ok());
    }

    #[test]
    fn a_redeclaration_repeats_the_arguments_of_the_existing_queue() {
        let again = |current: &[(&'static str, Value)], received: &Arguments| {
            check_equivalent("/", "q", &quorum(current), received).map_err(|refused| refused.text)
        };
        let differs = |key: &str, how: &str| Err(format!("inequivalent arg '{key}' for queue 'q' in vhost '/': {how}"));
        let limit = |limit: i64| [("x-delivery-limit", Value::Int(limit))];
        assert_eq!(
            again(&limit(2), &quorum(&limit(3))),
            differs("x-delivery-limit", "received '3' but current is '2'")
        );
        assert_eq!(
            again(&limit(2), &quorum(&[])),
            differs("x-delivery-limit", "received none but current is the value '2' of type 'signedint'")
        );
        assert_eq!(
            again(&[], &quorum(&[("x-quorum-initial-group-size", Value::Int(0))])),
            differs("x-quorum-initial-group-size", "received the value '0' of type 'signedint' but current is none")
        );
        let classic = Arguments::from_iter([("x-queue-type", "classic".into()), ("x-max-length", Value::Int(1))]);
        assert_eq!(
            again(&[], &Arguments::from_iter([("x-queue-type", Value::from("classic"))])),
            differs("x-queue-type", "received 'classic' but current is 'quorum'")
        );
        assert_eq!(
            again(&limit(2), &classic),
            differs("x-max-length", "received the value '1' of type 'signedint' but current is none")
        );
        for key in ["x-max-priority", "x-quorum-target-group-size", "x-unknown"] {
            assert_eq!(again(&[], &quorum(&[(key, Value::Int(1))])), Ok(()), "{key}");
        }
    }
}
