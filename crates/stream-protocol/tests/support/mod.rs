//! The layout of every command, as the protocol describes it, and frames made from it; answers encoded again.

#![allow(dead_code, reason = "each test uses a part of this module")]

use leveret_stream_protocol::client::ServerCommand;
use leveret_stream_protocol::{Confirms, ResponseCode, StreamMetadata, answers};
use proptest::prelude::*;

/// A part of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldForm {
    U8,
    U16,
    U32,
    U64,
    /// 0 or 1 in a byte.
    Flag,
    /// A response code.
    Code,
    /// The response code of success.
    PlainCode,
    Text,
    /// Bytes with a length of 32 bits; null if there are none.
    Bytes,
    /// An offset type, and 8 bytes behind some.
    Offset,
    /// The same, or none.
    SomeOffset,
    /// The offset type of an offset, and 8 bytes.
    PlainOffset,
    Pairs,
    /// Nothing, or pairs.
    SomePairs,
    /// Nothing, or bytes with a length of 16 bits.
    SomeBytes,
    Strings,
    Versions,
    Stats,
    Ids,
    Errors,
    Brokers,
    Streams,
    Chunk,
    Messages,
    FilteredMessages,
}

use FieldForm::*;

/// Keys with bit 15, versions and contents of what clients send.
pub(crate) const REQUESTS: &[(u16, u16, &[FieldForm])] = &[
    (0x0001, 1, &[U32, U8, Text, Text]),
    (0x0002, 1, &[U8, Messages]),
    (0x0002, 2, &[U8, FilteredMessages]),
    (0x0005, 1, &[U32, Text, Text]),
    (0x0006, 1, &[U32, U8]),
    (0x0007, 1, &[U32, U8, Text, Offset, U16, SomePairs]),
    (0x0009, 1, &[U8, U16]),
    (0x000a, 1, &[Text, Text, U64]),
    (0x000b, 1, &[U32, Text, Text]),
    (0x000c, 1, &[U32, U8]),
    (0x000d, 1, &[U32, Text, Pairs]),
    (0x000e, 1, &[U32, Text]),
    (0x000f, 1, &[U32, Strings]),
    (0x0011, 1, &[U32, Pairs]),
    (0x0012, 1, &[U32]),
    (0x0013, 1, &[U32, Text, Bytes]),
    (0x8014, 1, &[U32, U32]),
    (0x0015, 1, &[U32, Text]),
    (0x0016, 1, &[U32, U16, Text]),
    (0x8016, 1, &[U32, U16]),
    (0x0017, 1, &[]),
    (0x0018, 1, &[U32, Text, Text]),
    (0x0019, 1, &[U32, Text]),
    (0x801a, 1, &[U32, U16, SomeOffset]),
    (0x001b, 1, &[U32, Versions]),
    (0x001c, 1, &[U32, Text]),
    (0x001d, 1, &[U32, Text, Strings, Strings, Pairs]),
    (0x001e, 1, &[U32, Text]),
    (0x001f, 1, &[U32, Text, Offset, Pairs]),
];

/// Keys with bit 15, versions and contents of what servers send.
pub(crate) const ANSWERS: &[(u16, u16, &[FieldForm])] = &[
    (0x8001, 1, &[U32, Code]),
    (0x0003, 1, &[U8, Ids]),
    (0x0004, 1, &[U8, Errors]),
    (0x8005, 1, &[U32, Code, U64]),
    (0x8006, 1, &[U32, Code]),
    (0x8007, 1, &[U32, Code]),
    (0x0008, 1, &[U8, Chunk]),
    (0x0008, 2, &[U8, U64, Chunk]),
    (0x8009, 1, &[Code, U8]),
    (0x800b, 1, &[U32, Code, U64]),
    (0x800c, 1, &[U32, Code]),
    (0x800d, 1, &[U32, Code]),
    (0x800e, 1, &[U32, Code]),
    (0x800f, 1, &[U32, Brokers, Streams]),
    (0x0010, 1, &[Code, Text]),
    (0x8011, 1, &[U32, Code, Pairs]),
    (0x8012, 1, &[U32, PlainCode, Strings]),
    (0x8013, 1, &[U32, Code, SomeBytes]),
    (0x0014, 1, &[U32, U32]),
    (0x8015, 1, &[U32, Code, SomePairs]),
    (0x0016, 1, &[U32, U16, Text]),
    (0x8016, 1, &[U32, Code]),
    (0x0017, 1, &[]),
    (0x8018, 1, &[U32, Code, Strings]),
    (0x8019, 1, &[U32, Code, Strings]),
    (0x001a, 1, &[U32, U8, Flag]),
    (0x801b, 1, &[U32, Code, Versions]),
    (0x801c, 1, &[U32, Code, Stats]),
    (0x801d, 1, &[U32, Code]),
    (0x801e, 1, &[U32, Code]),
    (0x801f, 1, &[U32, Code, PlainOffset]),
];

