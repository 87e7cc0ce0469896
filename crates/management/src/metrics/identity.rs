//! The identity of the node, which dashboards join with other metrics.

use leveret_metrics::{Kind, Name, Text};

use crate::api::Api;

/// There is no Erlang version; dashboards show the label, and an empty one would be missing.
const NO_ERLANG: &str = "none";

/// Name, help text and labels.
pub(super) const FAMILIES: [(&str, &str, &[&str]); 2] = [
    (
        "build_info",
        "RabbitMQ & Erlang/OTP version info",
        &["rabbitmq_version", "prometheus_plugin_version", "prometheus_client_version", "erlang_version"],
    ),
    (
        "identity_info",
        "RabbitMQ node & cluster identity info",
        &["rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"],
    ),
];

/// Writes both families; `endpoint` is RabbitMQ's name of the page.
pub(super) fn write(api: &Api, endpoint: &str, text: &mut Text) {
    let version = &*api.broker().settings.version;
    let build = [version, version, env!("CARGO_PKG_VERSION"), NO_ERLANG];
    let topology = api.topology();
    let permanent_id = topology.global_parameter("internal_cluster_id").and_then(|id| id.as_str().map(str::to_owned));
    let permanent_id = permanent_id.unwrap_or_default();
    let cluster = api.cluster_name();
    let identity = [api.name(), &cluster, &permanent_id, endpoint];
    for ((name, help, labels), values) in FAMILIES.into_iter().zip([build, identity]) {
        let name = Name("rabbitmq_", name);
        text.family(name, Kind::Untyped, help);
        let labels: Vec<_> = labels.iter().copied().zip(values).collect();
        text.sample(name, &labels, 1u64);
    }
}
