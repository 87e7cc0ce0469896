//! Families of exchanges.

use std::sync::Arc;

use leveret_broker::exchange_counters::ExchangeCounters;
use leveret_broker::registry::Snapshot;
use leveret_metrics::Kind::Counter;
use leveret_model::Exchange;

use super::family::{Family, Group};
use super::filters::Filters;

type Of = Family<ExchangeRow>;

/// An exchange that was published to.
pub(super) struct ExchangeRow {
    exchange: Arc<Exchange>,
    through: Arc<ExchangeCounters>,
}

/// Exchanges that were published to, in the vhosts that a scrape asks for.
pub(super) fn rows(snapshot: &Snapshot, filters: &Filters) -> Vec<ExchangeRow> {
    let vhosts = filters.vhosts(snapshot);
    let exchanges = vhosts.iter().flat_map(|vhost| snapshot.topology.exchanges(vhost));
    let counted = exchanges.filter_map(|exchange| {
        let through = snapshot.exchanges.get(&exchange.id)?.clone();
        (through.published_in.value() > 0).then(|| ExchangeRow { exchange: exchange.clone(), through })
    });
    counted.collect()
}

/// Messages through exchanges. Totals are counted by the node, so that they don't decrease when an exchange is
/// deleted.
pub(super) const EXCHANGES: Group<ExchangeRow> = Group {
    name: "exchange_metrics",
    labels: &["vhost", "exchange"],
    label: |row| vec![&row.exchange.vhost, &row.exchange.name],
    families: &[
        Of::both(
            "exchange_messages_published_total",
            Counter,
            "Total number of messages published into an exchange",
            |node| node.totals.published.into(),
            |row| Some(row.through.published_in.value().into()),
        ),
        Of::total(
            "exchange_messages_confirmed_total",
            Counter,
            "Total number of messages published into an exchange and confirmed",
            |node| node.totals.confirmed.into(),
        ),
        Of::both(
            "exchange_messages_unroutable_returned_total",
            Counter,
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            |node| node.totals.unroutable_returned.into(),
            |row| Some(row.through.unroutable_returned.value().into()),
        ),
        Of::both(
            "exchange_messages_unroutable_dropped_total",
            Counter,
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            |node| node.totals.unroutable_dropped.into(),
            |row| Some(row.through.unroutable_dropped.value().into()),
        ),
    ],
};
