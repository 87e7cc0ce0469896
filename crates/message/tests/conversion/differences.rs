//! Where a receiver sees something else than in RabbitMQ 4.3.6, each with its reason in docs/differences.md.

use leveret_message::Encoding;

use crate::recording::{Case, Receiver};

/// Whether what `found` says (missing lines with `-`, further ones with `+`) is meant to differ.
pub(crate) fn is_known(case: &Case, receiver: Receiver, died: bool, found: &[String]) -> bool {
    let only = |marks: &[&str]| found.iter().all(|line| marks.iter().any(|mark| line.starts_with(mark)));
    // It ends the connection, or sends what isn't AMQP 1.0.
    found[0].starts_with("RabbitMQ fails") && !found[0].contains("malformed")
        || found[0].starts_with("-malformed")
        // A dead letter keeps its time to live in the header of AMQP 1.0 if it came over AMQP 0-9-1.
        || died && receiver == Receiver::Amqp10 && case.encoding == Encoding::Amqp091 && only(&["-ttl", "+ttl"])
        // Times to live, times and numbers beyond the other protocol's: the last that fits instead of what is left over.
        || case.name == "expiration '4294967296'" && only(&["-ttl", "+ttl", "-annotation Symbol(:x-opt-deaths)", "+annotation Symbol(:x-opt-deaths)"])
        || case.name.starts_with("timestamp ") && only(&["-creation_time: Some(-1000", "+creation_time: Some(9223372036854775807"])
        || case.name.ends_with("header timestamp far") && found.len() == 2 && found[1].ends_with("Timestamp(9223372036854775807)")
        // Times before 1970 are left out.
        || case.name.starts_with("creation-time -") && only(&["-timestamp"])
        || case.name.ends_with(" timestamp negative") && only(&["-header"])
        // Headers of AMQP 0-9-1 go out as they came in.
        || case.name == "header twice" && receiver == Receiver::Amqp091 && only(&["+header"])
        // A reply address that is no queue's, or just too long with its prefix, is kept.
        || case.name.starts_with("reply-to /queues/") && receiver == Receiver::Amqp091 && only(&["+reply_to"])
        // Annotations of RabbitMQ 3 in which it kept properties of AMQP 0-9-1 have no meaning.
        || case.name == "annotation x-basic-priority ubyte"
}

/// Whether it is meant that only one of both refuses the message; `refused` is the condition here.
pub(crate) fn is_known_refusal(case: &Case, refused: Option<&str>) -> bool {
    match &*case.name {
        // Keys of the footer are checked like those of the other annotations.
        "footer key without x-" | "footer key string" => refused == Some("amqp:decode-error"),
        // RabbitMQ ends the session of whoever receives it.
        "x-cc null" => refused == Some("amqp:invalid-field"),
        // Fields and texts that aren't of their type are refused at once, not when somebody needs them.
        "header durable string"
        | "header priority uint"
        | "header ttl ulong"
        | "header too long"
        | "subject symbol"
        | "string not utf-8" => matches!(refused, Some("amqp:decode-error" | "amqp:invalid-field")),
        // A section that is null counts as an empty one.
        "annotations null" => refused.is_none(),
        _ => false,
    }
}
