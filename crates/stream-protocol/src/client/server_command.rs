//! Answers and commands of a server.

use crate::wire::FieldReader;
use crate::{DecodeError, Frame, Pairs, Strings, Versions, key};

use super::lists::{Brokers, Ids, PublishErrors, Stats, StreamsMetadata};

/// An answer or a command of a server. `code` is the number of a [`ResponseCode`](crate::ResponseCode), if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol, and the variants say what they mean together")]
pub enum ServerCommand<'a> {
    /// A response with nothing but a code. Refusals of any request can be this.
    Response { key: u16, correlation: u32, code: u16 },
    /// Messages of a publisher are stored.
    Confirm { publisher: u8, ids: Ids<'a> },
    /// Messages of a publisher are refused.
    PublishError { publisher: u8, errors: PublishErrors<'a> },
    /// The last publishing id of a reference.
    Sequence { correlation: u32, code: u16, sequence: u64 },
    /// A chunk, and in version 2 the offset up to which the stream is committed.
    Deliver { subscription: u8, committed: Option<u64>, chunk: &'a [u8] },
    /// Credit is refused.
    CreditRefused { code: u16, subscription: u8 },
    /// A stored offset.
    StoredOffset { correlation: u32, code: u16, offset: u64 },
    /// Leaders and replicas of streams.
    Metadata { correlation: u32, brokers: Brokers<'a>, streams: StreamsMetadata<'a> },
    /// A stream isn't available any more.
    MetadataUpdate { code: u16, stream: &'a str },
    /// The server's properties.
    PeerProperties { correlation: u32, code: u16, properties: Pairs<'a> },
    /// The server's SASL mechanisms.
    SaslMechanisms { correlation: u32, code: u16, mechanisms: Strings<'a> },
    /// The answer to a SASL response. The challenge is empty if there is none.
    SaslAuthenticated { correlation: u32, code: u16, challenge: &'a [u8] },
    /// The limits that the server proposes.
    Tune { frame_max: u32, heartbeat: u32 },
    /// The answer to an open.
    Opened { correlation: u32, code: u16, properties: Pairs<'a> },
    /// The server closes the connection.
    Close { correlation: u32, code: u16, reason: &'a str },
    /// A heartbeat.
    Heartbeat,
    /// Streams that a routing key leads to, or the partitions of a super stream.
    Streams { key: u16, correlation: u32, code: u16, streams: Strings<'a> },
    /// A consumer of a group becomes active or inactive.
    ConsumerUpdate { correlation: u32, subscription: u8, is_active: bool },
    /// The versions of commands that the server speaks.
    CommandVersions { correlation: u32, code: u16, versions: Versions<'a> },
    /// Statistics of a stream.
    StreamStats { correlation: u32, code: u16, stats: Stats<'a> },
    /// The offset that an offset specification means.
    ResolvedOffset { correlation: u32, code: u16, offset: u64 },
}

impl<'a> ServerCommand<'a> {
    /// Decodes a frame of a server. Counts of lists must be true.
    ///
    /// # Errors
    /// The key or version isn't one that servers send, or the content is malformed.
    #[inline]
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(frame.key, frame.content);
        let newest = if frame.key == key::DELIVER { 2 } else { 1 };
        if key::name(frame.key).is_some() && !(1..=newest).contains(&frame.version) {
            return Err(DecodeError::UnknownVersion { key: frame.key, version: frame.version });
        }
        let answer = if frame.is_response { response(frame, &mut reader) } else { command(frame, &mut reader) }?;
        reader.finish()?;
        Ok(answer)
    }
}

#[inline]
fn command<'a>(frame: &Frame<'a>, reader: &mut FieldReader<'a>) -> Result<ServerCommand<'a>, DecodeError> {
    Ok(match frame.key {
        key::DELIVER => {
            let subscription = reader.u8("subscription id")?;
            let committed = if frame.version == 1 { None } else { Some(reader.u64("committed offset")?) };
            ServerCommand::Deliver { subscription, committed, chunk: reader.take(reader.rest().len(), "chunk")? }
        }
        key::PUBLISH_CONFIRM => {
            ServerCommand::Confirm { publisher: reader.u8("publisher id")?, ids: Ids::read(reader)? }
        }
        key::PUBLISH_ERROR => {
            ServerCommand::PublishError { publisher: reader.u8("publisher id")?, errors: PublishErrors::read(reader)? }
        }
        key::METADATA_UPDATE => {
            ServerCommand::MetadataUpdate { code: reader.u16("code")?, stream: reader.string("stream")? }
        }
        key::TUNE => ServerCommand::Tune { frame_max: reader.u32("frame_max")?, heartbeat: reader.u32("heartbeat")? },
        key::HEARTBEAT => ServerCommand::Heartbeat,
        key::CLOSE => ServerCommand::Close {
            correlation: reader.u32("correlation id")?,
            code: reader.u16("close code")?,
            reason: reader.string("close reason")?,
        },
        key::CONSUMER_UPDATE => ServerCommand::ConsumerUpdate {
            correlation: reader.u32("correlation id")?,
            subscription: reader.u8("subscription id")?,
            is_active: reader.u8("active")? != 0,
        },
        key => return Err(DecodeError::UnknownKey { key, is_response: false }),
    })
}

fn response<'a>(frame: &Frame<'a>, reader: &mut FieldReader<'a>) -> Result<ServerCommand<'a>, DecodeError> {
    const WITHOUT_RESPONSE: [u16; 9] = [
        key::PUBLISH,
        key::PUBLISH_CONFIRM,
        key::PUBLISH_ERROR,
        key::DELIVER,
        key::STORE_OFFSET,
        key::METADATA_UPDATE,
        key::TUNE,
        key::HEARTBEAT,
        key::CONSUMER_UPDATE,
    ];
    let key = frame.key;
    if key::name(key).is_none() || WITHOUT_RESPONSE.contains(&key) {
        return Err(DecodeError::UnknownKey { key, is_response: true });
    }
    if key == key::CREDIT {
        return Ok(ServerCommand::CreditRefused {
            code: reader.u16("code")?,
            subscription: reader.u8("subscription id")?,
        });
    }
    let correlation = reader.u32("correlation id")?;
    if key == key::METADATA {
        let brokers = Brokers::read(reader)?;
        return Ok(ServerCommand::Metadata { correlation, brokers, streams: StreamsMetadata::read(reader)? });
    }
    let code = reader.u16("response code")?;
    if reader.is_empty() {
        return Ok(match key {
            key::SASL_AUTHENTICATE => ServerCommand::SaslAuthenticated { correlation, code, challenge: &[] },
            key::OPEN => ServerCommand::Opened { correlation, code, properties: Pairs::default() },
            _ => ServerCommand::Response { key, correlation, code },
        });
    }
    Ok(match key {
        key::QUERY_PUBLISHER_SEQUENCE => {
            ServerCommand::Sequence { correlation, code, sequence: reader.u64("sequence")? }
        }
        key::QUERY_OFFSET => ServerCommand::StoredOffset { correlation, code, offset: reader.u64("offset")? },
        key::PEER_PROPERTIES => ServerCommand::PeerProperties { correlation, code, properties: Pairs::read(reader)? },
        key::SASL_HANDSHAKE => {
            ServerCommand::SaslMechanisms { correlation, code, mechanisms: Strings::read(reader, "mechanism")? }
        }
        key::SASL_AUTHENTICATE => {
            ServerCommand::SaslAuthenticated { correlation, code, challenge: reader.short_bytes("challenge")? }
        }
        key::OPEN => ServerCommand::Opened { correlation, code, properties: Pairs::read(reader)? },
        key::ROUTE | key::PARTITIONS => {
            ServerCommand::Streams { key, correlation, code, streams: Strings::read(reader, "stream")? }
        }
        key::EXCHANGE_COMMAND_VERSIONS => {
            ServerCommand::CommandVersions { correlation, code, versions: Versions::read(reader)? }
        }
        key::STREAM_STATS => ServerCommand::StreamStats { correlation, code, stats: Stats::read(reader)? },
        key::RESOLVE_OFFSET_SPEC => match reader.u16("offset type")? {
            4 => ServerCommand::ResolvedOffset { correlation, code, offset: reader.u64("offset")? },
            received => return Err(DecodeError::OffsetType { key, received }),
        },
        // The bytes behind the code are in excess.
        key => ServerCommand::Response { key, correlation, code },
    })
}
