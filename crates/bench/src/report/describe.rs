//! The description of a load.

use std::fmt::Write;

use crate::message_properties::MessageProperties;
use crate::settings::{Exchange, Protocol, Settings};

/// Describes what is sent and how.
pub(super) fn describe(settings: &Settings) -> String {
    let mut text = match settings.stop_after {
        // The actual number differs from round to round.
        Some(time) => format!("{} bytes for {} s", settings.size, time.as_secs()),
        None => format!("{} x {} bytes", settings.messages(), settings.size),
    };
    if let Some(rate) = settings.rate {
        let _ = write!(text, " at {rate} /s");
    }
    if (settings.publishers, settings.consumers, settings.queues) != (1, 1, 1) {
        let (publishers, consumers, queues) = (settings.publishers, settings.consumers, settings.queues);
        let _ = write!(text, ", {publishers} publishers, {consumers} consumers, {queues} queues");
    }
    if settings.other_queues > 0 {
        let _ = write!(text, ", {} other queues", settings.other_queues);
    }
    if settings.exchange != Exchange::Default {
        let (kind, bindings) = (settings.exchange.kind(), settings.bindings);
        let matching = if settings.exchange == Exchange::Fanout { settings.queues } else { 1 };
        let _ = write!(text, ", {kind} exchange with {bindings} bindings of which {matching} match a message");
    }
    if settings.routing_keys > 1 {
        let _ = write!(text, ", {} routing keys in turn", settings.routing_keys);
    }
    if settings.properties != MessageProperties::default() {
        text += ", with properties";
    }
    if let Some(length) = settings.max_length {
        let _ = write!(text, ", at most {length} in a queue");
    }
    text += if settings.durable { ", persistent, durable queue" } else { ", transient, transient queue" };
    let prefetch = settings.prefetch;
    let _ = match (settings.protocol, settings.confirm_window) {
        (Protocol::Amqp091, 0) => write!(text, ", no confirms"),
        (Protocol::Amqp091, window) => write!(text, ", confirm window {window}"),
        (Protocol::Stream, window) => write!(text, ", {window} unconfirmed at most"),
        (Protocol::Amqp10, 0) => write!(text, ", sent settled"),
        (Protocol::Amqp10, window) => write!(text, ", {window} unsettled at most"),
    };
    let _ = match (settings.protocol, settings.ack_every) {
        (Protocol::Amqp091, 0) => write!(text, ", automatic acks"),
        (Protocol::Amqp091, every) => write!(text, ", prefetch {prefetch}, acks every {every}"),
        (Protocol::Stream, _) => write!(text, ", credit of {prefetch} chunks"),
        (Protocol::Amqp10, 0) => write!(text, ", link credit {prefetch}, received settled"),
        (Protocol::Amqp10, every) => write!(text, ", link credit {prefetch}, accepted every {every}"),
    };
    text
}
