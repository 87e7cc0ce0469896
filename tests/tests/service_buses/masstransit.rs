//! `MassTransit`: an exchange per message type, bound along the type's interfaces to the exchange of an endpoint, in front of the
//! queue of the same name. What fails goes to `_error`, what nobody handles to `_skipped`, and what is to be tried again later
//! to the delayed exchange `_delay`.

use std::time::{Duration, Instant};

use leveret_tests::broker::{Broker, is_given};

use crate::bus::{Argument, Arguments, Bus, Life};

const QUORUM: (&str, Argument<'_>) = ("x-queue-type", Argument::Text("quorum"));

/// Declares an endpoint's queue and exchange, and those of the message type that it handles, down to the interface that its
/// consumer names.
fn endpoint(bus: &mut Bus, name: &str, arguments: Arguments<'_>) -> String {
    let (class, interface) = (format!("{name}:OrderSubmitted"), format!("{name}:IOrderEvent"));
    bus.endpoint(name, arguments);
    for kind in [&class, &interface] {
        bus.exchange(kind, "fanout", Life::Durable, &[]);
    }
    bus.bind_exchange(&interface, &class, "");
    bus.bind_exchange(name, &interface, "");
    class
}

fn orders_pass(name: &str, arguments: Arguments<'_>) {
    let broker = Broker::start();
    let mut consumer = Bus::connect(broker.amqp(), name);
    let class = endpoint(&mut consumer, name, arguments);
    consumer.consume(name, 16);
    let mut bus = Bus::connect(broker.amqp(), name);
    let sequence = |number| [("x-dotnet-pub-seq-no", Argument::Long(number))];
    for number in 1..=20 {
        bus.send(&class, "", &sequence(number), &format!("order {number}"));
    }
    // A send to the endpoint itself comes by its exchange.
    bus.send(name, "", &sequence(21), "command");
    for number in 1..=20 {
        let order = consumer.delivery();
        assert_eq!((order.exchange.as_str(), order.key.as_str(), order.redelivered), (class.as_str(), "", false));
        assert_eq!(order.body, format!("order {number}"));
        consumer.ack(&order);
    }
    let command = consumer.delivery();
    assert_eq!((command.exchange.as_str(), command.body.as_str()), (name, "command"));
    // It fails: the message goes to the error queue, a fault to whoever subscribed to it, which is nobody.
    let fault = format!("{name}:Fault--OrderSubmitted--");
    bus.exchange(&fault, "fanout", Life::Durable, &[]);
    bus.publish_event(&fault, "", &[], "fault");
    for (suffix, reason) in [("error", "fault"), ("skipped", "dead-letter")] {
        let queue = format!("{name}_{suffix}");
        bus.endpoint(&queue, arguments);
        bus.send(&queue, "", &[("MT-Reason", Argument::Text(reason))], &command.body);
        assert_eq!(bus.messages(&queue), 1, "{queue}");
        let mut operator = Bus::connect(broker.amqp(), "operator");
        operator.consume(&queue, 1);
        let moved = operator.delivery();
        assert!(moved.has(reason.as_bytes()) && moved.body == "command", "{moved:?}");
        operator.ack(&moved);
        operator.close();
    }
    consumer.ack(&command);
    bus.send_nowhere(&fault, &sequence(22));
    consumer.close();
    assert_eq!(bus.messages(name), 0);
    bus.close();
    broker.finish(name);
}

#[test]
fn masstransit_publishes_to_endpoints_and_moves_failures() {
    orders_pass("cell.masstransit.classic", &[]);
}

#[test]
fn masstransit_does_the_same_with_quorum_queues() {
    orders_pass("cell.masstransit.quorum", &[QUORUM, ("x-quorum-initial-group-size", Argument::Int(1))]);
}

#[test]
fn masstransit_redelivers_later_by_a_delayed_exchange() {
    const NAME: &str = "cell.masstransit.later";
    const DELAY: Duration = Duration::from_millis(600);
    // RabbitMQ 4.3 has no plugin for it any more.
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let mut bus = Bus::connect(broker.amqp(), NAME);
    let class = endpoint(&mut bus, NAME, &[QUORUM]);
    let mut consumer = Bus::connect(broker.amqp(), NAME);
    consumer.consume(NAME, 16);
    bus.send(&class, "", &[], "order");
    let first = consumer.delivery();
    let delay = format!("{NAME}_delay");
    bus.exchange(&delay, "x-delayed-message", Life::Durable, &[("x-delayed-type", Argument::Text("fanout"))]);
    bus.bind_exchange(NAME, &delay, "");
    let since = Instant::now();
    let ms = i64::try_from(DELAY.as_millis()).expect("it is small");
    bus.publish_event(
        &delay,
        "",
        &[("x-delay", Argument::Long(ms)), ("MT-Redelivery-Count", Argument::Int(1))],
        "order",
    );
    consumer.ack(&first);
    let second = consumer.delivery();
    assert!(since.elapsed() >= DELAY, "it comes before its time");
    assert_eq!((second.exchange.as_str(), second.redelivered, second.body.as_str()), (delay.as_str(), false, "order"));
    assert!(second.has(b"MT-Redelivery-CountI\x00\x00\x00\x01"), "{second:?}");
    consumer.ack(&second);
    consumer.close();
    bus.close();
    broker.finish(NAME);
}

#[test]
fn one_instance_of_a_masstransit_saga_is_active() {
    const NAME: &str = "cell.masstransit.saga";
    let broker = Broker::start();
    let mut bus = Bus::connect(broker.amqp(), NAME);
    let class = endpoint(&mut bus, NAME, &[QUORUM, ("x-single-active-consumer", Argument::Flag(true))]);
    let mut first = Bus::connect(broker.amqp(), "first");
    first.consume(NAME, 1);
    let mut second = Bus::connect(broker.amqp(), "second");
    second.consume(NAME, 1);
    bus.send(&class, "", &[], "one");
    bus.send(&class, "", &[], "two");
    let one = first.delivery();
    assert_eq!(one.body, "one");
    first.ack(&one);
    assert_eq!(first.delivery().body, "two");
    // It leaves without an answer: the other one goes on.
    first.close();
    let two = second.delivery();
    assert_eq!((two.body.as_str(), two.redelivered), ("two", true));
    second.ack(&two);
    second.close();
    bus.close();
    broker.finish(NAME);
}

#[test]
fn masstransit_answers_to_a_temporary_endpoint() {
    const NAME: &str = "cell.masstransit.bus";
    let broker = Broker::start();
    let mut requester = Bus::connect(broker.amqp(), NAME);
    requester.queue(NAME, Life::Temporary, &[("x-expires", Argument::Long(60_000))]);
    requester.exchange(NAME, "fanout", Life::Temporary, &[]);
    requester.bind_queue(NAME, NAME, "");
    requester.consume(NAME, 16);
    let mut responder = Bus::connect(broker.amqp(), "responder");
    responder.send(NAME, "", &[], "answer");
    let answer = requester.delivery();
    assert_eq!(answer.body, "answer");
    requester.ack(&answer);
    requester.close();
    let http = broker.http();
    let deadline = Instant::now() + Duration::from_secs(20);
    for kind in ["queues", "exchanges"] {
        while http.get(&format!("/api/{kind}/%2F/{NAME}")).expect("an answer").status != 404 {
            assert!(Instant::now() < deadline, "{kind}: it is still there");
        }
    }
    responder.close();
    broker.finish(NAME);
}
