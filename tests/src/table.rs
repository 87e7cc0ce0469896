//! The tables of scenarios by clients, one per protocol, and their form in tests/README.md.

mod amqp091;
mod amqp10;
mod frameworks;
mod jms;

use std::fmt::Write as _;
use std::fs;

use crate::{allow, cell};

/// Every table.
pub const TABLES: [&Table; 4] = [&amqp091::TABLE, &amqp10::TABLE, &jms::TABLE, &frameworks::TABLE];

/// The clients of one protocol and the scenarios that each of them runs.
#[derive(Debug)]
pub struct Table {
    /// The protocol.
    pub title: &'static str,
    /// The columns.
    pub clients: &'static [Client],
    /// The rows.
    pub scenarios: &'static [Scenario],
    /// The rows that every run repeats over TLS.
    pub over_tls: &'static [&'static str],
}

/// A client library with the version that is pinned in tests/clients.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// The name in test names, and the folder in tests/clients.
    pub name: &'static str,
    /// What it is.
    pub library: &'static str,
    /// What starts it.
    pub program: Program,
}

/// How a client's program starts. `make -C tests/clients install` puts the parts in place.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// A script in tests/clients, by the interpreter of the virtual environment.
    Python(&'static str),
    /// A script in tests/clients.
    Node(&'static str),
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

/// A scenario and what it shows.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name that the programs know.
    pub name: &'static str,
    /// One line.
    pub shows: &'static str,
    /// What the broker is started with.
    pub settings: &'static [(&'static str, &'static str)],
    /// RabbitMQ can't do it.
    pub leveret_only: bool,
    /// It kills or stops the broker.
    pub stops_the_broker: bool,
    /// It has the broker stopped in order, which the harness then waits for.
    pub terminates_the_broker: bool,
}

impl Scenario {
    /// False for what a broker that is given from outside can't be asked.
    pub fn runs_on_a_given_broker(&self) -> bool {
        !self.leveret_only && !self.stops_the_broker && self.settings.is_empty()
    }

    const fn with(mut self, settings: &'static [(&'static str, &'static str)]) -> Self {
        self.settings = settings;
        self
    }

    const fn leveret_only(mut self) -> Self {
        self.leveret_only = true;
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

const fn client(name: &'static str, library: &'static str, program: Program) -> Client {
    Client { name, library, program }
}

const fn scenario(name: &'static str, shows: &'static str) -> Scenario {
    Scenario { name, shows, settings: &[], leveret_only: false, stops_the_broker: false, terminates_the_broker: false }
}

/// Why a cell doesn't run, from the client's `cannot.txt`; `None` when it does.
///
/// # Panics
/// When a line has no reason.
pub fn exception(client: &Client, scenario: &str) -> Option<String> {
    exceptions(client).remove(scenario)
}

fn exceptions(client: &Client) -> std::collections::BTreeMap<String, String> {
    let path = cell::clients().join(client.name).join("cannot.txt");
    fs::read_to_string(path).map(|text| allow::parse(&text)).unwrap_or_default()
}

/// Exceptions that name no scenario of any table in which their client is.
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
    /// The table as it stands in tests/README.md.
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
