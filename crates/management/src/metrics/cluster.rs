//! Families that exist once per cluster.

use std::sync::Arc;

use leveret_broker::registry::Snapshot;
use leveret_metrics::Kind::Gauge;
use leveret_model::Exchange;

use super::family::{Family, Group};

/// Vhosts, all of which are running.
pub(super) const VHOSTS: Group<Arc<str>> = Group {
    name: "vhost_status",
    labels: &["vhost"],
    label: |vhost| vec![vhost],
    families: &[Family::each("vhost_status", Gauge, "Whether a given vhost is running", |_| Some(1u64.into()))],
};

/// An exchange, and the number of bindings that it is the source of.
pub(super) struct Bound {
    exchange: Arc<Exchange>,
    bindings: u64,
}

impl Bound {
    fn labels(&self) -> Vec<&str> {
        vec![&self.exchange.vhost, &self.exchange.name, self.exchange.kind.name()]
    }
}

/// Every exchange except the default ones.
pub(super) fn rows(snapshot: &Snapshot) -> Vec<Bound> {
    let topology = &snapshot.topology;
    let exchanges = topology.vhosts().flat_map(|vhost| topology.exchanges(vhost));
    let named = exchanges.filter(|exchange| !exchange.name.is_empty());
    let bound = named.map(|exchange| Bound {
        exchange: exchange.clone(),
        bindings: topology.bindings_of_source(&exchange.vhost, &exchange.name).count() as u64,
    });
    bound.collect()
}

const EXCHANGE_LABELS: &[&str] = &["vhost", "exchange", "type"];

/// Exchanges.
pub(super) const EXCHANGES: Group<Bound> = Group {
    name: "exchange_names",
    labels: EXCHANGE_LABELS,
    label: Bound::labels,
    families: &[Family::each("exchange_name", Gauge, "Enumerates exchanges without any additional info", |_| {
        Some(1u64.into())
    })],
};

/// Number of bindings of each exchange.
pub(super) const BINDINGS: Group<Bound> = Group {
    name: "exchange_bindings",
    labels: EXCHANGE_LABELS,
    label: Bound::labels,
    families: &[Family::each("exchange_bindings", Gauge, "Number of bindings for an exchange", |bound| {
        Some(bound.bindings.into())
    })],
};
