//! RabbitMQ's Overview dashboard over a node: each of its queries, in a real Prometheus, returns the right value.

mod traffic;

use std::collections::BTreeMap;

use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::prometheus::{NAMESPACE, Prometheus};

use traffic::Traffic;

const QUERIES: &str = include_str!("../../prometheus/overview.tsv");

/// Number of rounds of the same traffic, each between two scrapes.
const ROUNDS: usize = 8;

/// Tolerance of rates; counts must be exact.
const TOLERANCE: f64 = 0.1;

/// The window of every rate on the dashboard in seconds, which contains all of the traffic.
const WINDOW: f64 = 60.0;

/// Whether a rate is within the tolerance.
fn is_near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= wanted * TOLERANCE + 1e-9
}

/// A query as sent by Grafana.
fn filled_in(query: &str, cluster: &str) -> String {
    let labels = format!("rabbitmq_cluster=\"{cluster}\", namespace=\"{NAMESPACE}\", rabbitmq_endpoint=\"aggregated\"");
    let identity = "group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info";
    let joined = query.replace('@', &format!(" * on(instance, job) {identity}{{{labels}}}")).replace('#', &labels);
    joined.replace("$__rate_interval", "1m").replace("$__range", "1m")
}

struct Stage {
    prometheus: Prometheus,
    facts: BTreeMap<&'static str, f64>,
    /// The beginning of the traffic; the other field is the last scrape after its end.
    began: f64,
    ended: f64,
}

impl Stage {
    /// The error in the result of a query, if any.
    fn mistake(&self, query: &str, wanted: &str) -> Option<String> {
        let (kind, name) = wanted.split_once(' ').unwrap_or((wanted, ""));
        let fact = || *self.facts.get(name).unwrap_or_else(|| panic!("no fact is called {name}"));
        if kind == "flow" {
            let step = 0.05;
            let values = self.prometheus.range(query, self.began - 1.0, self.ended, step);
            let count: f64 = values.iter().sum::<f64>() * step;
            return (!is_near(count, fact())).then(|| format!("comes to {count} and not {}", fact()));
        }
        let elements = self.prometheus.query(query, Some(self.ended));
        let [element] = &elements[..] else { return Some(format!("{} elements", elements.len())) };
        let right = match kind {
            "is" => element.value == fact() || (element.value - fact()).abs() < 1e-9,
            "rate" => is_near(element.value * WINDOW, fact()),
            "positive" => element.value > 0.0,
            "labels" => {
                name.split(' ').all(|label| element.labels[label].as_str().is_some_and(|text| !text.is_empty()))
            }
            _ => panic!("'{kind}' is no expectation"),
        };
        (!right).then(|| format!("{element:?} is not {wanted}"))
    }
}

#[test]
fn every_query_of_the_overview_returns_the_right_value() {
    let mut node = Node::start(Options::new());
    let prometheus = Prometheus::start(&format!("127.0.0.1:{}", node.ports().prometheus));
    // Counters have to start at 0.
    prometheus.scraped();
    let began = prometheus.query("timestamp(up)", None)[0].value;
    let mut traffic = Traffic::begin(node.amqp());
    for _ in 0..ROUNDS {
        traffic.round();
        prometheus.scraped();
    }
    let facts = traffic.facts();
    prometheus.wait("sum(rabbitmq_global_messages_acknowledged_total)", facts["acknowledged"]);
    prometheus.wait("sum(rabbitmq_connections_closed_total)", facts["connections_closed"]);
    let ended = prometheus.query("timestamp(up)", None)[0].value;
    let cluster = prometheus.query("rabbitmq_identity_info", None)[0].labels["rabbitmq_cluster"].clone();
    let cluster = cluster.as_str().expect("a name").to_owned();
    let stage = Stage { prometheus, facts, began, ended };

    let mut mistakes = Vec::new();
    let queries: Vec<&str> = QUERIES.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &queries {
        let [panel, query, wanted] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("three fields: {line}") };
        let query = filled_in(query, &cluster);
        mistakes.extend(stage.mistake(&query, wanted).map(|mistake| format!("{panel}: {mistake}\n  {query}")));
    }
    assert!(queries.len() >= 45, "{} queries", queries.len());
    assert!(mistakes.is_empty(), "{} of {} queries:\n{}", mistakes.len(), queries.len(), mistakes.join("\n"));
    totals_are_exact(&stage.prometheus, &stage.facts, ended);
    conservation::check(&node.http());
    drop(traffic);
    assert!(node.terminate().success());
}

/// Checks counters by protocol, which the dashboard doesn't use.
fn totals_are_exact(prometheus: &Prometheus, facts: &BTreeMap<&'static str, f64>, ended: f64) {
    let rounds = facts["dropped"];
    for (family, amqp091, amqp10) in [
        ("messages_received_total", 20.0, 4.0),
        ("messages_received_confirm_total", 20.0, 4.0),
        ("messages_confirmed_total", 20.0, 4.0),
        ("messages_routed_total", 18.0, 4.0),
        ("messages_delivered_total", 18.0, 2.0),
        ("messages_acknowledged_total", 11.0, 2.0),
    ] {
        for (protocol, wanted) in [("amqp091", amqp091), ("amqp10", amqp10)] {
            let total = format!("sum(rabbitmq_global_{family}{{protocol=\"{protocol}\"}})");
            assert_eq!(prometheus.query(&total, Some(ended))[0].value, wanted * rounds, "{total}");
        }
    }
    for protocol in ["amqp091", "amqp10"] {
        let sizes = format!("rabbitmq_message_size_bytes_count{{protocol=\"{protocol}\"}}");
        let received = format!("rabbitmq_global_messages_received_total{{protocol=\"{protocol}\"}}");
        assert_eq!(prometheus.query(&sizes, Some(ended))[0].value, prometheus.query(&received, Some(ended))[0].value);
    }
}
