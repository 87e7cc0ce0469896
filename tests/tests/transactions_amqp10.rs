//! Transactions over AMQP 1.0: declare, discharge, and their state after a crash.

use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::transaction::{Declare, Discharge, TransactionRequest};
use leveret_amqp10::{DeliveryState, Outcome, Serial, condition};
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, coordinator};
use leveret_tests::broker::Broker;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;

const CONTROL: u32 = 9;

fn control(client: &mut Amqp10) {
    let attach = coordinator(CONTROL);
    client.attach(CHANNEL, &attach);
}

fn request(client: &mut Amqp10, request: &TransactionRequest<'_>) -> State {
    let mut payload = Vec::new();
    write_value_raw(&mut payload, |out| request.encode(out));
    let id = client.send(CONTROL, &payload, &Send::default());
    client.outcome(id)
}

fn declare(client: &mut Amqp10) -> Vec<u8> {
    match request(client, &TransactionRequest::Declare(Declare::default())) {
        State::Declared { txn_id } => txn_id,
        other => panic!("declared expected: {other:?}"),
    }
}

fn discharge(client: &mut Amqp10, txn_id: &[u8], fail: bool) -> State {
    request(client, &TransactionRequest::Discharge(Discharge { txn_id, fail }))
}

fn publish_in(client: &mut Amqp10, handle: u32, txn_id: &[u8], body: &[u8]) {
    let mut payload = Vec::new();
    leveret_amqp10::message::Header { durable: Some(true), ..Default::default() }.encode(&mut payload);
    leveret_amqp10::message::write_data(&mut payload, body);
    let state = Some(DeliveryState::Transactional { txn_id, outcome: None });
    let id = client.send(handle, &payload, &Send { state, ..Send::default() });
    match client.outcome(id) {
        State::Transactional { .. } => {}
        other => panic!("a transactional state expected: {other:?}"),
    }
}

fn settle_in(client: &mut Amqp10, txn_id: &[u8], id: Serial) {
    let state = DeliveryState::Transactional { txn_id, outcome: Some(Outcome::Accepted) };
    client.client.dispose(CHANNEL, id, id, true, Some(state));
    client.flush();
}

fn queues(address: std::net::SocketAddr, names: &[&str]) {
    let mut wire = Wire::open(address);
    names.iter().for_each(|name| drop(wire.declare(1, name, true)));
    wire.close();
}

#[test]
fn a_commit_publishes_and_settles_in_several_queues() {
    let broker = Broker::start();
    queues(broker.amqp(), &["tx10.a", "tx10.b"]);
    let mut client = Amqp10::open(broker.amqp());
    control(&mut client);
    client.sender(0, "/queues/tx10.a");
    client.sender(1, "/queues/tx10.b");
    client.publish_accepted(0, b"taken");
    client.receiver(2, "/queues/tx10.a", 10);
    client.receiver(3, "/queues/tx10.b", 10);
    let taken = client.receive(2);
    let txn = declare(&mut client);
    publish_in(&mut client, 0, &txn, b"in a");
    publish_in(&mut client, 1, &txn, b"in b");
    settle_in(&mut client, &txn, taken.delivery_id());
    client.barrier(CHANNEL);
    assert_eq!((client.waiting(CHANNEL, 2), client.waiting(CHANNEL, 3)), (0, 0), "nothing before the commit");
    assert_eq!(discharge(&mut client, &txn, false), State::Accepted);
    for (handle, body) in [(2, b"in a"), (3, b"in b")] {
        let delivery = client.receive(handle);
        assert_eq!(delivery.data(), body);
        client.accept(&delivery);
    }
    client.close();
    broker.finish("tx10");
}

#[test]
fn a_rollback_undoes_all_of_it() {
    let broker = Broker::start();
    queues(broker.amqp(), &["tx10.back"]);
    let mut client = Amqp10::open(broker.amqp());
    control(&mut client);
    client.sender(0, "/queues/tx10.back");
    client.publish_accepted(0, b"first");
    client.receiver(1, "/queues/tx10.back", 10);
    let first = client.receive(1);
    let txn = declare(&mut client);
    publish_in(&mut client, 0, &txn, b"never");
    settle_in(&mut client, &txn, first.delivery_id());
    assert_eq!(discharge(&mut client, &txn, true), State::Accepted);
    let again = client.receive(1);
    assert_eq!(again.data(), b"first");
    client.accept(&again);
    client.barrier(CHANNEL);
    assert_eq!(client.waiting(CHANNEL, 1), 0);
    client.close();
    broker.finish("tx10");
}

