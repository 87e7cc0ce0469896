//! `/api/deprecated-features`: features that RabbitMQ deprecates, and whether they are permitted here.

use leveret_broker::Settings;
use leveret_model::{Queue, Topology};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult};
use crate::list;

/// A feature that RabbitMQ deprecates.
struct Feature {
    name: &'static str,
    /// RabbitMQ's plan for it.
    phase: &'static str,
    is_permitted: fn(&Settings) -> bool,
    /// Whether a queue uses it; `None` if queues don't.
    is_used_by: Option<fn(&Queue) -> bool>,
}

impl Feature {
    const fn new(name: &'static str, phase: &'static str, is_permitted: fn(&Settings) -> bool) -> Self {
        Self { name, phase, is_permitted, is_used_by: None }
    }

    const fn of_queues(self, is_used_by: fn(&Queue) -> bool) -> Self {
        Self { is_used_by: Some(is_used_by), ..self }
    }

    fn is_used(&self, topology: &Topology) -> bool {
        self.is_used_by.is_some_and(|is_used_by| {
            topology.vhosts().any(|vhost| topology.queues(vhost).any(|queue| is_used_by(queue)))
        })
    }
}

const FEATURES: &[Feature] = &[
    Feature::new("amqp_address_v1", "denied_by_default", |settings| settings.amqp_address_v1),
    Feature::new("amqp_filter_set_bug", "denied_by_default", |_| false),
    Feature::new("classic_queue_mirroring", "removed", |_| false),
    Feature::new("global_qos", "denied_by_default", |settings| settings.global_prefetch.is_shared()),
    Feature::new("management_metrics_collection", "permitted_by_default", |_| true),
    Feature::new("queue_master_locator", "denied_by_default", |settings| settings.limits.deprecated.master_locator)
        .of_queues(|queue| queue.arguments.get("x-queue-master-locator").is_some()),
    Feature::new("ram_node_type", "removed", |_| false),
    Feature::new("transient_nonexcl_queues", "permitted_by_default", |settings| {
        settings.limits.deprecated.transient_queues
    })
    .of_queues(|queue| !queue.durable && !queue.is_exclusive()),
];

/// GET.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let settings = &call.api.broker().settings;
    list::values(&call.query, FEATURES.iter().map(|feature| view(feature, settings)).collect())
}

/// GET: those that are in use.
pub(crate) async fn used(call: Call) -> HandlerResult {
    let (settings, topology) = (&call.api.broker().settings, call.api.topology());
    let used = FEATURES.iter().filter(|feature| feature.is_used(&topology));
    list::values(&call.query, used.map(|feature| view(feature, settings)).collect())
}

fn view(feature: &Feature, settings: &Settings) -> Value {
    json!({
        "name": feature.name,
        "desc": "",
        "doc_url": "",
        "deprecation_phase": feature.phase,
        "state": if (feature.is_permitted)(settings) { "permitted" } else { "denied" },
        "provided_by": "rabbit",
    })
}
