//! Compares docs/metrics.md with the tables.

use std::fmt::Write;

use leveret_metrics::Kind;

use super::family::Group;
use super::{clients, cluster, exchanges, global, identity, memory, node, own, placements, queues, telemetry};

struct Table {
    text: String,
}

impl Table {
    fn row(&mut self, name: &str, kind: Kind, labels: &str, pages: &str, help: &str) {
        let help = help.replace('|', "\\|");
        writeln!(self.text, "| `{name}` | {} | {labels} | {pages} | {help} |", kind.name()).expect("a string takes it");
    }

    /// A group's families; `pages` are those besides `/metrics/detailed`.
    fn group<R>(&mut self, prefix: &str, group: &Group<R>, pages: &str) {
        for family in group.families {
            let mut shown = Vec::new();
            match (family.total.is_some(), family.each.is_some()) {
                (true, true) => shown.push("sum, each"),
                (true, false) if group.labels.is_empty() => shown.push(pages),
                (true, false) => shown.push("sum"),
                _ => shown.push(pages),
            }
            let detailed = format!("`{}`", group.name);
            if !group.name.is_empty() && (group.labels.is_empty() || family.each.is_some()) {
                shown.push(&detailed);
            }
            shown.retain(|page| !page.is_empty());
            let labels = if family.each.is_some() { group.labels } else { &[] };
            let name = format!("{prefix}{}", family.name);
            self.row(&name, family.kind, &labels.join(", "), &shown.join(", "), family.help);
        }
    }
}

const BOTH: &str = "sum, each";

fn table() -> String {
    let mut table = Table { text: String::new() };
    table.text.push_str("| family | type | labels of each | pages | meaning |\n| --- | --- | --- | --- | --- |\n");
    let rabbitmq = "rabbitmq_";
    let info = |table: &mut Table, (name, help, labels): (&str, &str, &[&str])| {
        table.row(&format!("{rabbitmq}{name}"), Kind::Untyped, &labels.join(", "), "all", help);
    };
    identity::FAMILIES.into_iter().for_each(|family| info(&mut table, family));
    for group in [&node::COUNTS, &node::CHURN, &node::COARSE, &node::LIMITS, &node::PERSISTER] {
        table.group(rabbitmq, group, BOTH);
    }
    table.group("", &node::PLAIN, BOTH);
    for (name, help) in global::LOGINS {
        let pages = format!("{BOTH}, `{}`", global::LOGINS_GROUP);
        table.row(&format!("{rabbitmq}{name}"), Kind::Counter, "protocol", &pages, help);
    }
    let refusals = format!("{rabbitmq}{}", global::refusals("stream", "*"));
    table.row(
        &refusals,
        Kind::Counter,
        "protocol",
        BOTH,
        "Total number of commands of the stream protocol failed with this code",
    );
    for family in global::FAMILIES {
        let labels = if family.by_queue_type() { "protocol, queue_type" } else { "protocol" };
        table.row(&format!("{rabbitmq}{}", family.name), family.kind, labels, BOTH, family.help);
    }
    for (name, help, _) in global::DEATHS {
        table.row(&format!("{rabbitmq}{name}"), Kind::Counter, &global::DEATH_LABELS.join(", "), BOTH, help);
    }
    let (name, help) = global::CONFIRMED;
    table.row(&format!("{rabbitmq}{name}"), Kind::Counter, &global::DEATH_LABELS.join(", "), BOTH, help);
    let (name, kind, help) = global::SIZES;
    table.row(&format!("{rabbitmq}{name}"), kind, "protocol, le", BOTH, help);
    for group in [&queues::COARSE, &queues::SIZES, &queues::INFO, &queues::DELIVERY, &queues::PUBLISHED] {
        table.group(rabbitmq, group, "each");
    }
    table.group(rabbitmq, &queues::PUBLISHED_BY_EXCHANGE, "each");
    table.group(rabbitmq, &queues::STREAM_CONSUMERS, "each");
    table.group(rabbitmq, &queues::RAFT, "each");
    table.group(rabbitmq, &exchanges::EXCHANGES, "each");
    table.group(rabbitmq, &clients::BYTES, "each");
    table.group(rabbitmq, &clients::CONNECTIONS, "each");
    table.group(rabbitmq, &clients::CHANNELS, "each");
    table.group(rabbitmq, &clients::CHANNEL_PUBLISHES, "each");
    table.group(rabbitmq, &clients::CHANNEL_DELIVERIES, "each");
    table.group("rabbitmq_cluster_", &cluster::VHOSTS, "");
    table.group("rabbitmq_cluster_", &cluster::EXCHANGES, "");
    table.group("rabbitmq_cluster_", &cluster::BINDINGS, "");
    table.group(rabbitmq, &memory::MEMORY, "memory");
    table.group(own::PREFIX, &own::OWN, BOTH);
    table.group(own::PREFIX, &own::OF_QUEUES, "each");
    for (name, kind, help, label) in own::LABELLED {
        let label = if kind == Kind::Histogram { "le" } else { label };
        table.row(&format!("{}{name}", own::PREFIX), kind, label, BOTH, help);
    }
    for (name, kind, help, label) in placements::documented() {
        table.row(&name, kind, label, BOTH, help);
    }
    for (name, kind, help) in telemetry::FAMILIES {
        table.row(name, kind, &telemetry::LABELS.join(", "), "all", help);
    }
    table.text
}

/// `UPDATE_DOCS=1` writes the tables there.
#[test]
fn the_page_has_the_table() {
    const BEGIN: &str = "<!-- the table of families: written by `UPDATE_DOCS=1 cargo test -p leveret-management` -->\n";
    const END: &str = "<!-- end of table -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("docs/metrics.md");
    let (head, rest) = page.split_once(BEGIN).expect("the table begins");
    let (had, tail) = rest.split_once(END).expect("the table ends");
    let wanted = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{wanted}{END}{tail}")).expect("is written");
    } else {
        assert_eq!(had, wanted, "docs/metrics.md is old: UPDATE_DOCS=1 cargo test -p leveret-management");
    }
}
