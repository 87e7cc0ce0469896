//! The node's memory by use, as far as it is distinguished.

use leveret_metrics::Kind::Gauge;
use leveret_metrics::Sample;

use super::family::{Family, Group};
use super::node::Node;

type Of = Family<()>;

/// The parts; their sum is the resident memory.
pub(super) const MEMORY: Group<()> = Group {
    name: "",
    labels: &[],
    label: |()| Vec::new(),
    families: &[
        Of::total(
            "memory_client_connection_reader_bytes",
            Gauge,
            "Memory held for connections that haven't logged in, in bytes",
            |node| parts(node)[0].into(),
        ),
        Of::total("memory_binary_heap_bytes", Gauge, "Memory held by messages of queues, in bytes", |node| {
            parts(node)[1].into()
        }),
        Of::total("memory_other_system_bytes", Gauge, "All other resident memory in bytes", other),
    ],
};

fn parts(node: &Node) -> [u64; 2] {
    let broker = node.api.broker();
    [broker.unauthenticated.bytes(), broker.budget.used()]
}

fn other(node: &Node) -> Sample {
    node.resident_bytes.saturating_sub(parts(node).iter().sum()).into()
}
