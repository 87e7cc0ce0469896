//! Differences between the types of queues whose messages leave when they are settled.

use leveret_model::{QueueOptions, QueueType};

use crate::priorities::PriorityLevels;

/// The rules of a type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// How often a message was handed out, and how often that failed, is counted in the log: the counts survive a restart.
    pub(crate) logs_attempts: bool,
    /// Messages are delivered by these priorities.
    pub(crate) priorities: Option<PriorityLevels>,
    /// Messages that come back go to their old places. Otherwise they are delivered first, in the order in which they came back.
    pub(crate) returns_in_place: bool,
    /// Messages with a time of delivery wait until then.
    pub(crate) delays: bool,
    /// All messages have such a time, and leave for an exchange then. No other time applies to them.
    pub(crate) releases: bool,
    /// It has the last messages of a recent history exchange: no time and no priority of a message counts.
    pub(crate) remembers: bool,
    /// An exclusive consumer keeps others away. RabbitMQ ignores the flag for quorum queues.
    pub(crate) has_exclusive_consumers: bool,
    /// A consumer of a higher priority replaces the single active one, once that has settled its deliveries.
    pub(crate) replaces_active: bool,
    /// Receivers are told whether they are active: at their first credit, and when it changes.
    pub(crate) tells_activity: bool,
    /// The number of messages that were deleted with the queue counts those that consumers had, too.
    pub(crate) deletes_unacknowledged: bool,
}

impl Rules {
    /// The rules of a queue.
    pub(crate) fn of(options: &QueueOptions) -> Self {
        match options.queue_type {
            QueueType::Classic => Self {
                logs_attempts: false,
                priorities: options.max_priority.map(PriorityLevels::classic),
                returns_in_place: true,
                delays: false,
                releases: false,
                remembers: false,
                has_exclusive_consumers: true,
                replaces_active: false,
                tells_activity: false,
                deletes_unacknowledged: false,
            },
            QueueType::Quorum => Self {
                logs_attempts: true,
                priorities: Some(PriorityLevels::QUORUM),
                returns_in_place: options.returns_in_place,
                delays: !options.remembers,
                releases: options.releases,
                remembers: options.remembers,
                has_exclusive_consumers: false,
                replaces_active: true,
                tells_activity: true,
                deletes_unacknowledged: true,
            },
            QueueType::Stream => unreachable!("a stream is another machine"),
        }
    }
}
