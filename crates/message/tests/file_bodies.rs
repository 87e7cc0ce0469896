//! The bytes around a body in a file are the same as in a conversion of the whole message.

use leveret_amqp10::message::{write_data, write_value};
use leveret_amqp10::{Value, message::Properties as Properties10};
use leveret_amqp091::{Properties, ShortStr};
use leveret_message::deliver::{Delivery, file_to_amqp10, file_to_amqp091, to_amqp10, to_amqp091};
use leveret_message::incoming::{BodyCheck, amqp10, amqp10_start};
use leveret_message::{Encoding, Envelope, StoredMessage};

const DATA: [u8; 700] = [7; 700];

fn amqp091_properties(kind: Option<&'static str>) -> Vec<u8> {
    let mut out = Vec::new();
    let kind = kind.and_then(|kind| ShortStr::new(kind.as_bytes()).ok());
    Properties { delivery_mode: Some(2), kind, ..Properties::default() }.encode(&mut out);
    out
}

fn data_sections(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    (0..count).for_each(|_| write_data(&mut out, &DATA));
    out
}

fn bare(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Properties10 { subject: Some("s"), ..Properties10::default() }.encode(&mut out);
    out.extend_from_slice(body);
    out
}

fn value() -> Vec<u8> {
    let mut out = Vec::new();
    write_value(&mut out, &Value::Binary(&DATA));
    out
}

/// Messages, and whether conversion to the other protocol needs the whole body.
fn messages() -> Vec<(Encoding, Vec<u8>, Vec<u8>, bool)> {
    vec![
        (Encoding::Amqp091, amqp091_properties(None), DATA.to_vec(), false),
        (Encoding::Amqp091, amqp091_properties(Some("amqp-1.0")), data_sections(1), false),
        (Encoding::Amqp091, amqp091_properties(Some("amqp-1.0")), data_sections(2), true),
        (Encoding::Amqp091, amqp091_properties(Some("amqp-1.0")), DATA.to_vec(), true),
        (Encoding::Amqp10, Vec::new(), bare(&data_sections(1)), false),
        (Encoding::Amqp10, Vec::new(), data_sections(1), false),
        (Encoding::Amqp10, Vec::new(), bare(&data_sections(2)), true),
        (Encoding::Amqp10, Vec::new(), bare(&value()), false),
    ]
}

#[test]
fn pieces_make_the_same_message_as_the_whole() {
    for (encoding, properties, body, takes_whole) in messages() {
        let envelope = Envelope { durable: true, routing_key: b"key", ..Envelope::default() };
        let whole =
            StoredMessage { encoding, envelope, properties: &properties, body: &body, ..StoredMessage::default() };
        let head = StoredMessage { body: &[], ..whole };
        let (length, start) = (body.len() as u32, &body[..body.len().min(100)]);

        let expected = to_amqp091(&whole, &Delivery::default());
        match file_to_amqp091(&head, &Delivery::default(), length, start) {
            Some((properties, range)) => {
                assert_eq!(properties, expected.properties);
                assert_eq!(body[range.start as usize..range.end as usize], expected.body[..]);
            }
            None => assert!(takes_whole && encoding == Encoding::Amqp10),
        }
        let (mut expected, mut pieces) = (Vec::new(), Vec::new());
        to_amqp10(&whole, &Delivery::default(), &mut expected);
        if file_to_amqp10(&head, &Delivery::default(), length, start, &mut pieces) {
            pieces.extend_from_slice(&body);
            assert_eq!(pieces, expected);
        } else {
            assert!(takes_whole && encoding == Encoding::Amqp091 && pieces.is_empty());
        }
    }
}

#[test]
fn a_body_in_pieces_is_checked_like_a_whole_one() {
    let mut with_footer = bare(&data_sections(2));
    with_footer.extend_from_slice(&[0, 0x53, 0x78, 0xc1, 1, 0]);
    let mut out_of_order = bare(&data_sections(1));
    out_of_order.extend_from_slice(&value());
    let cut = bare(&data_sections(1))[..300].to_vec();
    let mut unknown = bare(&data_sections(1));
    unknown.extend_from_slice(&[0, 0x53, 0x01, 0x40]);
    for payload in [with_footer, out_of_order, cut, unknown, bare(&data_sections(1)), value(), bare(&data_sections(3))]
    {
        let (_, at) = amqp10_start(&payload).expect("valid annotations").expect("it begins well");
        for length in [1, 2, 3, 7, 64, 10_000] {
            let mut check = BodyCheck::default();
            let passed =
                payload[at..].chunks(length).try_for_each(|part| check.add(part)).and_then(|()| check.finish());
            assert_eq!(passed.is_ok(), amqp10(&payload).is_ok(), "{passed:?} in pieces of {length}");
        }
    }
}
