//! Commands of clients, and their answers to requests of the server.

use crate::wire::FieldReader;
use crate::{DecodeError, Frame, OffsetSpec, Pairs, Publish, Strings, Versions, key};

/// A command of a client. `correlation` comes back in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol, and the variants say what they mean together")]
pub enum Request<'a> {
    /// Declares a publisher; an empty reference is none.
    DeclarePublisher { correlation: u32, publisher: u8, reference: &'a str, stream: &'a str },
    /// Publishes messages.
    Publish(Publish<'a>),
    /// Asks for the last publishing id of a reference.
    QueryPublisherSequence { correlation: u32, reference: &'a str, stream: &'a str },
    /// Deletes a publisher.
    DeletePublisher { correlation: u32, publisher: u8 },
    /// Subscribes to a stream, with an initial credit in chunks.
    Subscribe {
        correlation: u32,
        subscription: u8,
        stream: &'a str,
        start: OffsetSpec,
        credit: u16,
        properties: Pairs<'a>,
    },
    /// Grants credit, in chunks. It is answered only if it is refused.
    Credit { subscription: u8, credit: u16 },
    /// Stores an offset. It isn't answered.
    StoreOffset { reference: &'a str, stream: &'a str, offset: u64 },
    /// Asks for a stored offset.
    QueryOffset { correlation: u32, reference: &'a str, stream: &'a str },
    /// Ends a subscription.
    Unsubscribe { correlation: u32, subscription: u8 },
    /// Creates a stream.
    Create { correlation: u32, stream: &'a str, arguments: Pairs<'a> },
    /// Deletes a stream.
    Delete { correlation: u32, stream: &'a str },
    /// Asks for leaders and replicas of streams.
    Metadata { correlation: u32, streams: Strings<'a> },
    /// Sends the client's properties and asks for those of the server.
    PeerProperties { correlation: u32, properties: Pairs<'a> },
    /// Asks for the SASL mechanisms.
    SaslHandshake { correlation: u32 },
    /// A SASL response.
    SaslAuthenticate { correlation: u32, mechanism: &'a str, response: &'a [u8] },
    /// The limits that the client chooses, sent as a request or as a response. 0 is no limit and no heartbeat.
    Tune { frame_max: u32, heartbeat: u32 },
    /// Enters a virtual host.
    Open { correlation: u32, vhost: &'a str },
    /// Closes the connection.
    Close { correlation: u32, code: u16, reason: &'a str },
    /// A heartbeat.
    Heartbeat,
    /// Asks for the streams that a routing key leads to.
    Route { correlation: u32, routing_key: &'a str, super_stream: &'a str },
    /// Asks for the partitions of a super stream.
    Partitions { correlation: u32, super_stream: &'a str },
    /// Sends the versions of commands that the client speaks and asks for those of the server.
    ExchangeCommandVersions { correlation: u32, versions: Versions<'a> },
    /// Asks for statistics of a stream.
    StreamStats { correlation: u32, stream: &'a str },
    /// Creates a super stream; each partition has the binding key at the same place.
    CreateSuperStream {
        correlation: u32,
        name: &'a str,
        partitions: Strings<'a>,
        binding_keys: Strings<'a>,
        arguments: Pairs<'a>,
    },
    /// Deletes a super stream.
    DeleteSuperStream { correlation: u32, name: &'a str },
    /// Asks for the offset that an offset specification means.
    ResolveOffsetSpec { correlation: u32, stream: &'a str, start: OffsetSpec, properties: Pairs<'a> },
    /// Answers a consumer update of the server.
    ConsumerUpdated { correlation: u32, code: u16, start: OffsetSpec },
    /// Answers a close of the server.
    Closed { correlation: u32, code: u16 },
}

impl<'a> Request<'a> {
    /// Decodes a frame of a client.
    ///
    /// Null strings and bytes are empty. As in RabbitMQ, the list at the end of a command goes to the end of the frame,
    /// properties may be missing, and other commands have no bytes behind their last field.
    ///
    /// # Errors
    /// The key or version isn't one that clients send, or the content is malformed.
    #[inline]
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(frame.key, frame.content);
        if frame.key == key::PUBLISH && !frame.is_response && matches!(frame.version, 1 | 2) {
            return Publish::read(&mut reader, frame.version).map(Self::Publish);
        }
        let request = if frame.is_response { response(frame, &mut reader) } else { request(frame, &mut reader) }?;
        reader.finish()?;
        Ok(request)
    }
}

/// Fails if the version of a known command isn't 1.
fn expect_version_1(frame: &Frame<'_>) -> Result<(), DecodeError> {
    if frame.version == 1 {
        return Ok(());
    }
    Err(DecodeError::UnknownVersion { key: frame.key, version: frame.version })
}

fn request<'a>(frame: &Frame<'a>, reader: &mut FieldReader<'a>) -> Result<Request<'a>, DecodeError> {
    const SENT_BY_SERVERS: [u16; 5] =
        [key::PUBLISH_CONFIRM, key::PUBLISH_ERROR, key::DELIVER, key::METADATA_UPDATE, key::CONSUMER_UPDATE];
    if key::name(frame.key).is_none() || SENT_BY_SERVERS.contains(&frame.key) {
        return Err(DecodeError::UnknownKey { key: frame.key, is_response: false });
    }
    expect_version_1(frame)?;
    match frame.key {
        key::CREDIT => {
            return Ok(Request::Credit { subscription: reader.u8("subscription id")?, credit: reader.u16("credit")? });
        }
        key::STORE_OFFSET => {
            return Ok(Request::StoreOffset {
                reference: reader.string("reference")?,
                stream: reader.string("stream")?,
                offset: reader.u64("offset")?,
            });
        }
        key::TUNE => return tune(reader),
        key::HEARTBEAT => return Ok(Request::Heartbeat),
        _ => {}
    }
    let correlation = reader.u32("correlation id")?;
    Ok(match frame.key {
        key::DECLARE_PUBLISHER => Request::DeclarePublisher {
            correlation,
            publisher: reader.u8("publisher id")?,
            reference: reader.string("reference")?,
            stream: reader.string("stream")?,
        },
        key::QUERY_PUBLISHER_SEQUENCE => Request::QueryPublisherSequence {
            correlation,
            reference: reader.string("reference")?,
            stream: reader.string("stream")?,
        },
        key::DELETE_PUBLISHER => Request::DeletePublisher { correlation, publisher: reader.u8("publisher id")? },
        key::SUBSCRIBE => Request::Subscribe {
            correlation,
            subscription: reader.u8("subscription id")?,
            stream: reader.string("stream")?,
            start: OffsetSpec::read(reader)?,
            credit: reader.u16("credit")?,
            properties: optional_pairs(reader)?,
        },
        key::QUERY_OFFSET => Request::QueryOffset {
            correlation,
            reference: reader.string("reference")?,
            stream: reader.string("stream")?,
        },
        key::UNSUBSCRIBE => Request::Unsubscribe { correlation, subscription: reader.u8("subscription id")? },
        key::CREATE => {
            Request::Create { correlation, stream: reader.string("stream")?, arguments: Pairs::read_to_end(reader)? }
        }
        key::DELETE => Request::Delete { correlation, stream: reader.string("stream")? },
        key::METADATA => Request::Metadata { correlation, streams: Strings::read_to_end(reader, "stream")? },
        key::PEER_PROPERTIES => Request::PeerProperties { correlation, properties: Pairs::read_to_end(reader)? },
        key::SASL_HANDSHAKE => Request::SaslHandshake { correlation },
        key::SASL_AUTHENTICATE => Request::SaslAuthenticate {
            correlation,
            mechanism: reader.string("mechanism")?,
            response: reader.long_bytes("SASL response")?,
        },
        key::OPEN => Request::Open { correlation, vhost: reader.string("virtual host")? },
        key::CLOSE => {
            Request::Close { correlation, code: reader.u16("close code")?, reason: reader.string("close reason")? }
        }
        key::ROUTE => Request::Route {
            correlation,
            routing_key: reader.string("routing key")?,
            super_stream: reader.string("super stream")?,
        },
        key::PARTITIONS => Request::Partitions { correlation, super_stream: reader.string("super stream")? },
        key::EXCHANGE_COMMAND_VERSIONS => {
            Request::ExchangeCommandVersions { correlation, versions: Versions::read_to_end(reader)? }
        }
        key::STREAM_STATS => Request::StreamStats { correlation, stream: reader.string("stream")? },
        key::CREATE_SUPER_STREAM => Request::CreateSuperStream {
            correlation,
            name: reader.string("super stream")?,
            partitions: Strings::read(reader, "partition")?,
            binding_keys: Strings::read(reader, "binding key")?,
            arguments: Pairs::read_to_end(reader)?,
        },
        key::DELETE_SUPER_STREAM => Request::DeleteSuperStream { correlation, name: reader.string("super stream")? },
        key::RESOLVE_OFFSET_SPEC => Request::ResolveOffsetSpec {
            correlation,
            stream: reader.string("stream")?,
            start: OffsetSpec::read(reader)?,
            properties: optional_pairs(reader)?,
        },
        key => return Err(DecodeError::UnknownKey { key, is_response: false }),
    })
}

fn response<'a>(frame: &Frame<'a>, reader: &mut FieldReader<'a>) -> Result<Request<'a>, DecodeError> {
    if !matches!(frame.key, key::TUNE | key::CONSUMER_UPDATE | key::CLOSE) {
        return Err(DecodeError::UnknownKey { key: frame.key, is_response: true });
    }
    expect_version_1(frame)?;
    if frame.key == key::TUNE {
        return tune(reader);
    }
    let correlation = reader.u32("correlation id")?;
    let code = reader.u16("response code")?;
    if frame.key == key::CLOSE {
        return Ok(Request::Closed { correlation, code });
    }
    let start = OffsetSpec::read_or_none(reader)?;
    if !matches!(start, OffsetSpec::Offset(_) | OffsetSpec::Timestamp(_)) {
        // rstream sends a number with every type. RabbitMQ doesn't look at it either.
        reader.take(reader.rest().len(), "offset")?;
    }
    Ok(Request::ConsumerUpdated { correlation, code, start })
}

fn tune<'a>(reader: &mut FieldReader<'_>) -> Result<Request<'a>, DecodeError> {
    Ok(Request::Tune { frame_max: reader.u32("frame_max")?, heartbeat: reader.u32("heartbeat")? })
}

/// Pairs that older clients don't send. RabbitMQ ignores too few bytes for a count.
fn optional_pairs<'a>(reader: &mut FieldReader<'a>) -> Result<Pairs<'a>, DecodeError> {
    if reader.rest().len() < 4 {
        reader.take(reader.rest().len(), "properties")?;
        return Ok(Pairs::default());
    }
    Pairs::read_to_end(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(key: u16, content: &[u8]) -> Result<Request<'_>, DecodeError> {
        Request::decode(&Frame { key: key & 0x7FFF, is_response: key & 0x8000 != 0, version: 1, content })
    }

    #[test]
    fn properties_of_a_subscribe_may_be_missing() {
        let content = [0, 0, 0, 9, 3, 0, 1, b's', 0, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 10, 0, 0, 0, 1, 0, 1, b'k', 0, 0];
        let Ok(Request::Subscribe { correlation: 9, subscription: 3, stream, start, credit: 10, properties }) =
            decode(key::SUBSCRIBE, &content)
        else {
            panic!("not a subscribe");
        };
        assert_eq!((stream, start, properties.get("k")), ("s", OffsetSpec::Offset(256), Some("")));
        for end in 20..24 {
            let Ok(Request::Subscribe { properties, .. }) = decode(key::SUBSCRIBE, &content[..end]) else {
                panic!("not a subscribe with {end} bytes");
            };
            assert!(properties.is_empty());
        }
    }

    #[test]
    fn a_super_stream_has_three_lists() {
        let content = [
            &[0, 0, 0, 1, 0, 1, b's'][..],
            &[0, 0, 0, 2, 0, 1, b'0', 0, 1, b'1'],
            &[0, 0, 0, 1, 0, 1, b'k'],
            &[0, 0, 0, 1, 0, 1, b'a', 0, 1, b'b'],
        ]
        .concat();
        let Ok(Request::CreateSuperStream { name, partitions, binding_keys, arguments, .. }) =
            decode(key::CREATE_SUPER_STREAM, &content)
        else {
            panic!("not a super stream");
        };
        assert_eq!((name, arguments.get("a")), ("s", Some("b")));
        assert!(partitions.iter().eq(["0", "1"]) && binding_keys.iter().eq(["k"]));
    }

    #[test]
    fn a_tune_is_a_request_or_a_response() {
        let tune = Request::Tune { frame_max: 65_536, heartbeat: 60 };
        for key in [0x0014, 0x8014] {
            assert_eq!(decode(key, &[0, 1, 0, 0, 0, 0, 0, 60]), Ok(tune));
        }
    }

    #[test]
    fn answers_of_clients_are_decoded() {
        let (correlation, code) = (7, 1);
        let timestamp = [0, 0, 0, 7, 0, 1, 0, 5, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        for (content, start) in [
            (&timestamp[..], OffsetSpec::Timestamp(-1)),
            (&[0, 0, 0, 7, 0, 1, 0, 3], OffsetSpec::Next),
            (&[0, 0, 0, 7, 0, 1, 0, 0], OffsetSpec::None),
            (&[0, 0, 0, 7, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9], OffsetSpec::First),
        ] {
            assert_eq!(decode(0x801A, content), Ok(Request::ConsumerUpdated { correlation, code, start }));
        }
        assert_eq!(decode(0x8016, &timestamp[..6]), Ok(Request::Closed { correlation, code }));
    }

    #[test]
    fn only_answers_to_consumer_updates_may_have_no_offset() {
        let subscribe = [0, 0, 0, 9, 3, 0, 1, b's', 0, 0, 0, 1];
        let expected = Err(DecodeError::OffsetType { key: key::SUBSCRIBE, received: 0 });
        assert_eq!(decode(key::SUBSCRIBE, &subscribe), expected);
        let resolve = [0, 0, 0, 9, 0, 1, b's', 0, 6];
        let expected = Err(DecodeError::OffsetType { key: key::RESOLVE_OFFSET_SPEC, received: 6 });
        assert_eq!(decode(key::RESOLVE_OFFSET_SPEC, &resolve), expected);
    }

    #[test]
    fn keys_that_clients_do_not_send_are_unknown() {
        for (received, key, is_response) in
            [(0, 0, false), (32, 32, false), (3, 3, false), (26, 26, false), (0x8001, 1, true), (0x8017, 23, true)]
        {
            assert_eq!(decode(received, &[0; 64]), Err(DecodeError::UnknownKey { key, is_response }));
        }
    }

    #[test]
    fn only_publish_has_a_second_version() {
        for key in 0..40 {
            let frame = Frame { key, is_response: false, version: 2, content: &[0; 5] };
            match Request::decode(&frame) {
                Ok(Request::Publish(Publish { version: 2, count: 0, .. })) => assert_eq!(key, key::PUBLISH),
                Err(DecodeError::UnknownKey { .. }) => {}
                other => assert_eq!(other, Err(DecodeError::UnknownVersion { key, version: 2 })),
            }
        }
    }

    #[test]
    fn bytes_behind_the_last_field_are_an_error() {
        let excess = Err(DecodeError::Excess { key: key::HEARTBEAT, count: 1 });
        assert_eq!(decode(key::HEARTBEAT, &[0]), excess);
        let excess = Err(DecodeError::Excess { key: key::DELETE, count: 2 });
        assert_eq!(decode(key::DELETE, &[0, 0, 0, 1, 0, 1, b's', 0, 0]), excess);
    }

    #[test]
    fn a_sasl_response_may_be_null() {
        let (correlation, mechanism) = (2, "EXTERNAL");
        let content = b"\0\0\0\x02\0\x08EXTERNAL\xFF\xFF\xFF\xFF";
        let expected = Request::SaslAuthenticate { correlation, mechanism, response: b"" };
        assert_eq!(decode(key::SASL_AUTHENTICATE, content), Ok(expected));
    }
}
