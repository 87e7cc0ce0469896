//! The arguments of classic queues.

use super::{State, Table};
use crate::QueueType;

pub(super) const TABLE: Table = Table {
    queue_type: QueueType::Classic,
    arguments: &[
        ("x-cache-size", State::Working),
        ("x-cache-ttl", State::Working),
        ("x-dead-letter-exchange", State::Working),
        ("x-dead-letter-routing-key", State::Working),
        ("x-deduplication-header", State::Working),
        ("x-durability", State::Working),
        ("x-expires", State::Working),
        ("x-max-length", State::Working),
        ("x-max-length-bytes", State::Working),
        ("x-max-priority", State::Working),
        ("x-message-deduplication", State::Working),
        ("x-message-ttl", State::Working),
        ("x-overflow", State::Working),
        ("x-publisher-deduplication", State::Working),
        ("x-queue-leader-locator", State::Working),
        (
            "x-queue-master-locator",
            State::Deprecated(
                "Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted anymore.",
            ),
        ),
        ("x-queue-mode", State::Working),
        ("x-queue-type", State::Working),
        ("x-queue-version", State::Working),
        ("x-single-active-consumer", State::Working),
    ],
    compared: &[
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
        "x-queue-leader-locator",
        "x-durability",
        "x-message-deduplication",
        "x-cache-size",
        "x-cache-ttl",
        "x-deduplication-header",
        "x-publisher-deduplication",
    ],
};
