//! Answers and commands of a server. Each function appends one frame.

use crate::limits::RESPONSE_BIT;
use crate::wire::{Open, write_list, write_pairs, write_short_bytes, write_string, write_versions};
use crate::{ResponseCode, key};

/// The metadata of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamMetadata<'a> {
    /// The name of the stream.
    pub stream: &'a str,
    /// Whether it exists and can be used.
    pub code: ResponseCode,
    /// The reference of its leader, or [`NO_LEADER`](crate::limits::NO_LEADER).
    pub leader: u16,
    /// The references of its replicas.
    pub replicas: &'a [u16],
}

/// An answer with nothing but a code.
pub fn response(out: &mut Vec<u8>, key: u16, correlation: u32, code: ResponseCode) {
    answer(out, key, correlation, code, |_| {});
}

/// Answers a query for the last publishing id of a reference.
pub fn sequence(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, sequence: u64) {
    answer(out, key::QUERY_PUBLISHER_SEQUENCE, correlation, code, |out| {
        out.extend_from_slice(&sequence.to_be_bytes());
    });
}

/// Answers a query for a stored offset.
pub fn query_offset(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, offset: u64) {
    answer(out, key::QUERY_OFFSET, correlation, code, |out| out.extend_from_slice(&offset.to_be_bytes()));
}

/// Answers a query for metadata. Brokers are reference, host and port.
pub fn metadata<'a>(
    out: &mut Vec<u8>,
    correlation: u32,
    brokers: &[(u16, &str, u32)],
    streams: impl ExactSizeIterator<Item = StreamMetadata<'a>>,
) {
    let frame = Open::response(out, key::METADATA, correlation);
    write_list(out, brokers, |out, &(reference, host, port)| {
        out.extend_from_slice(&reference.to_be_bytes());
        write_string(out, host);
        out.extend_from_slice(&port.to_be_bytes());
    });
    write_list(out, streams, |out, metadata| {
        write_string(out, metadata.stream);
        out.extend_from_slice(&u16::from(metadata.code).to_be_bytes());
        out.extend_from_slice(&metadata.leader.to_be_bytes());
        write_list(out, metadata.replicas, |out, replica| out.extend_from_slice(&replica.to_be_bytes()));
    });
    frame.end(out);
}

/// Reports that a stream isn't available any more: its publishers and subscriptions of the connection are gone.
pub fn metadata_update(out: &mut Vec<u8>, code: ResponseCode, stream: &str) {
    let frame = Open::begin(out, key::METADATA_UPDATE, 1);
    out.extend_from_slice(&u16::from(code).to_be_bytes());
    write_string(out, stream);
    frame.end(out);
}

/// The server's properties.
pub fn peer_properties(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, pairs: &[(&str, &str)]) {
    answer(out, key::PEER_PROPERTIES, correlation, code, |out| write_pairs(out, pairs.iter().copied()));
}

/// The server's SASL mechanisms.
pub fn sasl_mechanisms(out: &mut Vec<u8>, correlation: u32, mechanisms: &[&str]) {
    answer(out, key::SASL_HANDSHAKE, correlation, ResponseCode::Ok, |out| {
        write_list(out, mechanisms, |out, mechanism| write_string(out, mechanism));
    });
}

/// Answers a SASL response. As in RabbitMQ, nothing stands for no challenge, an empty challenge is none, and the length
/// of a challenge has 16 bits, where that of a response of the client has 32.
pub fn sasl_authenticated(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, challenge: Option<&[u8]>) {
    answer(out, key::SASL_AUTHENTICATE, correlation, code, |out| {
        if let Some(challenge) = challenge.filter(|challenge| !challenge.is_empty()) {
            write_short_bytes(out, challenge);
        }
    });
}

/// Proposes limits. 0 is no limit and no heartbeat.
pub fn tune(out: &mut Vec<u8>, frame_max: u32, heartbeat: u32) {
    let frame = Open::begin(out, key::TUNE, 1);
    out.extend_from_slice(&frame_max.to_be_bytes());
    out.extend_from_slice(&heartbeat.to_be_bytes());
    frame.end(out);
}

/// Answers an open. As in RabbitMQ, nothing stands for no properties.
pub fn opened(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, pairs: &[(&str, &str)]) {
    answer(out, key::OPEN, correlation, code, |out| {
        if !pairs.is_empty() {
            write_pairs(out, pairs.iter().copied());
        }
    });
}

/// Closes the connection.
///
/// # Panics
/// If the reason is longer than [`STRING_MAX`](crate::limits::STRING_MAX).
pub fn close(out: &mut Vec<u8>, correlation: u32, code: impl Into<u16>, reason: &str) {
    let frame = Open::begin(out, key::CLOSE, 1);
    out.extend_from_slice(&correlation.to_be_bytes());
    out.extend_from_slice(&code.into().to_be_bytes());
    write_string(out, reason);
    frame.end(out);
}

