//! Requests of a client, and its answers to the server's. Each function appends one frame.

use crate::limits::RESPONSE_BIT;
use crate::wire::{Open, write_bytes, write_list, write_pairs, write_string};
use crate::{OffsetSpec, Publish, Request, key};

use super::Publishing;

/// Declares a publisher; an empty reference is none.
pub fn declare_publisher(out: &mut Vec<u8>, correlation: u32, publisher: u8, reference: &str, stream: &str) {
    request(out, key::DECLARE_PUBLISHER, correlation, |out| {
        out.push(publisher);
        write_string(out, reference);
        write_string(out, stream);
    });
}

/// Asks for the last publishing id of a reference.
pub fn query_publisher_sequence(out: &mut Vec<u8>, correlation: u32, reference: &str, stream: &str) {
    request(out, key::QUERY_PUBLISHER_SEQUENCE, correlation, |out| {
        write_string(out, reference);
        write_string(out, stream);
    });
}

/// Deletes a publisher.
pub fn delete_publisher(out: &mut Vec<u8>, correlation: u32, publisher: u8) {
    request(out, key::DELETE_PUBLISHER, correlation, |out| out.push(publisher));
}

/// Subscribes to a stream. Properties that are empty aren't sent.
pub fn subscribe<'a>(
    out: &mut Vec<u8>,
    correlation: u32,
    subscription: u8,
    stream: &str,
    start: OffsetSpec,
    credit: u16,
    properties: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    request(out, key::SUBSCRIBE, correlation, |out| {
        out.push(subscription);
        write_string(out, stream);
        start.write(out);
        out.extend_from_slice(&credit.to_be_bytes());
        let mut properties = properties.into_iter().peekable();
        if properties.peek().is_some() {
            write_pairs(out, properties);
        }
    });
}

/// Grants credit, in chunks.
pub fn credit(out: &mut Vec<u8>, subscription: u8, credit: u16) {
    let frame = Open::begin(out, key::CREDIT, 1);
    out.push(subscription);
    out.extend_from_slice(&credit.to_be_bytes());
    frame.end(out);
}

/// Stores an offset.
pub fn store_offset(out: &mut Vec<u8>, reference: &str, stream: &str, offset: u64) {
    let frame = Open::begin(out, key::STORE_OFFSET, 1);
    write_string(out, reference);
    write_string(out, stream);
    out.extend_from_slice(&offset.to_be_bytes());
    frame.end(out);
}

/// Asks for a stored offset.
pub fn query_offset(out: &mut Vec<u8>, correlation: u32, reference: &str, stream: &str) {
    request(out, key::QUERY_OFFSET, correlation, |out| {
        write_string(out, reference);
        write_string(out, stream);
    });
}

/// Ends a subscription.
pub fn unsubscribe(out: &mut Vec<u8>, correlation: u32, subscription: u8) {
    request(out, key::UNSUBSCRIBE, correlation, |out| out.push(subscription));
}

/// Creates a stream.
pub fn create<'a>(
    out: &mut Vec<u8>,
    correlation: u32,
    stream: &str,
    arguments: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    request(out, key::CREATE, correlation, |out| {
        write_string(out, stream);
        write_pairs(out, arguments);
    });
}

/// Deletes a stream.
pub fn delete(out: &mut Vec<u8>, correlation: u32, stream: &str) {
    request(out, key::DELETE, correlation, |out| write_string(out, stream));
}

/// Asks for leaders and replicas of streams.
pub fn metadata<'a>(out: &mut Vec<u8>, correlation: u32, streams: impl IntoIterator<Item = &'a str>) {
    request(out, key::METADATA, correlation, |out| write_list(out, streams, write_string));
}

/// Sends the client's properties.
pub fn peer_properties<'a>(
    out: &mut Vec<u8>,
    correlation: u32,
    properties: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    request(out, key::PEER_PROPERTIES, correlation, |out| write_pairs(out, properties));
}

/// Asks for the SASL mechanisms.
pub fn sasl_handshake(out: &mut Vec<u8>, correlation: u32) {
    request(out, key::SASL_HANDSHAKE, correlation, |_| {});
}

