//! The time for which a consumer may leave a delivery unsettled. Then its queue takes the message back.

use leveret_model::{QueueOptions, QueueType};

use crate::time::Nanos;

const NANOS_PER_MS: u64 = 1_000_000;

/// The setting that a timeout comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutSetting {
    /// The consumer's own: `x-consumer-timeout` of `basic.consume`, or `rabbitmq:consumer-timeout` of a link.
    Consumer,
    /// The queue's argument `x-consumer-timeout`, or `consumer-timeout` of its policy.
    Queue,
    /// The node's `consumer_timeout`.
    Node,
}

impl TimeoutSetting {
    /// The setting as log lines name it.
    pub fn named(self) -> &'static str {
        match self {
            Self::Consumer => "the consumer's own timeout",
            Self::Queue => "consumer-timeout of the queue or its policy",
            Self::Node => "consumer_timeout in rabbitmq.conf",
        }
    }
}

/// The timeout of a consumer, or of a queue's `basic.get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerTimeout {
    /// Milliseconds; `None` for the node's setting, which may change meanwhile.
    fixed_ms: Option<u64>,
    /// Where it comes from.
    pub setting: TimeoutSetting,
}

impl ConsumerTimeout {
    /// The timeout of a consumer with `own_ms` on this queue: its own wins over the queue's, and that over the node's. As in RabbitMQ
    /// 4.3 only quorum queues take messages back: `None` for others.
    pub fn of(queue: &QueueOptions, own_ms: Option<u64>) -> Option<Self> {
        if queue.queue_type != QueueType::Quorum {
            return None;
        }
        let setting = match (own_ms, queue.consumer_timeout_ms) {
            (Some(_), _) => TimeoutSetting::Consumer,
            (None, Some(_)) => TimeoutSetting::Queue,
            (None, None) => TimeoutSetting::Node,
        };
        Some(Self { fixed_ms: own_ms.or(queue.consumer_timeout_ms), setting })
    }

    /// Milliseconds, where those of the node are `node_ms`.
    pub fn ms(self, node_ms: u64) -> u64 {
        self.fixed_ms.unwrap_or(node_ms)
    }

    /// Nanoseconds, where those of the node are `node_ms` milliseconds.
    pub fn nanos(self, node_ms: u64) -> Nanos {
        self.ms(node_ms).saturating_mul(NANOS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use leveret_model::{Arguments, Value};

    use super::*;

    fn queue(queue_type: &'static str, timeout_ms: Option<i64>) -> QueueOptions {
        let timeout = timeout_ms.map(|timeout_ms| ("x-consumer-timeout", Value::Int(timeout_ms)));
        let arguments = Arguments::from_iter([("x-queue-type", Value::from(queue_type))].into_iter().chain(timeout));
        QueueOptions::effective(&arguments)
    }

    #[test]
    fn the_nearest_setting_wins_even_if_it_is_longer() {
        let of = |queue: &QueueOptions, own_ms| {
            ConsumerTimeout::of(queue, own_ms).map(|timeout| (timeout.ms(1_800_000), timeout.setting))
        };
        let with = queue("quorum", Some(1500));
        assert_eq!(of(&with, Some(4000)), Some((4000, TimeoutSetting::Consumer)));
        assert_eq!(of(&with, None), Some((1500, TimeoutSetting::Queue)));
        let without = queue("quorum", None);
        assert_eq!(of(&without, Some(0)), Some((0, TimeoutSetting::Consumer)));
        assert_eq!(of(&without, None), Some((1_800_000, TimeoutSetting::Node)));
        assert_eq!(of(&queue("classic", None), None), None);
    }
}
