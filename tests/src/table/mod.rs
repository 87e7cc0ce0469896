//! The tables of scenarios by clients, one per protocol, and their text in tests/README.md.

mod amqp091;
mod amqp10;
mod frameworks;
mod jms;
mod mqtt;
mod streams;

use std::fmt::Write as _;
use std::fs;

use crate::{allow, cell};

/// Every table.
pub const TABLES: [&Table; 6] =
    [&amqp091::TABLE, &amqp10::TABLE, &jms::TABLE, &frameworks::TABLE, &streams::TABLE, &mqtt::TABLE];

/// The clients of one protocol and the scenarios that each of them runs.
#[derive(Debug)]
pub struct Table {
    /// The protocol.
    pub title: &'static str,
    /// The columns.
    pub clients: &'static [ClientLibrary],
    /// The rows.
    pub scenarios: &'static [Scenario],
    /// The rows that every run repeats over TLS.
    pub over_tls: &'static [&'static str],
    /// The rows that every run repeats with quorum queues.
    pub with_quorum_queues: &'static [&'static str],
}

/// A client library, with the version pinned in tests/clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientLibrary {
    /// The name in test names, and the folder in tests/clients.
    pub name: &'static str,
    /// Its description.
    pub library: &'static str,
    /// Its program.
    pub program: Program,
    /// Whether RabbitMQ refuses its connections.
    pub leveret_only: bool,
}

impl ClientLibrary {
    const fn leveret_only(mut self) -> Self {
        self.leveret_only = true;
        self
    }
}

/// The kind of a client's program. `make -C tests/clients install` installs them.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// A script in tests/clients, run by the interpreter of the virtual environment.
    Python(&'static str),
    /// A script in tests/clients.
    Node(&'static str),
    /// A script in tests/clients.
    Ruby(&'static str),
    /// A script in tests/clients.
    Php(&'static str),
    /// A program in tests/clients/.installed.
    Installed(&'static str),
    /// A class of the Maven project in this folder of tests/clients; its class path is in `.installed/FOLDER.classpath`.
    Java {
        /// The folder.
        folder: &'static str,
        /// The class with `main`.
        main: &'static str,
    },
    /// A binary of this crate.
    Ours(&'static str),
}

/// A scenario, and its description.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name, which the programs know.
    pub name: &'static str,
    /// A description in one line.
    pub shows: &'static str,
    /// Settings of the broker.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether RabbitMQ can't do it.
    pub leveret_only: bool,
    /// Whether it kills or stops the broker.
    pub stops_the_broker: bool,
    /// Whether it stops the broker in order, which the harness then waits for.
    pub terminates_the_broker: bool,
    /// Whether the program speaks the stream protocol, and gets a URI of its listener.
    pub over_streams: bool,
    /// Whether the program speaks MQTT, and gets a URI of its listener.
    pub over_mqtt: bool,
}

impl Scenario {
    /// A scenario with the default settings, which a RabbitMQ can do too.
    pub const fn new(name: &'static str, shows: &'static str) -> Self {
        Self {
            name,
            shows,
            settings: &[],
            leveret_only: false,
            stops_the_broker: false,
            terminates_the_broker: false,
            over_streams: false,
            over_mqtt: false,
        }
    }

    /// Whether a broker that is given from outside can run it.
    pub fn runs_on_a_given_broker(&self) -> bool {
        let needs_node = self.stops_the_broker || self.over_streams || self.over_mqtt;
        !self.leveret_only && !needs_node && self.settings.is_empty()
    }

    const fn with(mut self, settings: &'static [(&'static str, &'static str)]) -> Self {
        self.settings = settings;
        self
    }

    /// The same for Leveret alone.
    pub const fn leveret_only(mut self) -> Self {
        self.leveret_only = true;
        self
    }

    const fn over_streams(mut self) -> Self {
        self.over_streams = true;
        self
    }

    const fn over_mqtt(mut self) -> Self {
        self.over_mqtt = true;
        self
    }

    const fn stops_the_broker(mut self) -> Self {
        self.stops_the_broker = true;
        self
    }

    const fn terminates_the_broker(mut self) -> Self {
        self.terminates_the_broker = true;
        self.stops_the_broker()
    }
}

const fn scenario(name: &'static str, shows: &'static str) -> Scenario {
    Scenario::new(name, shows)
}

const fn client(name: &'static str, library: &'static str, program: Program) -> ClientLibrary {
    ClientLibrary { name, library, program, leveret_only: false }
}

/// The reason why a cell doesn't run, from the client's `cannot.txt`; `None` if it does.
///
/// # Panics
/// If a line has no reason.
pub fn exception(client: &ClientLibrary, scenario: &str) -> Option<String> {
    exceptions(client).remove(scenario)
}

fn exceptions(client: &ClientLibrary) -> std::collections::BTreeMap<String, String> {
    let path = cell::clients().join(client.name).join("cannot.txt");
    fs::read_to_string(path).map(|text| allow::parse(&text)).unwrap_or_default()
}

/// Exceptions that name no scenario of any table with their client.
pub fn strays() -> Vec<String> {
    let mut strays = Vec::new();
    for client in TABLES.into_iter().flat_map(|table| table.clients) {
        let of = TABLES.into_iter().filter(|table| table.clients.iter().any(|other| other.name == client.name));
        let known: Vec<_> = of.flat_map(|table| table.scenarios).map(|scenario| scenario.name).collect();
        let unknown = exceptions(client).into_keys().filter(|name| !known.contains(&name.as_str()));
        strays.extend(unknown.map(|name| format!("{}: {name}", client.name)));
    }
    strays
}

impl Table {
    /// The table as in tests/README.md.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| scenario | shows |");
        for client in self.clients {
            let _ = write!(text, " {} |", client.library);
        }
        text.push_str("\n| --- | --- |");
        text.push_str(&" --- |".repeat(self.clients.len()));
        text.push('\n');
        for scenario in self.scenarios {
            let _ = write!(text, "| {} | {} |", scenario.name, scenario.shows);
            for client in self.clients {
                let _ = write!(text, " {} |", exception(client, scenario.name).as_deref().unwrap_or("runs"));
            }
            text.push('\n');
        }
        text
    }
}
