//! Every method, against the argument lists of the specification.

mod support;

use leveret_amqp091::method::{self, METHODS, basic, queue};
use leveret_amqp091::{DecodeError, Method, ReplyCode, ShortStr, Table};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use support::{Dialect, LAYOUTS};

#[test]
fn names_and_ids_are_the_specifications() {
    let mut ours = METHODS.to_vec();
    ours.sort_unstable();
    let mut theirs: Vec<_> = LAYOUTS.iter().map(|(name, class, method, _)| (*class, *method, *name)).collect();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
    assert_eq!(method::name_of(60, 40), Some("basic.publish"));
    assert_eq!(method::name_of(60, 41), None);
}

#[test]
fn each_method_is_read_and_written_byte_for_byte() {
    for (name, class, id, layout) in LAYOUTS {
        let mut runner = TestRunner::new(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() });
        runner
            .run(&support::payload(*class, *id, layout, Dialect::Any), |payload| {
                let method = Method::decode(&payload).unwrap();
                prop_assert_eq!(method.name(), *name);
                prop_assert_eq!(method.id(), (*class, *id));
                let mut out = Vec::new();
                method.encode(&mut out);
                prop_assert_eq!(out, payload);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn bits_stand_in_the_specifications_order() {
    let declare = [0, 50, 0, 10, 0, 0, 1, b'q', 0b0000_1010, 0, 0, 0, 0];
    let Method::QueueDeclare(declare) = Method::decode(&declare).unwrap() else { panic!("queue.declare") };
    let expected =
        queue::Declare { queue: ShortStr::literal("q"), durable: true, auto_delete: true, ..Default::default() };
    assert_eq!(declare, expected);

    let nack = [0, 60, 0, 120, 0, 0, 0, 0, 0, 0, 0, 9, 0b10];
    assert_eq!(
        Method::decode(&nack),
        Ok(Method::BasicNack(basic::Nack { delivery_tag: 9, multiple: false, requeue: true }))
    );

    let consume = [0, 60, 0, 20, 0, 0, 1, b'q', 1, b't', 0b0000_0110, 0, 0, 0, 0];
    let Method::BasicConsume(consume) = Method::decode(&consume).unwrap() else { panic!("basic.consume") };
    assert!(consume.no_ack && consume.exclusive && !consume.no_local && !consume.nowait);
    assert_eq!((consume.queue, consume.consumer_tag), (ShortStr::literal("q"), ShortStr::literal("t")));
    assert_eq!(consume.arguments, Table::EMPTY);
}

#[test]
fn a_publish_as_clients_send_it() {
    let payload = b"\x00\x3c\x00\x28\x00\x00\x04logs\x05a.b.c\x01";
    let Method::BasicPublish(publish) = Method::decode(payload).unwrap() else { panic!("basic.publish") };
    assert_eq!((publish.exchange, publish.routing_key), (ShortStr::literal("logs"), ShortStr::literal("a.b.c")));
    assert!(publish.mandatory && !publish.immediate);
}

#[test]
fn unknown_methods_are_named_by_their_numbers() {
    let error = Method::decode(&[0, 60, 3, 231]).unwrap_err();
    assert_eq!(error, DecodeError::UnknownMethod { class_id: 60, method_id: 999 });
    assert_eq!(error.reply_code(), ReplyCode::NotImplemented);
    assert_eq!(error.to_string(), "unknown method: class 60, method 999");
}

#[test]
fn leftover_bytes_are_an_error() {
    let error = Method::decode(&[0, 90, 0, 10, 1, 2]).unwrap_err();
    assert_eq!(error, DecodeError::TrailingBytes { count: 2 });
    assert_eq!(error.reply_code(), ReplyCode::FrameError);
}

proptest! {
    #[test]
    fn a_method_cut_anywhere_is_an_error(payload in support::any_payload(Dialect::Any), at in any::<prop::sample::Index>()) {
        let cut = &payload[..at.index(payload.len())];
        let is_truncated = matches!(Method::decode(cut), Err(DecodeError::Truncated { .. }));
        prop_assert!(is_truncated);
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), index in 0..LAYOUTS.len()) {
        let _ = Method::decode(&noise);
        let (_, class, method, _) = LAYOUTS[index];
        let mut payload = [class.to_be_bytes(), method.to_be_bytes()].concat();
        payload.extend(noise);
        if let Ok(method) = Method::decode(&payload) {
            let mut out = Vec::new();
            method.encode(&mut out);
            prop_assert_eq!(Method::decode(&out), Ok(method));
        }
    }
}