/// The bytes of a part.
fn part(part: FieldForm) -> BoxedStrategy<Vec<u8>> {
    let number = |size: usize| prop::collection::vec(any::<u8>(), size).boxed();
    let list = |entry: BoxedStrategy<Vec<u8>>| {
        prop::collection::vec(entry, 0..4)
            .prop_map(|entries| [&(entries.len() as u32).to_be_bytes()[..], &entries.concat()].concat())
            .boxed()
    };
    let joined = |parts: &[FieldForm]| content(parts);
    match part {
        U8 => number(1),
        U16 => number(2),
        U32 => number(4),
        U64 => number(8),
        Flag => (0..2_u8).prop_map(|flag| vec![flag]).boxed(),
        Code => (1..22_u16).prop_map(|code| code.to_be_bytes().to_vec()).boxed(),
        PlainCode => Just(vec![0, 1]).boxed(),
        Text => text().prop_map(|text| short(text.as_bytes())).boxed(),
        Bytes => prop_oneof![
            Just(vec![0xFF; 4]),
            prop::collection::vec(any::<u8>(), 1..40).prop_map(|bytes| [
                &(bytes.len() as u32).to_be_bytes()[..],
                &bytes
            ]
            .concat())
        ]
        .boxed(),
        Offset => prop_oneof![
            (1..4_u8).prop_map(|kind| vec![0, kind]),
            (4..6_u8, number(8)).prop_map(|(kind, value)| [&[0, kind], &value[..]].concat())
        ]
        .boxed(),
        SomeOffset => prop_oneof![Just(vec![0, 0]), joined(&[Offset])].boxed(),
        PlainOffset => number(8).prop_map(|value| [&[0, 4], &value[..]].concat()).boxed(),
        Pairs => list(joined(&[Text, Text])),
        SomePairs => {
            list(joined(&[Text, Text])).prop_map(|pairs| if pairs == [0; 4] { Vec::new() } else { pairs }).boxed()
        }
        SomeBytes => prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|bytes| if bytes.is_empty() { bytes } else { short(&bytes) })
            .boxed(),
        Strings => list(joined(&[Text])),
        Versions => list(joined(&[U16, U16, U16])),
        Stats => list(joined(&[Text, U64])),
        Ids => list(number(8)),
        Errors => joined(&[Code])
            .prop_flat_map(move |code| list(number(8).prop_map(move |id| [&id[..], &code].concat()).boxed()))
            .boxed(),
        Brokers => list(joined(&[U16, Text, U32])),
        Streams => {
            list((joined(&[Text, Code, U16]), list(number(2))).prop_map(|(head, tail)| [head, tail].concat()).boxed())
        }
        Chunk => prop::collection::vec(any::<u8>(), 0..200).boxed(),
        Messages => list((number(8), entry()).prop_map(|(id, entry)| [id, entry].concat()).boxed()),
        FilteredMessages => {
            let filter = prop_oneof![
                Just(vec![0xFF, 0xFF]),
                text().prop_filter_map("empty", |text| { (!text.is_empty()).then(|| short(text.as_bytes())) })
            ];
            list((number(8), filter, entry()).prop_map(|(id, filter, entry)| [id, filter, entry].concat()).boxed())
        }
    }
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), "[a-z.]{1,12}", any::<String>().prop_map(|text| text.chars().take(20).collect())]
        .boxed()
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// A message or sub-batch with its head.
fn entry() -> BoxedStrategy<Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let message = bytes().prop_map(|message| [&(message.len() as u32).to_be_bytes()[..], &message].concat());
    let batch = (0..5_u8, any::<[u8; 6]>(), bytes()).prop_map(|(compression, head, data)| {
        [&[0x80 | compression << 4], &head[..], &(data.len() as u32).to_be_bytes(), &data].concat()
    });
    prop_oneof![message, batch].boxed()
}

/// The bytes of some parts.
pub(crate) fn content(parts: &[FieldForm]) -> BoxedStrategy<Vec<u8>> {
    parts.iter().fold(Just(Vec::new()).boxed(), |before, next| {
        (before, part(*next)).prop_map(|(before, next)| [before, next].concat()).boxed()
    })
}