#[test]
fn messages_before_a_discharge_are_published() {
    let broker = Broker::start();
    queues(broker.amqp(), &["tx10.before"]);
    let mut client = Amqp10::open(broker.amqp());
    control(&mut client);
    client.sender(0, "/queues/tx10.before");
    client.wait_credit(CHANNEL, 0);
    let txn_id = declare(&mut client);
    let mut message = Vec::new();
    leveret_amqp10::message::write_data(&mut message, b"in no transaction");
    let mut request = Vec::new();
    let discharge = TransactionRequest::Discharge(Discharge { txn_id: &txn_id, fail: false });
    write_value_raw(&mut request, |out| discharge.encode(out));
    // Both are sent in one write, so that the broker gets them in one read.
    let sent = [(0, message), (CONTROL, request)].map(|(handle, payload)| {
        client.client.send(CHANNEL, handle, b"tag", &payload, &Send::default()).expect("there is credit")
    });
    client.flush();
    for id in sent {
        assert_eq!(client.outcome(id), State::Accepted);
    }
    client.receiver(1, "/queues/tx10.before", 1);
    let delivery = client.receive(1);
    assert_eq!(delivery.data(), b"in no transaction");
    client.accept(&delivery);
    client.close();
    broker.finish("tx10");
}

#[test]
fn an_unknown_transaction_is_named() {
    let broker = Broker::start();
    let mut client = Amqp10::open(broker.amqp());
    control(&mut client);
    match discharge(&mut client, b"whatever", false) {
        State::Rejected(Some(error)) => {
            assert_eq!(error.condition, condition::TRANSACTION_UNKNOWN_ID.as_str());
        }
        other => panic!("rejected expected: {other:?}"),
    }
    client.close();
    broker.finish("tx10");
}

#[test]
fn a_link_that_ends_rolls_its_transactions_back() {
    let broker = Broker::start();
    queues(broker.amqp(), &["tx10.left"]);
    let mut client = Amqp10::open(broker.amqp());
    control(&mut client);
    client.sender(0, "/queues/tx10.left");
    let txn = declare(&mut client);
    publish_in(&mut client, 0, &txn, b"never");
    client.client.detach(CHANNEL, CONTROL, true, None);
    client.wait("detach", |event| matches!(event, Event::Detached { handle: CONTROL, .. }));
    client.publish_accepted(0, b"alone");
    client.receiver(1, "/queues/tx10.left", 10);
    let alone = client.receive(1);
    assert_eq!(alone.data(), b"alone");
    client.accept(&alone);
    client.close();
    broker.finish("tx10");
}

#[test]
fn a_discharge_that_was_accepted_survives_a_kill() {
    let mut node = Node::start(Options::new());
    queues(node.amqp(), &["tx10.kill.a", "tx10.kill.b"]);
    let mut client = Amqp10::open(node.amqp());
    control(&mut client);
    client.sender(0, "/queues/tx10.kill.a");
    client.sender(1, "/queues/tx10.kill.b");
    let committed = declare(&mut client);
    publish_in(&mut client, 0, &committed, b"a");
    publish_in(&mut client, 1, &committed, b"b");
    assert_eq!(discharge(&mut client, &committed, false), State::Accepted);
    let open = declare(&mut client);
    publish_in(&mut client, 0, &open, b"lost with its connection");
    node.kill();
    node.restart();
    let mut client = Amqp10::open(node.amqp());
    for (handle, queue, body) in [(0, "tx10.kill.a", b"a"), (1, "tx10.kill.b", b"b")] {
        client.receiver(handle, &format!("/queues/{queue}"), 10);
        let delivery = client.receive(handle);
        assert_eq!(delivery.data(), body);
        client.accept(&delivery);
        client.barrier(CHANNEL);
        assert_eq!(client.waiting(CHANNEL, handle), 0);
    }
    client.close();
}
