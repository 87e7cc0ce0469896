//! The table of scenarios by clients, and its form in tests/README.md.

use std::fmt::Write as _;

/// A client library with the version that is pinned in tests/clients.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// The name in test names.
    pub name: &'static str,
    /// What it is.
    pub library: &'static str,
}

/// The five clients.
pub const CLIENTS: [Client; 5] = [
    Client { name: "pika", library: "pika 1.4.4 (Python)" },
    Client { name: "go", library: "amqp091-go 1.16.0" },
    Client { name: "java", library: "amqp-client 5.31.0 (Java)" },
    Client { name: "node", library: "amqplib 2.3.1 (node)" },
    Client { name: "lapin", library: "lapin 4.12.3 (Rust)" },
];

/// A scenario and what it shows.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name that the programs know.
    pub name: &'static str,
    /// One line.
    pub shows: &'static str,
}

const fn scenario(name: &'static str, shows: &'static str) -> Scenario {
    Scenario { name, shows }
}

/// Scenarios that stop the broker, and so don't run against one that is given.
pub const STOPS_THE_BROKER: [&str; 2] = ["reconnect", "error_320"];

/// Every scenario.
pub const SCENARIOS: [Scenario; 26] = [
    scenario("declare", "declare, redeclare, passive, server-named, bind, unbind, delete; 406 names what differs"),
    scenario("publish_confirm", "100 persistent messages, every one confirmed, all there"),
    scenario("mandatory_return", "an unroutable mandatory message comes back with 312 before its confirm"),
    scenario(
        "direct_reply_to",
        "an answer comes over amq.rabbitmq.reply-to without a queue; 406 without no-ack, 406 without a consumer, 403 to bind",
    ),
    scenario("ack", "single and multiple; what is unacknowledged at a close comes again, redelivered"),
    scenario("nack_requeue", "goes back to its own place in the queue"),
    scenario("reject", "without requeue it is gone, with requeue it comes again"),
    scenario("prefetch", "no more than the prefetch is unacknowledged"),
    scenario("get", "with message count, empty, and without acknowledgement"),
    scenario("big_body", "5 MB, byte for byte"),
    scenario(
        "headers",
        "every header type and property (but expiration, which comes with message TTL) that the client can send, unicode and binary",
    ),
    scenario("exclusive", "405 from another connection; gone with its own"),
    scenario("reconnect", "a durable message survives kill -9 and the client finds it again"),
    scenario("heartbeat_loss", "a client that falls silent is disconnected"),
    scenario("error_320", "CONNECTION_FORCED when the broker is stopped"),
    scenario(
        "error_403",
        "ACCESS_REFUSED: reserved names, the default exchange, an exclusive consumer, a wrong password",
    ),
    scenario("error_404", "NOT_FOUND: queue, exchange"),
    scenario("error_405", "RESOURCE_LOCKED: declare, consume and delete of another connection's exclusive queue"),
    scenario(
        "error_406",
        "PRECONDITION_FAILED: delivery tag, argument, expiration, exchange type, deletes with if-unused and if-empty",
    ),
    scenario("error_501", "FRAME_ERROR: a frame without its end mark"),
    scenario(
        "error_502",
        "arguments that can't be read: 501 FRAME_ERROR as RabbitMQ says, where the specification has 502",
    ),
    scenario("error_503", "COMMAND_INVALID: a method that only a broker sends"),
    scenario("error_504", "CHANNEL_ERROR: a channel opened twice"),
    scenario("error_505", "UNEXPECTED_FRAME: a header without its method"),
    scenario("error_530", "NOT_ALLOWED: a consumer tag twice, an unknown vhost"),
    scenario("error_540", "NOT_IMPLEMENTED: immediate, prefetch size, recover without requeue"),
];

/// Cells that don't run, with the reason.
pub const EXCEPTIONS: [(&str, &str, &str); 0] = [];

/// Why a cell doesn't run, or `None` when it does.
pub fn exception(client: &str, scenario: &str) -> Option<&'static str> {
    EXCEPTIONS.iter().find(|(c, s, _)| *c == client && *s == scenario).map(|(_, _, reason)| *reason)
}

/// The table as it stands in tests/README.md.
pub fn markdown() -> String {
    let mut text = String::from("| scenario | shows |");
    for client in CLIENTS {
        let _ = write!(text, " {} |", client.library);
    }
    text.push_str("\n| --- | --- |");
    text.push_str(&" --- |".repeat(CLIENTS.len()));
    text.push('\n');
    for scenario in SCENARIOS {
        let _ = write!(text, "| {} | {} |", scenario.name, scenario.shows);
        for client in CLIENTS {
            let _ = write!(text, " {} |", exception(client.name, scenario.name).unwrap_or("runs"));
        }
        text.push('\n');
    }
    text
}
