//! `/api/feature-flags`: the flags that are permanently on here.

use serde_json::json;

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::list;

/// Flags of RabbitMQ 4.3 whose behaviour we have. Unsupported features, such as quorum queues of several members,
/// have no flag.
const FLAGS: &[(&str, &str)] = &[
    ("classic_queue_type_delivery_support", "Bug fix for classic queue deliveries using mixed versions"),
    ("detailed_queues_endpoint", "Add a detailed queues HTTP API endpoint"),
    ("direct_exchange_routing_v2", "Direct exchanges route by an index"),
    ("drop_unroutable_metric", "Count unroutable publishes to be dropped in stats"),
    ("empty_basic_get_metric", "Count AMQP `basic.get` on empty queues in stats"),
    ("feature_flags_v2", "Feature flags subsystem"),
    ("implicit_default_bindings", "Default bindings are implicit, instead of being stored"),
    ("maintenance_mode_status", "Maintenance mode status"),
    ("message_containers", "Messages keep their publisher's encoding"),
    ("message_containers_deaths_v2", "Dead letter cycles are detected"),
    ("quorum_queue", "Support queues of type `quorum`"),
    ("rabbit_exchange_type_local_random", "Exchanges of type `x-local-random`"),
    ("rabbitmq_4.0.0", "Clients of RabbitMQ 4.0 find what they need"),
    ("rabbitmq_4.1.0", "Clients of RabbitMQ 4.1 find what they need"),
    ("rabbitmq_4.2.0", "Clients of RabbitMQ 4.2 find what they need"),
    ("rabbitmq_4.3.0", "Clients of RabbitMQ 4.3 find what they need"),
    ("stream_filtering", "Support for stream filtering."),
    ("stream_queue", "Support queues of type `stream`"),
    ("stream_sac_coordinator_unblock_group", "Bug fix to unblock a group of consumers in a super stream partition"),
    ("stream_single_active_consumer", "Single active consumer for streams"),
    ("stream_update_config_command", "A new internal command that is used to update streams as part of a policy."),
    ("user_limits", "Configure connection and channel limits for a user"),
    ("virtual_host_metadata", "Virtual host metadata (description, tags, etc)"),
];

/// Other flags that may be requested, with the feature that they need.
const NOT_BUILT: &[(&str, &str)] = &[
    ("classic_mirrored_queue_version", "mirrored queues were removed from RabbitMQ"),
    ("khepri_db", "metadata is in this broker's own log"),
    ("listener_records_in_ets", "it is about RabbitMQ's own tables"),
    ("quorum_queue_non_voters", QUORUM),
    ("restart_streams", "streams of several members aren't built yet"),
    ("tie_binding_to_dest_with_keep_while_cond", "it is about RabbitMQ's own tables"),
    ("topic_binding_projection_v4", "it is about RabbitMQ's own tables"),
    ("topic_binding_projection_v5", "it is about RabbitMQ's own tables"),
    ("track_qq_members_uids", QUORUM),
    ("tracking_records_in_ets", "it is about RabbitMQ's own tables"),
];

const QUORUM: &str = "quorum queues of several members aren't built yet";

/// GET.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let shown = FLAGS.iter().map(|(name, description)| {
        json!({
            "name": name,
            "desc": description,
            "doc_url": "",
            "state": "enabled",
            "stability": "required",
            "require_level": "hard",
            "experiment_level": "supported",
            "provided_by": "rabbit",
            "callbacks": [],
        })
    });
    list::values(&call.query, shown.collect())
}

/// PUT: enables a flag, which is already enabled.
pub(crate) async fn enable(call: Call) -> HandlerResult {
    let flag = call.word(0);
    if FLAGS.iter().any(|(name, _)| *name == flag) {
        return no_content();
    }
    Err(match NOT_BUILT.iter().find(|(name, _)| *name == flag) {
        Some((_, why)) => Error::NotImplemented(format!("feature flag '{flag}': {why}")),
        // RabbitMQ's error for an unknown name.
        None => Error::BadRequest("unsupported".to_owned()),
    })
}