/// Sends a SASL response. One that is empty is sent as null.
pub fn sasl_authenticate(out: &mut Vec<u8>, correlation: u32, mechanism: &str, response: &[u8]) {
    request(out, key::SASL_AUTHENTICATE, correlation, |out| {
        write_string(out, mechanism);
        write_bytes(out, response);
    });
}

/// Chooses limits, as an answer to those of the server.
pub fn tune(out: &mut Vec<u8>, frame_max: u32, heartbeat: u32) {
    let frame = Open::begin(out, key::TUNE | RESPONSE_BIT, 1);
    out.extend_from_slice(&frame_max.to_be_bytes());
    out.extend_from_slice(&heartbeat.to_be_bytes());
    frame.end(out);
}

/// Enters a virtual host.
pub fn open(out: &mut Vec<u8>, correlation: u32, vhost: &str) {
    request(out, key::OPEN, correlation, |out| write_string(out, vhost));
}

/// Closes the connection.
pub fn close(out: &mut Vec<u8>, correlation: u32, code: u16, reason: &str) {
    crate::answers::close(out, correlation, code, reason);
}

/// A heartbeat.
pub fn heartbeat(out: &mut Vec<u8>) {
    crate::answers::heartbeat(out);
}

/// Asks for the streams that a routing key leads to.
pub fn route(out: &mut Vec<u8>, correlation: u32, routing_key: &str, super_stream: &str) {
    request(out, key::ROUTE, correlation, |out| {
        write_string(out, routing_key);
        write_string(out, super_stream);
    });
}

/// Asks for the partitions of a super stream.
pub fn partitions(out: &mut Vec<u8>, correlation: u32, super_stream: &str) {
    request(out, key::PARTITIONS, correlation, |out| write_string(out, super_stream));
}

/// Sends the versions of commands that the client speaks: key, lowest and highest version.
pub fn exchange_command_versions(
    out: &mut Vec<u8>,
    correlation: u32,
    versions: impl IntoIterator<Item = (u16, u16, u16)>,
) {
    request(out, key::EXCHANGE_COMMAND_VERSIONS, correlation, |out| crate::wire::write_versions(out, versions));
}

/// Asks for statistics of a stream.
pub fn stream_stats(out: &mut Vec<u8>, correlation: u32, stream: &str) {
    request(out, key::STREAM_STATS, correlation, |out| write_string(out, stream));
}

/// Creates a super stream; each partition has the binding key at the same place.
pub fn create_super_stream<'a>(
    out: &mut Vec<u8>,
    correlation: u32,
    name: &str,
    partitions: impl IntoIterator<Item = &'a str>,
    binding_keys: impl IntoIterator<Item = &'a str>,
    arguments: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    request(out, key::CREATE_SUPER_STREAM, correlation, |out| {
        write_string(out, name);
        write_list(out, partitions, write_string);
        write_list(out, binding_keys, write_string);
        write_pairs(out, arguments);
    });
}

/// Deletes a super stream.
pub fn delete_super_stream(out: &mut Vec<u8>, correlation: u32, name: &str) {
    request(out, key::DELETE_SUPER_STREAM, correlation, |out| write_string(out, name));
}

/// Asks for the offset that an offset specification means.
pub fn resolve_offset_spec<'a>(
    out: &mut Vec<u8>,
    correlation: u32,
    stream: &str,
    start: OffsetSpec,
    properties: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    request(out, key::RESOLVE_OFFSET_SPEC, correlation, |out| {
        write_string(out, stream);
        start.write(out);
        write_pairs(out, properties);
    });
}

/// Answers a consumer update.
pub fn consumer_updated(out: &mut Vec<u8>, correlation: u32, code: u16, start: OffsetSpec) {
    let frame = Open::response(out, key::CONSUMER_UPDATE, correlation);
    out.extend_from_slice(&code.to_be_bytes());
    start.write(out);
    frame.end(out);
}

/// Answers a close of the server.
pub fn closed(out: &mut Vec<u8>, correlation: u32, code: u16) {
    let frame = Open::response(out, key::CLOSE, correlation);
    out.extend_from_slice(&code.to_be_bytes());
    frame.end(out);
}

