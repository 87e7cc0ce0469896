//! Transactions that are declared by the thousands, grow without limit, or are never discharged.

use leveret_amqp10::message::{Header, write_data, write_value_raw};
use leveret_amqp10::performative::Disposition;
use leveret_amqp10::transaction::{Declare, Discharge, TransactionRequest};
use leveret_amqp10::{DeliveryState, Performative, condition};
use leveret_tests::amqp10::coordinator;
use leveret_tests::node::Options;

use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Ended, Peer, of, sender, transfer};

const CONTROL: u32 = 9;
const QUEUE: &str = "hostile.transactions";

fn control(peer: &mut Peer) {
    let attach = coordinator(CONTROL);
    peer.send(&of(0, &attach.into()));
    let credit = |performative: &Performative<'_>| matches!(performative, Performative::Flow(flow) if flow.handle == Some(CONTROL));
    peer.expect("credit", credit);
}

fn declare_request(id: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    write_value_raw(&mut payload, |out| TransactionRequest::Declare(Declare::default()).encode(out));
    transfer(CONTROL, id, &payload, |_| {})
}

/// Declares a transaction and returns its id.
fn declared(peer: &mut Peer, id: u32) -> Vec<u8> {
    peer.send(&declare_request(id));
    let body = peer.expect("declared", |performative| matches!(performative, Performative::Disposition(_)));
    match Performative::decode(&body) {
        Ok((Performative::Disposition(disposition), _)) => match disposition.state {
            Some(DeliveryState::Declared { txn_id }) => txn_id.to_vec(),
            other => panic!("declared expected: {other:?}"),
        },
        other => panic!("a disposition expected: {other:?}"),
    }
}

#[test]
fn open_transactions_have_a_limit() {
    let (node, canary) = stage(Options::new());
    let mut before = 0;
    for round in 0..5 {
        if round == 2 {
            // The allocator has reached its working size by now.
            before = node.resident_bytes();
        }
        let mut peer = Peer::open(node.amqp());
        control(&mut peer);
        for id in 0..1024 {
            declared(&mut peer, id);
        }
        peer.send(&declare_request(1024));
        let refusal = peer.refusal("one transaction more");
        let expected = (Ended::Link, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
        assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{refusal:?}");
        assert!(refusal.description.starts_with("1024 transactions are open"), "{refusal:?}");
        // They were rolled back with the link that declared them.
        peer.send(&super::peer::detach(0, CONTROL));
        control(&mut peer);
        declared(&mut peer, 0);
    }
    assert_grown(&node, before, 4, "3,000 transactions");
    finish(&node, canary);
}

/// A transaction of which a part was refused can't be committed: all or nothing.
fn assert_rolled_back(peer: &mut Peer, txn_id: &[u8]) {
    let mut payload = Vec::new();
    let discharge = Discharge { txn_id, fail: false };
    write_value_raw(&mut payload, |out| TransactionRequest::Discharge(discharge).encode(out));
    let id = 2_000_000;
    peer.send(&transfer(CONTROL, id, &payload, |_| {}));
    let body = peer.expect(
        "the answer to the discharge",
        |performative| matches!(performative, Performative::Disposition(answer) if answer.first == id),
    );
    match Performative::decode(&body) {
        Ok((
            Performative::Disposition(Disposition {
                state: Some(DeliveryState::Rejected { error: Some(error) }), ..
            }),
            _,
        )) => {
            assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
        }
        other => panic!("the transaction is rolled back: {other:?}"),
    }
}

#[test]
fn uncommitted_work_has_a_limit() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    for bytes in [100 << 10, 10] {
        let mut peer = Peer::open(node.amqp());
        let before = node.resident_bytes();
        control(&mut peer);
        let txn_id = declared(&mut peer, 0);
        peer.send(&sender(0, 0, "sender", &format!("/queues/{QUEUE}")));
        let mut payload = Vec::new();
        Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
        write_data(&mut payload, &vec![b'x'; bytes]);
        // Settled, so that no replies are due; each frame is a message of the transaction.
        let refusal = 'full: {
            for round in 0..1000u32 {
                let transfers: Vec<u8> = (0..if bytes > 1000 { 10 } else { 1000 })
                    .flat_map(|at| {
                        transfer(0, round * 1000 + at, &payload, |transfer| {
                            transfer.settled = Some(true);
                            transfer.state = Some(DeliveryState::Transactional { txn_id: &txn_id, outcome: None });
                        })
                    })
                    .collect();
                peer.send(&transfers);
                if let Some(refusal) = peer.refusals_until_served("uncommitted work").pop() {
                    break 'full refusal;
                }
            }
            panic!("{bytes} bytes a thousand times a thousand are taken");
        };
        let expected = (Ended::Link, condition::RESOURCE_LIMIT_EXCEEDED.as_str());
        assert_eq!((refusal.ended, refusal.condition.as_str()), expected, "{refusal:?}");
        assert!(refusal.description.starts_with("transaction too large"), "{refusal:?}");
        assert_rolled_back(&mut peer, &txn_id);
        // 64 MiB of messages, and the overhead of keeping them.
        assert_grown(&node, before, 112, "one transaction");
        canary.sings("uncommitted work");
        drop(peer);
        canary.sings("work that was never committed");
    }
    finish(&node, canary);
}
