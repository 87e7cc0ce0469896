//! Features that RabbitMQ deprecates, as far as declarations use them: they can be refused by configuration.

use crate::{Refused, RefusedKind};

/// Deprecated features that declarations of queues may use (`deprecated_features.permit.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeprecatedFeatures {
    /// Queues that are neither durable nor exclusive (`transient_nonexcl_queues`).
    pub transient_queues: bool,
    /// The argument `x-queue-master-locator` of classic queues (`queue_master_locator`).
    pub master_locator: bool,
}

impl Default for DeprecatedFeatures {
    /// As RabbitMQ 4.3 permits them.
    fn default() -> Self {
        Self { transient_queues: true, master_locator: false }
    }
}

impl DeprecatedFeatures {
    /// Refuses a new queue that is neither durable nor exclusive, if that isn't permitted.
    pub(crate) fn check_queue(self, durable: bool, exclusive: bool) -> Result<(), Refused> {
        match durable || exclusive || self.transient_queues {
            true => Ok(()),
            false => Err(Refused::new(
                RefusedKind::InternalError,
                "Feature `transient_nonexcl_queues` is deprecated.\nIts use is not permitted per the configuration (overriding \
                 the default, which is permitted):\n    \"deprecated_features.permit.transient_nonexcl_queues = false\"\n\
                 Declare the queue as durable or exclusive.",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transient_queue_needs_the_permission_only_without_an_owner() {
        let denied = DeprecatedFeatures { transient_queues: false, ..DeprecatedFeatures::default() };
        for (durable, exclusive) in [(true, false), (true, true), (false, true)] {
            assert_eq!(denied.check_queue(durable, exclusive), Ok(()));
        }
        let refused = denied.check_queue(false, false).expect_err("it isn't permitted");
        assert_eq!(refused.kind, RefusedKind::InternalError);
        assert!(refused.text.starts_with("Feature `transient_nonexcl_queues` is deprecated.\n"), "{refused}");
        assert_eq!(DeprecatedFeatures::default().check_queue(false, false), Ok(()));
    }
}