/// Appends a request: its correlation id, then what `write` appends.
fn request(out: &mut Vec<u8>, key: u16, correlation: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let frame = Open::begin(out, key, 1);
    out.extend_from_slice(&correlation.to_be_bytes());
    write(out);
    frame.end(out);
}

impl Request<'_> {
    /// Appends the request as a frame. A decoded one comes out with the same bytes if its counts are true, it has
    /// properties where it may have none, it is a response if it is a tune, and an answer to a consumer update has a
    /// number only if its type needs one.
    ///
    /// # Errors
    /// A publish has malformed messages.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), crate::DecodeError> {
        match *self {
            Self::DeclarePublisher { correlation, publisher, reference, stream } => {
                declare_publisher(out, correlation, publisher, reference, stream);
            }
            Self::Publish(publish) => return encode_publish(out, &publish),
            Self::QueryPublisherSequence { correlation, reference, stream } => {
                query_publisher_sequence(out, correlation, reference, stream);
            }
            Self::DeletePublisher { correlation, publisher } => delete_publisher(out, correlation, publisher),
            Self::Subscribe { correlation, subscription, stream, start, credit, properties } => {
                subscribe(out, correlation, subscription, stream, start, credit, properties.iter());
            }
            Self::Credit { subscription, credit: granted } => credit(out, subscription, granted),
            Self::StoreOffset { reference, stream, offset } => store_offset(out, reference, stream, offset),
            Self::QueryOffset { correlation, reference, stream } => query_offset(out, correlation, reference, stream),
            Self::Unsubscribe { correlation, subscription } => unsubscribe(out, correlation, subscription),
            Self::Create { correlation, stream, arguments } => create(out, correlation, stream, arguments.iter()),
            Self::Delete { correlation, stream } => delete(out, correlation, stream),
            Self::Metadata { correlation, streams } => metadata(out, correlation, streams.iter()),
            Self::PeerProperties { correlation, properties } => peer_properties(out, correlation, properties.iter()),
            Self::SaslHandshake { correlation } => sasl_handshake(out, correlation),
            Self::SaslAuthenticate { correlation, mechanism, response } => {
                sasl_authenticate(out, correlation, mechanism, response);
            }
            Self::Tune { frame_max, heartbeat } => tune(out, frame_max, heartbeat),
            Self::Open { correlation, vhost } => open(out, correlation, vhost),
            Self::Close { correlation, code, reason } => close(out, correlation, code, reason),
            Self::Heartbeat => heartbeat(out),
            Self::Route { correlation, routing_key, super_stream } => {
                route(out, correlation, routing_key, super_stream)
            }
            Self::Partitions { correlation, super_stream } => partitions(out, correlation, super_stream),
            Self::ExchangeCommandVersions { correlation, versions } => {
                exchange_command_versions(out, correlation, versions.iter());
            }
            Self::StreamStats { correlation, stream } => stream_stats(out, correlation, stream),
            Self::CreateSuperStream { correlation, name, partitions, binding_keys, arguments } => {
                let (partitions, binding_keys) = (partitions.iter(), binding_keys.iter());
                create_super_stream(out, correlation, name, partitions, binding_keys, arguments.iter());
            }
            Self::DeleteSuperStream { correlation, name } => delete_super_stream(out, correlation, name),
            Self::ResolveOffsetSpec { correlation, stream, start, properties } => {
                resolve_offset_spec(out, correlation, stream, start, properties.iter());
            }
            Self::ConsumerUpdated { correlation, code, start } => consumer_updated(out, correlation, code, start),
            Self::Closed { correlation, code } => closed(out, correlation, code),
        }
        Ok(())
    }
}

fn encode_publish(out: &mut Vec<u8>, publish: &Publish<'_>) -> Result<(), crate::DecodeError> {
    let mut publishing = Publishing::begin(out, publish.version, publish.publisher);
    for message in publish.messages() {
        let message = message?;
        publishing.entry(out, message.id, message.filter, message.entry);
    }
    publishing.end(out);
    Ok(())
}
