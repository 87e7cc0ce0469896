//! Every performative and SASL frame: every legal encoding, and every missing or superfluous field.

mod support;

use leveret_amqp10::performative::{Detach, Disposition, Flow, Transfer, begin_delivery};
use leveret_amqp10::transaction::TransactionRequest;
use leveret_amqp10::{
    DecodeError, DeliveryState, FrameKind, Outcome, OwnedValue, Performative, Problem, Role, SaslFrame, Value,
    condition, decode_frame, encode_performative, encode_transfer, end_frame,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use support::Dialect;
use support::encoding::{self, Picks};
use support::layout::{self, Layout, PERFORMATIVES, Presence, SASL, TRANSACTIONS};

fn encoded(value: &OwnedValue, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoding::encode(value, &mut Picks(seed), &mut bytes);
    bytes
}

/// Decodes and encodes again.
type Again = fn(&[u8]) -> Result<(&'static str, Vec<u8>), DecodeError>;

fn performative(bytes: &[u8]) -> Result<(&'static str, Vec<u8>), DecodeError> {
    let (performative, rest) = Performative::decode(bytes)?;
    assert!(rest.is_empty());
    let mut out = Vec::new();
    performative.encode(&mut out);
    assert_eq!(Performative::decode(&out), Ok((performative, &[][..])));
    Ok((performative.name(), out))
}

fn sasl(bytes: &[u8]) -> Result<(&'static str, Vec<u8>), DecodeError> {
    let frame = SaslFrame::decode(bytes)?;
    let mut out = Vec::new();
    frame.encode(&mut out);
    let (read, used) = decode_frame(&out, u32::MAX)?.unwrap();
    assert_eq!((read.kind, used), (FrameKind::Sasl, out.len()));
    assert_eq!(SaslFrame::decode(read.body), Ok(frame));
    Ok((frame.name(), read.body.to_vec()))
}

fn transaction(bytes: &[u8]) -> Result<(&'static str, Vec<u8>), DecodeError> {
    let request = TransactionRequest::decode(bytes)?;
    let mut out = Vec::new();
    request.encode(&mut out);
    assert_eq!(TransactionRequest::decode(&out), Ok(request));
    Ok((if matches!(request, TransactionRequest::Declare(_)) { "declare" } else { "discharge" }, out))
}

fn every() -> impl Iterator<Item = (&'static Layout, Again)> {
    let performatives = PERFORMATIVES.iter().map(|layout| (layout, performative as Again));
    let sasl_frames = SASL.iter().map(|layout| (layout, sasl as Again));
    performatives.chain(sasl_frames).chain(TRANSACTIONS.iter().map(|layout| (layout, transaction as Again)))
}

#[test]
fn each_field_is_read_in_any_encoding_and_written_in_its_place() {
    for (layout, again) in every() {
        let mut runner = TestRunner::new(ProptestConfig { cases: 80, failure_persistence: None, ..Default::default() });
        runner
            .run(&(layout::composite(layout, Dialect::Any), any::<u64>()), |(value, seed)| {
                let bytes = encoded(&value, seed);
                let (name, out) = again(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(name, layout.name);
                let written = OwnedValue::from(Value::decode_all(&out).unwrap());
                prop_assert_eq!(&layout::normal(written.clone()), &layout::normal(value));
                let OwnedValue::Described(list) = written else { panic!("a described list") };
                let OwnedValue::List(fields) = list.value else { panic!("a list") };
                prop_assert_ne!(fields.last(), Some(&OwnedValue::Null), "trailing nulls are left out");
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", layout.name));
    }
}

fn fields_of(value: &mut OwnedValue) -> &mut Vec<OwnedValue> {
    let OwnedValue::Described(described) = value else { panic!("a described list") };
    let OwnedValue::List(fields) = &mut described.value else { panic!("a list") };
    fields
}

#[test]
fn missing_superfluous_and_mistyped_fields_are_named() {
    for (layout, again) in every() {
        let mut runner = TestRunner::new(ProptestConfig { cases: 5, failure_persistence: None, ..Default::default() });
        runner
            .run(&(layout::composite(layout, Dialect::Any), any::<u64>()), |(value, seed)| {
                let composite = layout.name;
                for (at, (field, _, presence)) in layout.fields.iter().enumerate() {
                    let mut changed = value.clone();
                    let fields = fields_of(&mut changed);
                    fields.resize(fields.len().max(at + 1), OwnedValue::Null);
                    if *presence == Presence::Mandatory {
                        fields[at] = OwnedValue::Null;
                        let error = again(&encoded(&changed, seed)).unwrap_err();
                        prop_assert_eq!(error, DecodeError::MissingField { composite, field });
                        prop_assert_eq!(error.condition(), condition::INVALID_FIELD);
                        fields_of(&mut changed).truncate(at);
                        prop_assert_eq!(
                            again(&encoded(&changed, seed)).unwrap_err(),
                            DecodeError::MissingField { composite, field }
                        );
                    }
                    let mut changed = value.clone();
                    let fields = fields_of(&mut changed);
                    fields.resize(fields.len().max(at + 1), OwnedValue::Null);
                    fields[at] = OwnedValue::Double(1.5);
                    let error = again(&encoded(&changed, seed)).unwrap_err();
                    let matches = matches!(error, DecodeError::Field {
                        composite: named, field: named_field, problem: Problem::Type { received: "double", .. }
                    } if named == composite && named_field == *field);
                    prop_assert!(matches, "{} {}: {}", composite, field, error);
                    prop_assert_eq!(error.condition(), condition::DECODE_ERROR);
                }
                let limit = layout.fields.len() as u32;
                let mut changed = value.clone();
                let fields = fields_of(&mut changed);
                fields.resize(limit as usize + 2, OwnedValue::Null);
                prop_assert!(again(&encoded(&changed, seed)).is_ok(), "nulls behind the last field do no harm");
                fields_of(&mut changed)[limit as usize + 1] = OwnedValue::Bool(true);
                prop_assert_eq!(
                    again(&encoded(&changed, seed)).unwrap_err(),
                    DecodeError::ExtraFields { composite, received: limit + 2, limit }
                );
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", layout.name));
    }
}

#[test]
fn choices_out_of_range_are_invalid_fields() {
    // attach(name "a", handle 0, role sender, snd-settle-mode 3)
    let attach = b"\x00\x53\x12\xC0\x08\x04\xA1\x01a\x43\x42\x50\x03";
    let error = Performative::decode(attach).unwrap_err();
    assert_eq!(error.condition(), condition::INVALID_FIELD);
    assert_eq!(
        error.to_string(),
        "cannot decode field snd-settle-mode of attach: received 3, expected 0 (unsettled), 1 (settled) or 2 (mixed)"
    );
    let tag = [0; 33];
    let transfer = Transfer { delivery_tag: Some(&tag), ..Transfer::default() };
    let mut out = Vec::new();
    transfer.encode(&mut out);
    let error = Performative::decode(&out).unwrap_err();
    assert_eq!(error.condition(), condition::INVALID_FIELD);
    assert!(error.to_string().contains("delivery-tag of transfer: 33 bytes are too long"), "{error}");
}

#[test]
fn an_error_in_a_nested_type_names_both_fields() {
    // disposition(role receiver, first 0, last null, settled true, state rejected(error(null)))
    let disposition = b"\x00\x53\x15\xC0\x12\x05\x41\x43\x40\x41\x00\x53\x25\xC0\x08\x01\x00\x53\x1D\xC0\x02\x01\x40";
    let error = Performative::decode(disposition).unwrap_err();
    assert_eq!(error.to_string(), "cannot decode field state of disposition: error of rejected is malformed");
    let unknown = b"\x00\x53\x15\xC0\x09\x05\x41\x43\x40\x41\x00\x53\x2F\x45";
    let error = Performative::decode(unknown).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot decode field state of disposition: descriptor 0x2f is unknown here, expected a delivery state"
    );
}

#[test]
fn a_frame_without_a_performative_is_an_error() {
    let cases: &[(&[u8], &str)] = &[
        (&[0x00, 0x53, 0x19, 0x45], "descriptor 0x19 is unknown here, expected a performative"),
        (&[0x40], "received a value of type null, expected a performative"),
        (b"\x00\xA3\x01x\x45", "a descriptor symbol that is unknown here"),
        (&[], "constructor needs 1 bytes, 0 are left"),
        (&[0x00, 0x53, 0x17, 0x40], "received a value of type null, expected list"),
        (&[0x00, 0x53, 0x17, 0x45, 0x40], "1 bytes follow end"),
    ];
    for (body, text) in cases {
        let error = Performative::decode(body).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.condition(), condition::DECODE_ERROR);
    }
}

#[test]
fn the_bytes_are_those_that_other_implementations_write() {
    let mut out = Vec::new();
    let flow = Flow {
        next_incoming_id: Some(1),
        incoming_window: 2048,
        next_outgoing_id: 1,
        outgoing_window: 2048,
        handle: Some(0),
        delivery_count: Some(0),
        link_credit: Some(100),
        drain: true,
        ..Flow::default()
    };
    encode_performative(&mut out, 3, &flow.into());
    let expected = b"\0\0\0\x22\x02\0\0\x03\0\x53\x13\xC0\x15\x09\x52\x01\x70\0\0\x08\0\x52\x01\x70\0\0\x08\0\x43\x43\x52\x64\x40\x41";
    assert_eq!(out, expected);

    out.clear();
    let disposition = Disposition {
        role: Role::Receiver,
        first: 5,
        last: Some(7),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    };
    encode_performative(&mut out, 0, &disposition.into());
    assert_eq!(out, b"\0\0\0\x18\x02\0\0\0\0\x53\x15\xC0\x0B\x05\x41\x52\x05\x52\x07\x41\0\x53\x24\x45");

    out.clear();
    encode_performative(&mut out, 0, &Detach { handle: 1, closed: true, error: None }.into());
    assert_eq!(out, b"\0\0\0\x11\x02\0\0\0\0\x53\x16\xC0\x04\x02\x52\x01\x41");

    out.clear();
    let transfer = Transfer {
        handle: 0,
        delivery_id: Some(0),
        delivery_tag: Some(b"\0"),
        message_format: Some(0),
        settled: Some(true),
        ..Transfer::default()
    };
    encode_transfer(&mut out, 0, &transfer, b"\0\x53\x75\xA0\x02hi");
    let (frame, _) = decode_frame(&out, 512).unwrap().unwrap();
    assert_eq!(frame.body, b"\0\x53\x14\xC0\x08\x05\x43\x43\xA0\x01\0\x43\x41\0\x53\x75\xA0\x02hi");
    assert_eq!(Performative::decode(frame.body), Ok((transfer.into(), &b"\0\x53\x75\xA0\x02hi"[..])));
}

/// Recorded on 2026-11-21 from RabbitMQ 4.3.6.
#[test]
fn performatives_of_rabbitmq_are_read() {
    let outcomes = b"\xE0\x5A\x04\xB3\0\0\0\x12amqp:accepted:list\0\0\0\x12amqp:rejected:list\
        \0\0\0\x12amqp:released:list\0\0\0\x12amqp:modified:list";
    let attach = [
        &b"\0\x53\x12\xC0\x98\x0E\xA1\x01l\x43\x42\x50\0\x50\0\0\x53\x28\xC0\x81\x0B\xA1\x11/queues/codec-cap\
           \x40\x40\x40\x40\x40\xA3\x04move\x40\0\x53\x26\x45"[..],
        outcomes,
        b"\x40\x40\x40\x40\x43\x40\x40\x40\x40",
    ]
    .concat();
    let (Performative::Attach(attach), _) = Performative::decode(&attach).unwrap() else { panic!("an attach") };
    assert_eq!((attach.name, attach.role, attach.initial_delivery_count), ("l", Role::Sender, Some(0)));
    let source = attach.source.unwrap();
    assert_eq!((source.address, source.default_outcome), (Some("/queues/codec-cap"), Some(Outcome::Released)));
    assert!(source.outcomes.contains("amqp:modified:list"));
    assert_eq!((source.outcomes.len(), attach.target), (4, None));

    let flow =
        b"\0\x53\x13\xC0\x16\x0A\x43\x70\0\0\x01\x90\x52\x01\x70\xFF\xFF\xFF\xFF\x43\x52\x01\x52\x09\x43\x42\x42";
    let expected = Flow {
        next_incoming_id: Some(0),
        incoming_window: 400,
        next_outgoing_id: 1,
        outgoing_window: u32::MAX,
        handle: Some(0),
        delivery_count: Some(1),
        link_credit: Some(9),
        available: Some(0),
        ..Flow::default()
    };
    assert_eq!(Performative::decode(flow), Ok((expected.into(), &[][..])));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_prefix_and_no_noise_panics(
        which in 0..PERFORMATIVES.len(),
        seed in any::<u64>(),
        cut in any::<prop::sample::Index>(),
        flip in any::<u8>(),
    ) {
        let mut runner = TestRunner::deterministic();
        let value = layout::composite(&PERFORMATIVES[which], Dialect::Any).new_tree(&mut runner).unwrap().current();
        let mut bytes = encoded(&value, seed);
        let at = cut.index(bytes.len());
        prop_assert!(Performative::decode(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        let _ = Performative::decode(&bytes);
    }
}

#[test]
fn a_delivery_begins_with_the_bytes_of_its_fields() {
    for (handle, id, settled) in [(0, 0, false), (1, 255, true), (255, 256, false), (256, u32::MAX, true)] {
        let (channel, tag) = (0x102, [0, 1, 2, 255]);
        let transfer = Transfer {
            handle,
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(settled),
            ..Transfer::default()
        };
        let (mut out, mut expected) = (b"before".to_vec(), b"before".to_vec());
        encode_transfer(&mut expected, channel, &transfer, b"payload");
        let start = begin_delivery(&mut out, channel, handle, id, tag, settled);
        out.extend_from_slice(b"payload");
        end_frame(&mut out, start);
        assert_eq!(out, expected, "handle {handle}, delivery {id}");
    }
}
