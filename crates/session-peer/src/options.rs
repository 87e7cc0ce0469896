//! The options of a consumer as they travel.

use std::sync::Arc;

use leveret_peer::FieldReader;
use leveret_queue::{
    ConsumerFlow, ConsumerMode, ConsumerOptions, GroupMember, Link, MessageFilter, StreamFilter, StreamOptions,
    StreamStart,
};

use crate::fields::{Get, Put, get_all, get_maybe, put_bytes};

pub(crate) fn put_options(to: &mut Vec<u8>, options: &ConsumerOptions) {
    let ConsumerOptions { tag, channel, flow, priority, exclusive, mode, .. } = options;
    let ConsumerOptions { filter, stream, timeout_ms, user, arguments, .. } = options;
    put_bytes(to, tag.as_bytes());
    put_bytes(to, channel.as_bytes());
    put_bytes(to, user.as_bytes());
    match *flow {
        ConsumerFlow::Prefetch(most) => {
            to.u8(0);
            // It has none if its messages count as settled at once (basic.qos of AMQP 0-9-1).
            to.u32(if options.automatic_ack { 0 } else { most });
        }
        ConsumerFlow::Credit { delivery_count } => {
            to.u8(1);
            to.u32(delivery_count);
        }
    }
    to.u32(*priority as u32);
    to.flag(*exclusive);
    to.flag(*mode == ConsumerMode::Copy);
    to.maybe(*timeout_ms, |to, ms| to.u64(ms));
    to.maybe(filter.as_deref(), |to, filter| put_bytes(to, &filter.to_bytes()));
    to.maybe(stream.as_deref(), put_stream);
    // They are shown to operators only; a table is serializable in any case.
    put_bytes(to, &serde_json::to_vec(arguments).unwrap_or_default());
}

pub(crate) fn put_start(to: &mut Vec<u8>, start: StreamStart) {
    let (kind, number) = match start {
        StreamStart::First => (0, 0),
        StreamStart::Last => (1, 0),
        StreamStart::Next => (2, 0),
        StreamStart::Offset(offset) => (3, offset),
        StreamStart::LastN(count) => (4, count),
        StreamStart::Timestamp(ms) => (5, ms),
    };
    to.u8(kind);
    to.u64(number);
}

pub(crate) fn put_stream_filter(to: &mut Vec<u8>, filter: &StreamFilter) {
    to.all(filter.values.iter(), |to, value| put_bytes(to, value.as_bytes()));
    to.flag(filter.match_unfiltered);
    put_bytes(to, &filter.messages.to_bytes());
}

fn put_stream(to: &mut Vec<u8>, options: &StreamOptions) {
    put_start(to, options.start);
    to.flag(options.whole_chunks);
    to.maybe(options.filter.as_deref(), put_stream_filter);
    to.maybe(options.tracking.as_deref(), |to, name| put_bytes(to, name.as_bytes()));
    to.maybe(options.group.as_ref(), |to, group| {
        put_bytes(to, group.name.as_bytes());
        to.maybe(group.partition, |to, partition| to.u32(partition));
    });
}

/// The options, with a link and a key at the queue's home.
pub(crate) fn get_options(from: &mut FieldReader<'_>, link: Arc<dyn Link>, key: u64) -> Option<ConsumerOptions> {
    let (tag, channel, user) = (from.long_text()?, from.long_text()?, from.long_text()?);
    let (kind, number) = (from.u8()?, from.u32()?);
    let flow = match kind {
        0 => ConsumerFlow::Prefetch(number),
        1 => ConsumerFlow::Credit { delivery_count: number },
        _ => return None,
    };
    let (priority, exclusive) = (from.u32()? as i32, from.flag()?);
    let mode = if from.flag()? { ConsumerMode::Copy } else { ConsumerMode::Move };
    let timeout_ms = get_maybe(from, |from| from.u64())?;
    let filter = get_maybe(from, |from| MessageFilter::from_bytes(from.behind_length()?))?.map(Arc::new);
    let stream = get_maybe(from, get_stream)?.map(Box::new);
    let arguments = serde_json::from_slice(from.behind_length()?).ok()?;
    Some(ConsumerOptions {
        link,
        key,
        tag,
        channel,
        // Whole chunks are never settled.
        automatic_ack: stream.as_ref().is_some_and(|stream| stream.whole_chunks),
        flow,
        priority,
        exclusive,
        mode,
        filter,
        stream,
        timeout_ms,
        user,
        arguments,
    })
}

pub(crate) fn get_start(from: &mut FieldReader<'_>) -> Option<StreamStart> {
    let (kind, number) = (from.u8()?, from.u64()?);
    Some(match kind {
        0 => StreamStart::First,
        1 => StreamStart::Last,
        2 => StreamStart::Next,
        3 => StreamStart::Offset(number),
        4 => StreamStart::LastN(number),
        5 => StreamStart::Timestamp(number),
        _ => return None,
    })
}

pub(crate) fn get_stream_filter(from: &mut FieldReader<'_>) -> Option<Arc<StreamFilter>> {
    let values = get_all(from, 4, |from| from.long_text().map(|text| Box::from(&*text)))?;
    let match_unfiltered = from.flag()?;
    let messages = MessageFilter::from_bytes(from.behind_length()?)?;
    Some(Arc::new(StreamFilter { values, match_unfiltered, messages }))
}

fn get_stream(from: &mut FieldReader<'_>) -> Option<StreamOptions> {
    let (start, whole_chunks) = (get_start(from)?, from.flag()?);
    let filter = get_maybe(from, get_stream_filter)?;
    let tracking = get_maybe(from, |from| from.long_text())?;
    let group = get_maybe(from, |from| {
        Some(GroupMember { name: from.long_text()?, partition: get_maybe(from, |from| from.u32())? })
    })?;
    // The link encrypts what it sends, and so has to read it.
    Some(StreamOptions { start, filter, tracking, whole_chunks, chunks_in_files: false, group })
}