/// A frame of a layout.
pub(crate) fn frame((key, version, parts): (u16, u16, &[FieldForm])) -> BoxedStrategy<Vec<u8>> {
    content(parts)
        .prop_map(move |content| {
            let size = 4 + content.len() as u32;
            [&size.to_be_bytes()[..], &key.to_be_bytes(), &version.to_be_bytes(), &content].concat()
        })
        .boxed()
}

/// Appends what the server's side writes for an answer.
pub(crate) fn encode(out: &mut Vec<u8>, answer: &ServerCommand<'_>) {
    let known = |code: u16| ResponseCode::from_number(code).expect("a known code");
    match *answer {
        ServerCommand::Response { key, correlation, code } => answers::response(out, key, correlation, known(code)),
        ServerCommand::Confirm { publisher, ids } => {
            let mut confirms = Confirms::begin(out, publisher);
            ids.iter().for_each(|id| confirms.push(out, id));
            confirms.end(out);
        }
        ServerCommand::PublishError { publisher, errors } => {
            let code = errors.iter().next().map_or(ResponseCode::Ok, |(_, code)| known(code));
            answers::publish_error(out, publisher, code, errors.iter().map(|(id, _)| id));
        }
        ServerCommand::Sequence { correlation, code, sequence } => {
            answers::sequence(out, correlation, known(code), sequence)
        }
        ServerCommand::Deliver { subscription, committed, chunk } => {
            let version = if committed.is_some() { 2 } else { 1 };
            answers::deliver_head(out, version, subscription, committed.unwrap_or(0), chunk.len() as u32);
            out.extend_from_slice(chunk);
        }
        ServerCommand::CreditRefused { code, subscription } => answers::credit_refused(out, known(code), subscription),
        ServerCommand::StoredOffset { correlation, code, offset } => {
            answers::query_offset(out, correlation, known(code), offset);
        }
        ServerCommand::Metadata { correlation, brokers, streams } => {
            let brokers: Vec<_> = brokers.iter().collect();
            let replicas: Vec<Vec<u16>> = streams.iter().map(|stream| stream.replicas().collect()).collect();
            let streams: Vec<_> = streams
                .iter()
                .zip(&replicas)
                .map(|(entry, replicas)| StreamMetadata {
                    stream: entry.stream,
                    code: known(entry.code),
                    leader: entry.leader,
                    replicas,
                })
                .collect();
            answers::metadata(out, correlation, &brokers, streams.into_iter());
        }
        ServerCommand::MetadataUpdate { code, stream } => answers::metadata_update(out, known(code), stream),
        ServerCommand::PeerProperties { correlation, code, properties } => {
            answers::peer_properties(out, correlation, known(code), &properties.iter().collect::<Vec<_>>());
        }
        ServerCommand::SaslMechanisms { correlation, mechanisms, .. } => {
            answers::sasl_mechanisms(out, correlation, &mechanisms.iter().collect::<Vec<_>>());
        }
        ServerCommand::SaslAuthenticated { correlation, code, challenge } => {
            answers::sasl_authenticated(out, correlation, known(code), Some(challenge));
        }
        ServerCommand::Tune { frame_max, heartbeat } => answers::tune(out, frame_max, heartbeat),
        ServerCommand::Opened { correlation, code, properties } => {
            answers::opened(out, correlation, known(code), &properties.iter().collect::<Vec<_>>());
        }
        ServerCommand::Close { correlation, code, reason } => answers::close(out, correlation, code, reason),
        ServerCommand::Heartbeat => answers::heartbeat(out),
        ServerCommand::Streams { key, correlation, code, streams } => {
            answers::streams(out, key, correlation, known(code), streams.iter());
        }
        ServerCommand::ConsumerUpdate { correlation, subscription, is_active } => {
            answers::consumer_update(out, correlation, subscription, is_active);
        }
        ServerCommand::CommandVersions { correlation, code, versions } => {
            answers::command_versions(out, correlation, known(code), &versions.iter().collect::<Vec<_>>());
        }
        ServerCommand::StreamStats { correlation, code, stats } => {
            answers::stream_stats(out, correlation, known(code), &stats.iter().collect::<Vec<_>>());
        }
        ServerCommand::ResolvedOffset { correlation, code, offset } => {
            answers::resolved_offset(out, correlation, known(code), offset);
        }
    }
}
