//! Messages after their death, read from their stored form.

use bytes::Bytes;
use leveret_message::batch::INLINE_BELOW;
use leveret_message::deaths::is_cycle;
use leveret_message::overlay::encode_keys;
use leveret_message::{Batch, BatchBuilder, DeadLetter, Envelope, Overlay, Reason, StoredMessage};

const RECEIVED: u64 = 1_000;

fn published(further: &[&[u8]], blind: &[&[u8]]) -> Batch {
    let mut overlay = Vec::new();
    encode_keys(&mut overlay, further.iter().copied(), blind.iter().copied());
    let envelope = Envelope {
        durable: true,
        priority: Some(3),
        exchange: b"orders",
        routing_key: b"new",
        received_ms: RECEIVED,
        expiry_ms: RECEIVED + 500,
    };
    let mut builder = BatchBuilder::default();
    let overlay = Overlay::new(&overlay);
    builder.push_message(&StoredMessage {
        envelope,
        overlay,
        properties: b"\0\0",
        body: b"body",
        ..Default::default()
    });
    builder.finish()
}

fn letter(queue: &'static str, reason: Reason, now_ms: u64) -> DeadLetter<'static> {
    DeadLetter { queue: queue.as_bytes(), reason, now_ms, exchange: b"dead", routing_key: None, failures: 0 }
}

fn died(batch: &Batch, letter: DeadLetter<'_>) -> Batch {
    let mut builder = BatchBuilder::default();
    builder.push_dead_letter(&batch.message(0), &letter);
    builder.finish()
}

fn history(batch: &Batch) -> Vec<(String, &'static str, u64)> {
    let deaths = batch.message(0).view().overlay.deaths().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    deaths.iter().map(|death| (text(death.queue), death.reason.as_str(), death.count)).collect()
}

#[test]
fn the_first_death_records_exchange_keys_and_time_to_live() {
    let batch = died(&published(&[b"copy"], &[b"blind"]), letter("q", Reason::Expired, 2_000));
    let view = batch.message(0).view();
    assert_eq!(view.envelope.exchange, b"dead");
    assert_eq!(view.envelope.routing_key, b"new");
    assert_eq!(view.envelope.expiry_ms, 0, "a dead letter doesn't expire again");
    assert_eq!(view.envelope.received_ms, 2_000);
    assert_eq!((view.envelope.durable, view.envelope.priority), (true, Some(3)));
    assert_eq!((view.properties, view.body), (&b"\0\0"[..], &b"body"[..]));
    assert_eq!(view.routing_keys().collect::<Vec<_>>(), [&b"new"[..], b"copy", b"blind"]);
    let deaths = view.overlay.deaths().unwrap();
    assert_eq!(deaths.last_exchange(), b"orders");
    let death = deaths.iter().next().unwrap();
    assert_eq!((death.queue, death.reason, death.count), (&b"q"[..], Reason::Expired, 1));
    assert_eq!((death.first_ms, death.last_ms, death.ttl_ms), (2_000, 2_000, Some(500)));
    assert_eq!(death.exchange, b"orders");
    assert_eq!(death.routing_keys().collect::<Vec<_>>(), [&b"new"[..], b"copy"], "without blind copies");
    assert!(death.is_first);
}

#[test]
fn failed_deliveries_are_those_of_the_last_death() {
    let published = published(&[], &[]);
    assert!(!published.any_failures());
    let once = died(&published, DeadLetter { failures: 3, ..letter("q", Reason::Rejected, 2_000) });
    assert_eq!((once.any_failures(), once.failures(0), once.message(0).view().overlay.failures()), (true, 3, 3));
    let twice = died(&once, DeadLetter { failures: 5, ..letter("dead", Reason::DeliveryLimit, 3_000) });
    assert_eq!(twice.failures(0), 5);
    let mut builder = BatchBuilder::default();
    builder.push_sent_on(&twice.message(0), twice.message(0).view().envelope);
    let moved = builder.finish();
    assert_eq!((moved.any_failures(), moved.failures(0)), (false, 0), "an operator's move begins anew");
    assert_eq!(history(&moved), history(&twice));
}

#[test]
fn a_dead_letter_routing_key_replaces_all_keys() {
    let with_key = DeadLetter { routing_key: Some(b"failed"), ..letter("q", Reason::Rejected, 2_000) };
    let batch = died(&published(&[b"copy"], &[b"blind"]), with_key);
    assert_eq!(batch.message(0).view().routing_keys().collect::<Vec<_>>(), [&b"failed"[..]]);
    assert_eq!(history(&batch), [("q".to_owned(), "rejected", 1)]);
}

#[test]
fn deaths_are_merged_by_queue_and_reason_the_last_one_first() {
    let batch = died(&published(&[], &[]), letter("a", Reason::Expired, 2_000));
    let batch = died(&batch, letter("b", Reason::Expired, 3_000));
    let batch = died(&batch, letter("a", Reason::Rejected, 4_000));
    let batch = died(&batch, letter("a", Reason::Expired, 5_000));
    let expected = [("a", "expired", 2), ("a", "rejected", 1), ("b", "expired", 1)];
    assert_eq!(history(&batch), expected.map(|(queue, reason, count)| (queue.to_owned(), reason, count)));
    let view = batch.message(0).view();
    let deaths = view.overlay.deaths().unwrap();
    assert_eq!(deaths.last_exchange(), b"dead");
    let newest = deaths.iter().next().unwrap();
    assert_eq!((newest.first_ms, newest.last_ms, newest.exchange), (2_000, 5_000, &b"orders"[..]));
    assert_eq!(deaths.iter().map(|death| death.is_first).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(deaths.iter().map(|death| death.ttl_ms).collect::<Vec<_>>(), [Some(500), None, None]);
}

#[test]
fn a_cycle_needs_the_same_queue_and_no_rejection_since() {
    let batch = died(&published(&[], &[]), letter("a", Reason::Expired, 2_000));
    assert!(is_cycle(&batch.message(0).view(), b"a"));
    assert!(!is_cycle(&batch.message(0).view(), b"b"));
    let batch = died(&batch, letter("b", Reason::Rejected, 3_000));
    assert!(!is_cycle(&batch.message(0).view(), b"a"), "a client rejected it on the way");
    let batch = died(&batch, letter("c", Reason::MaxLen, 4_000));
    assert!(!is_cycle(&batch.message(0).view(), b"a"));
    assert!(is_cycle(&batch.message(0).view(), b"c"));
    assert!(!is_cycle(&published(&[], &[]).message(0).view(), b"a"), "it never died");
}

#[test]
fn a_large_body_is_shared() {
    let body = Bytes::from(vec![1; INLINE_BELOW]);
    let mut builder = BatchBuilder::default();
    builder.push_large(&StoredMessage { properties: b"\0\0", ..StoredMessage::default() }, body.clone());
    let batch = died(&builder.finish(), letter("q", Reason::MaxLen, 1));
    assert_eq!(batch.message(0).large.unwrap().as_ptr(), body.as_ptr());
    assert_eq!(batch.message(0).view().body, &body[..]);
}