/// A heartbeat.
pub fn heartbeat(out: &mut Vec<u8>) {
    Open::begin(out, key::HEARTBEAT, 1).end(out);
}

/// Answers a query for streams: `key` is [`ROUTE`](key::ROUTE) or [`PARTITIONS`](key::PARTITIONS).
pub fn streams<'a>(
    out: &mut Vec<u8>,
    key: u16,
    correlation: u32,
    code: ResponseCode,
    streams: impl Iterator<Item = &'a str>,
) {
    answer(out, key, correlation, code, |out| write_list(out, streams, write_string));
}

/// Makes a consumer of a group active or inactive. The client answers with its own offset.
pub fn consumer_update(out: &mut Vec<u8>, correlation: u32, subscription: u8, is_active: bool) {
    let frame = Open::begin(out, key::CONSUMER_UPDATE, 1);
    out.extend_from_slice(&correlation.to_be_bytes());
    out.extend_from_slice(&[subscription, u8::from(is_active)]);
    frame.end(out);
}

/// The versions of commands that the server speaks: key, lowest and highest version.
pub fn command_versions(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, versions: &[(u16, u16, u16)]) {
    answer(out, key::EXCHANGE_COMMAND_VERSIONS, correlation, code, |out| write_versions(out, versions.iter().copied()));
}

/// Statistics of a stream.
pub fn stream_stats(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, stats: &[(&str, i64)]) {
    answer(out, key::STREAM_STATS, correlation, code, |out| {
        write_list(out, stats, |out, (name, value)| {
            write_string(out, name);
            out.extend_from_slice(&value.to_be_bytes());
        });
    });
}

/// The offset that an offset specification means, as a specification of the kind offset.
pub fn resolved_offset(out: &mut Vec<u8>, correlation: u32, code: ResponseCode, offset: u64) {
    answer(out, key::RESOLVE_OFFSET_SPEC, correlation, code, |out| {
        out.extend_from_slice(&[0, 4]);
        out.extend_from_slice(&offset.to_be_bytes());
    });
}

/// Refuses credit. This response has no correlation id, since the command has none.
pub fn credit_refused(out: &mut Vec<u8>, code: ResponseCode, subscription: u8) {
    let frame = Open::begin(out, key::CREDIT | RESPONSE_BIT, 1);
    out.extend_from_slice(&u16::from(code).to_be_bytes());
    out.push(subscription);
    frame.end(out);
}

/// Refuses messages of a publisher, all for the same reason.
pub fn publish_error(out: &mut Vec<u8>, publisher: u8, code: ResponseCode, ids: impl Iterator<Item = u64>) {
    let frame = Open::begin(out, key::PUBLISH_ERROR, 1);
    out.push(publisher);
    write_list(out, ids, |out, id| {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&u16::from(code).to_be_bytes());
    });
    frame.end(out);
}

/// The head of a deliver; `chunk_bytes` bytes of a chunk have to follow. Version 1 has no `committed`, the offset up to
/// which the stream is committed.
#[inline]
pub fn deliver_head(out: &mut Vec<u8>, version: u16, subscription: u8, committed: u64, chunk_bytes: u32) {
    let committed = committed.to_be_bytes();
    let committed = if version == 1 { &committed[..0] } else { &committed[..] };
    let size = 5 + committed.len() as u32 + chunk_bytes;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&key::DELIVER.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    out.push(subscription);
    out.extend_from_slice(committed);
}

