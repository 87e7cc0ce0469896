//! Streams by RabbitMQ's clients of AMQP 1.0. The Go client's own suite covers them; those of Java and Python are published
//! without one.

use leveret_tests::cell::{self, Transport};
use leveret_tests::table::{Scenario, TABLES};
use libtest_mimic::{Failed, Trial};

use super::command;

const CLIENTS: [&str; 2] = ["rabbitmq-java", "rabbitmq-python"];

const SCENARIOS: [Scenario; 2] = [
    Scenario::new("stream_offsets", "each kind of offset, and reads take nothing away"),
    Scenario::new("stream_filters", "filter values, properties and SQL; a wrong expression is refused"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let clients = TABLES.iter().flat_map(|table| table.clients).filter(|client| CLIENTS.contains(&client.name));
    let cells = clients.flat_map(|client| SCENARIOS.iter().map(move |scenario| (client, scenario)));
    let trial = |(client, scenario): (&'static leveret_tests::table::ClientLibrary, &'static Scenario)| {
        Trial::test(format!("streams::{}::{}", client.name, scenario.name), move || {
            cell::run(command(client.program), scenario, Transport::Plain).map_err(Failed::from)
        })
    };
    cells.map(trial).collect()
}
