use super::Key;
use super::working::key;
use crate::units::boolean;

/// The keys of features that RabbitMQ deprecates.
pub(super) const KEYS: &[Key] = &[
    key(
        "deprecated_features.permit.amqp_address_v1",
        "boolean",
        "false",
        "whether AMQP 1.0 addresses of RabbitMQ 3 are accepted",
        |config, _, value| {
            config.amqp10.address_v1 = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "deprecated_features.permit.global_qos",
        "boolean",
        "",
        "whether the consumers of a channel share a prefetch that is set with the flag global, see differences.md; false gives it to \
         each consumer; true also refuses such consumers of quorum queues and streams",
        |config, _, value| {
            config.deprecated.global_qos = Some(boolean(value)?);
            Ok(())
        },
    ),
    key(
        "deprecated_features.permit.queue_master_locator",
        "boolean",
        "false",
        "whether the argument x-queue-master-locator of classic queues is accepted; it has no effect",
        |config, _, value| {
            config.deprecated.master_locator = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "deprecated_features.permit.transient_nonexcl_queues",
        "boolean",
        "true",
        "whether queues that are neither durable nor exclusive can be declared",
        |config, _, value| {
            config.deprecated.transient_queues = boolean(value)?;
            Ok(())
        },
    ),
];