/// Appends a response: its code, then what `write` appends.
fn answer(out: &mut Vec<u8>, key: u16, correlation: u32, code: ResponseCode, write: impl FnOnce(&mut Vec<u8>)) {
    let frame = Open::response(out, key, correlation);
    out.extend_from_slice(&u16::from(code).to_be_bytes());
    write(out);
    frame.end(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    /// The frame that `write` appends behind another one, without the size field, which is checked.
    fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = vec![0xEE];
        write(&mut out);
        assert_eq!(out[1..5], (out.len() as u32 - 5).to_be_bytes());
        out.split_off(5)
    }

    const OK: ResponseCode = ResponseCode::Ok;

    #[test]
    fn answers_begin_with_key_version_correlation_and_code() {
        let refused = frame(|out| response(out, key::DELETE, 0x0102_0304, ResponseCode::StreamDoesNotExist));
        assert_eq!(refused, [0x80, 14, 0, 1, 1, 2, 3, 4, 0, 2]);
        let sequence = frame(|out| sequence(out, 1, OK, 258));
        assert_eq!(sequence, [0x80, 5, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        let offset = frame(|out| query_offset(out, 1, ResponseCode::NoOffset, 0));
        assert_eq!(offset, [0x80, 11, 0, 1, 0, 0, 0, 1, 0, 19, 0, 0, 0, 0, 0, 0, 0, 0]);
        let resolved = frame(|out| resolved_offset(out, 1, OK, 2));
        assert_eq!(resolved, [0x80, 31, 0, 1, 0, 0, 0, 1, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn metadata_names_brokers_and_streams() {
        let known = StreamMetadata { stream: "s", code: OK, leader: 0, replicas: &[0, 1] };
        let unknown = StreamMetadata {
            stream: "t",
            code: ResponseCode::StreamDoesNotExist,
            leader: limits::NO_LEADER,
            replicas: &[],
        };
        let metadata = frame(|out| metadata(out, 7, &[(0, "h", 5552)], [known, unknown].into_iter()));
        let expected = [
            &[0x80, 15, 0, 1, 0, 0, 0, 7][..],
            &[0, 0, 0, 1, 0, 0, 0, 1, b'h', 0, 0, 0x15, 0xB0],
            &[0, 0, 0, 2, 0, 1, b's', 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1],
            &[0, 1, b't', 0, 2, 0xFF, 0xFF, 0, 0, 0, 0],
        ];
        assert_eq!(metadata, expected.concat());
        let update = frame(|out| metadata_update(out, ResponseCode::StreamNotAvailable, "s"));
        assert_eq!(update, [0, 16, 0, 1, 0, 6, 0, 1, b's']);
    }

    #[test]
    fn a_handshake_is_answered_step_by_step() {
        let properties = frame(|out| peer_properties(out, 1, OK, &[("a", "b")]));
        assert_eq!(properties, [0x80, 17, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, b'a', 0, 1, b'b']);
        let mechanisms = frame(|out| sasl_mechanisms(out, 1, &["A", "B"]));
        assert_eq!(mechanisms, [0x80, 18, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 1, b'A', 0, 1, b'B']);
        assert_eq!(frame(|out| sasl_authenticated(out, 1, OK, None)), [0x80, 19, 0, 1, 0, 0, 0, 1, 0, 1]);
        let challenge = frame(|out| sasl_authenticated(out, 1, ResponseCode::SaslChallenge, Some(b"?")));
        assert_eq!(challenge, [0x80, 19, 0, 1, 0, 0, 0, 1, 0, 10, 0, 1, b'?']);
        assert_eq!(frame(|out| tune(out, 1 << 20, 60)), [0, 20, 0, 1, 0, 16, 0, 0, 0, 0, 0, 60]);
        assert_eq!(frame(|out| opened(out, 1, OK, &[])), [0x80, 21, 0, 1, 0, 0, 0, 1, 0, 1]);
        let opened = frame(|out| opened(out, 1, OK, &[("p", "1")]));
        assert_eq!(opened, [0x80, 21, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, b'p', 0, 1, b'1']);
    }

    #[test]
    fn commands_of_the_server_have_no_code() {
        assert_eq!(frame(heartbeat), [0, 23, 0, 1]);
        let close = frame(|out| close(out, 1, ResponseCode::UnknownFrame, "no"));
        assert_eq!(close, [0, 22, 0, 1, 0, 0, 0, 1, 0, 13, 0, 2, b'n', b'o']);
        assert_eq!(frame(|out| consumer_update(out, 1, 9, true)), [0, 26, 0, 1, 0, 0, 0, 1, 9, 1]);
        let refused = frame(|out| credit_refused(out, ResponseCode::SubscriptionIdDoesNotExist, 9));
        assert_eq!(refused, [0x80, 9, 0, 1, 0, 4, 9]);
        let error = frame(|out| publish_error(out, 5, ResponseCode::PublisherDoesNotExist, [258].into_iter()));
        assert_eq!(error, [0, 4, 0, 1, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 18]);
    }

    #[test]
    fn lists_are_counted() {
        let partitions = frame(|out| streams(out, key::PARTITIONS, 1, OK, ["a", "b"].into_iter()));
        assert_eq!(partitions, [0x80, 25, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 1, b'a', 0, 1, b'b']);
        let versions = frame(|out| command_versions(out, 1, OK, &[(2, 1, 2)]));
        assert_eq!(versions, [0x80, 27, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 2, 0, 1, 0, 2]);
        let stats = frame(|out| stream_stats(out, 1, OK, &[("n", -1)]));
        let expected = [&[0x80, 28, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, b'n'][..], &[0xFF; 8]].concat();
        assert_eq!(stats, expected);
    }

    #[test]
    fn a_deliver_of_version_2_has_the_committed_offset() {
        let mut out = Vec::new();
        deliver_head(&mut out, 1, 3, 9, 100);
        assert_eq!(out, [0, 0, 0, 105, 0, 8, 0, 1, 3]);
        out.clear();
        deliver_head(&mut out, 2, 3, 9, 100);
        assert_eq!(out, [0, 0, 0, 113, 0, 8, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0, 9]);
    }
}
