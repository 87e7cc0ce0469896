//! `NServiceBus`: endpoints with quorum queues, by its conventional topology of fanout exchanges or its direct one of a topic
//! exchange, and delays by 28 levels of queues whose messages expire, one per bit of the delay in seconds.

use std::time::{Duration, Instant};

use leveret_tests::broker::Broker;
use serde_json::{Value, json};

use crate::bus::{Argument, Bus, Life};

const QUORUM: (&str, Argument<'_>) = ("x-queue-type", Argument::Text("quorum"));
const LEVELS: usize = 28;
const DELIVERY: &str = "nsb.v2.delay-delivery";
const VERIFY: &str = "nsb.v2.verify-stream-flag-enabled";

fn level_name(level: usize) -> String {
    format!("nsb.v2.delay-level-{level:02}")
}

/// Keys that begin with the bits of the levels above, then this bit.
fn bit_of(level: usize, bit: char) -> String {
    format!("{}{bit}.#", "*.".repeat(LEVELS - 1 - level))
}

/// A level's queue keeps a message for its bit's time, if the bit is set. Then, or at once, it goes to the next level.
fn delay_infrastructure(bus: &mut Bus) {
    for level in (0..LEVELS).rev() {
        let name = level_name(level);
        let next = if level > 0 { level_name(level - 1) } else { DELIVERY.to_owned() };
        bus.exchange(&name, "topic", Life::Durable, &[]);
        let arguments = [
            QUORUM,
            ("x-dead-letter-strategy", Argument::Text("at-least-once")),
            ("x-overflow", Argument::Text("reject-publish")),
            ("x-message-ttl", Argument::Long(1000 << level)),
            ("x-dead-letter-exchange", Argument::Text(&next)),
        ];
        bus.queue(&name, Life::Durable, &arguments);
        bus.bind_queue(&name, &name, &bit_of(level, '1'));
    }
    for level in (1..LEVELS).rev() {
        bus.bind_exchange(&level_name(level - 1), &level_name(level), &bit_of(level, '0'));
    }
    bus.exchange(DELIVERY, "topic", Life::Durable, &[]);
    bus.bind_exchange(DELIVERY, &level_name(0), &bit_of(0, '0'));
}

fn remove_delay_infrastructure(bus: &mut Bus) {
    bus.delete_exchange(DELIVERY);
    for level in 0..LEVELS {
        bus.delete_queue(&level_name(level));
        bus.delete_exchange(&level_name(level));
    }
}

/// Sends a message that is delivered after so many seconds.
fn send_later(bus: &mut Bus, address: &str, seconds: u32, body: &str) {
    let bits: String = (0..LEVELS).rev().map(|level| if seconds >> level & 1 == 1 { "1." } else { "0." }).collect();
    let start = level_name(seconds.checked_ilog2().map_or(0, |level| level as usize));
    let seconds = i32::try_from(seconds).expect("28 bits");
    let headers = [
        ("NServiceBus.Transport.RabbitMQ.DelayInSeconds", Argument::Int(seconds)),
        ("NServiceBus.Transport.RabbitMQ.ConfirmationId", Argument::Text("1")),
    ];
    bus.send(&start, &format!("{bits}{address}"), &headers, body);
}

/// The checks before an endpoint starts, and the policy by which its retries are its own affair.
fn verify(broker: &Broker, bus: &mut Bus, endpoint: &str) {
    let http = broker.http();
    let get = |path: &str| http.get(path).expect("an answer").json();
    let version = get("/api/overview")["rabbitmq_version"].as_str().expect("a version").to_owned();
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    assert!(numbers >= vec![3, 10], "{version} is too old");
    let flags = get("/api/feature-flags");
    let mut flags = flags.as_array().expect("flags").iter();
    let streams = flags.find(|flag| flag["name"] == "stream_queue").expect("the flag of streams");
    assert_eq!(streams["state"], "enabled");
    bus.queue(VERIFY, Life::Durable, &[("x-queue-type", Argument::Text("stream"))]);
    let path = format!("/api/policies/%2F/nsb.{endpoint}.delivery-limit");
    let policy = json!({"pattern": endpoint, "apply-to": "quorum_queues", "definition": {"delivery-limit": -1}, "priority": 100});
    assert_eq!(http.put(&path, &policy).expect("an answer").status, 201);
    let mut queue = Value::Null;
    let deadline = Instant::now() + Duration::from_secs(20);
    while queue["effective_policy_definition"] != json!({"delivery-limit": -1}) {
        assert!(Instant::now() < deadline, "the policy has no effect: {queue}");
        queue = get(&format!("/api/queues/%2F/{endpoint}"));
    }
    assert_eq!(queue["type"], "quorum");
}

#[test]
fn nservicebus_retries_delays_and_gives_up() {
    const SALES: &str = "cell.nservicebus.sales";
    const ERROR: &str = "cell.nservicebus.error";
    const AUDIT: &str = "cell.nservicebus.audit";
    const EVENT: &str = "cell.nservicebus:OrderPlaced";
    const INTERFACE: &str = "cell.nservicebus:IOrderPlaced";
    /// More than the limit of deliveries that quorum queues have by themselves.
    const ATTEMPTS: i64 = 25;
    let broker = Broker::start();
    let mut bus = Bus::connect(broker.amqp(), "publisher");
    for address in [SALES, ERROR, AUDIT] {
        bus.endpoint(address, &[QUORUM]);
    }
    verify(&broker, &mut bus, SALES);
    delay_infrastructure(&mut bus);
    for kind in [EVENT, INTERFACE, "System:Object"] {
        bus.exchange(kind, "fanout", Life::Durable, &[]);
    }
    bus.bind_exchange("System:Object", EVENT, "");
    bus.bind_exchange(INTERFACE, EVENT, "");
    bus.bind_exchange(SALES, INTERFACE, "");
    let mut sales = Bus::connect(broker.amqp(), "receiver");
    sales.consume(SALES, 12);
    bus.publish_event(EVENT, "", &[("NServiceBus.MessageIntent", Argument::Text("Publish"))], "placed");
    // It is rejected at once, again and again, and counted.
    for attempt in 0..ATTEMPTS {
        let event = sales.delivery();
        assert_eq!((event.exchange.as_str(), event.body.as_str(), event.redelivered), (EVENT, "placed", attempt > 0));
        assert_eq!(event.number("x-delivery-count").unwrap_or(0), attempt);
        sales.reject(&event);
    }
    let event = sales.delivery();
    // Then later, each time as a new message. They overtake each other, by one level and two.
    bus.bind_exchange(SALES, DELIVERY, &format!("#.{SALES}"));
    let since = Instant::now();
    for seconds in [3, 2, 1, 0] {
        send_later(&mut bus, SALES, seconds, &format!("after {seconds} s"));
    }
    sales.ack(&event);
    for seconds in [0, 1, 2, 3] {
        let retry = sales.delivery();
        assert_eq!(retry.body, format!("after {seconds} s"));
        assert!(since.elapsed() >= Duration::from_secs(seconds), "it comes before its time");
        assert!(retry.key.ends_with(SALES), "{}", retry.key);
        assert_eq!(retry.has(b"x-death"), seconds > 0, "{retry:?}");
        sales.ack(&retry);
    }
    // The longest delay waits in its own queue.
    send_later(&mut bus, SALES, 1 << (LEVELS - 1), "after four years");
    assert_eq!(bus.messages(&level_name(LEVELS - 1)), 1);
    bus.send(ERROR, "", &[("NServiceBus.ExceptionInfo.Message", Argument::Text("it failed"))], "placed");
    bus.send(AUDIT, "", &[("NServiceBus.ProcessingEnded", Argument::Text("now"))], "placed");
    assert_eq!((bus.messages(ERROR), bus.messages(AUDIT)), (1, 1));
    // A command to an endpoint that isn't bound comes back, with the header by which its sender knows it.
    bus.exchange("cell.nservicebus.nowhere", "fanout", Life::Durable, &[]);
    bus.send_nowhere(
        "cell.nservicebus.nowhere",
        &[("NServiceBus.Transport.RabbitMQ.ConfirmationId", Argument::Text("9"))],
    );
    sales.close();
    assert_eq!(bus.messages(SALES), 0);
    remove_delay_infrastructure(&mut bus);
    bus.delete_exchange("System:Object");
    bus.delete_queue(VERIFY);
    let path = format!("/api/policies/%2F/nsb.{SALES}.delivery-limit");
    assert_eq!(broker.http().delete(&path).expect("an answer").status, 204);
    bus.close();
    broker.finish("cell.nservicebus");
}

#[test]
fn nservicebus_routes_by_its_direct_topology() {
    const BILLING: &str = "cell.nservicebus-direct.billing";
    let broker = Broker::start();
    let mut bus = Bus::connect(broker.amqp(), "publisher");
    bus.queue(BILLING, Life::Durable, &[QUORUM]);
    // The words of a key are the types from the base down; whoever subscribes to a base gets what derives from it.
    bus.bind_queue(BILLING, "amq.topic", "cell-nservicebus-Order.#");
    let mut billing = Bus::connect(broker.amqp(), "receiver");
    billing.consume(BILLING, 12);
    bus.publish_event("amq.topic", "cell-nservicebus-Invoice", &[], "somebody else's");
    for kind in ["cell-nservicebus-Order", "cell-nservicebus-Order.cell-nservicebus-UrgentOrder"] {
        bus.publish_event("amq.topic", kind, &[], kind);
        let event = billing.delivery();
        assert_eq!((event.exchange.as_str(), event.key.as_str(), event.body.as_str()), ("amq.topic", kind, kind));
        billing.ack(&event);
    }
    bus.send("", BILLING, &[], "command");
    let command = billing.delivery();
    assert_eq!((command.exchange.as_str(), command.body.as_str()), ("", "command"));
    billing.ack(&command);
    billing.close();
    assert_eq!(bus.messages(BILLING), 0);
    bus.close();
    broker.finish("cell.nservicebus-direct");
}
