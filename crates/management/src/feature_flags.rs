//! `/api/feature-flags` and `/api/deprecated-features`: the flags that are permanently on here.

use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::list;

/// Flags of RabbitMQ 4.3 whose behaviour we have. Unsupported features, such as quorum queues, have no flag.
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
    ("quorum_queue", QUORUM),
    ("quorum_queue_non_voters", QUORUM),
    ("rabbit_exchange_type_local_random", "exchanges of type x-local-random aren't built yet"),
    ("restart_streams", "streams of several members aren't built yet"),
    ("tie_binding_to_dest_with_keep_while_cond", "it is about RabbitMQ's own tables"),
    ("topic_binding_projection_v4", "it is about RabbitMQ's own tables"),
    ("topic_binding_projection_v5", "it is about RabbitMQ's own tables"),
    ("track_qq_members_uids", QUORUM),
    ("tracking_records_in_ets", "it is about RabbitMQ's own tables"),
];

const QUORUM: &str = "quorum queues of several members aren't built yet";

/// Features that RabbitMQ deprecates: whether it still permits them by default, and whether we have them.
const DEPRECATED: &[(&str, &str, bool)] = &[
    ("amqp_address_v1", "denied_by_default", false),
    ("amqp_filter_set_bug", "denied_by_default", false),
    ("classic_queue_mirroring", "removed", false),
    ("global_qos", "denied_by_default", false),
    ("management_metrics_collection", "permitted_by_default", true),
    ("queue_master_locator", "denied_by_default", false),
    ("ram_node_type", "removed", false),
    ("transient_nonexcl_queues", "permitted_by_default", true),
];

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

/// GET.
pub(crate) async fn deprecated(call: Call) -> HandlerResult {
    list::values(&call.query, DEPRECATED.iter().map(view).collect())
}

/// GET: deprecated features in use, namely queues that are neither durable nor exclusive.
pub(crate) async fn deprecated_used(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let transient = |vhost| topology.queues(vhost).any(|queue| !queue.durable && !queue.is_exclusive());
    let used = topology.vhosts().any(|vhost| transient(vhost));
    let shown = DEPRECATED.iter().filter(|(name, ..)| used && *name == "transient_nonexcl_queues").map(view);
    list::values(&call.query, shown.collect())
}

fn view((name, phase, permitted): &(&str, &str, bool)) -> Value {
    json!({
        "name": name,
        "desc": "",
        "doc_url": "",
        "deprecation_phase": phase,
        "state": if *permitted { "permitted" } else { "denied" },
        "provided_by": "rabbit",
    })
}
