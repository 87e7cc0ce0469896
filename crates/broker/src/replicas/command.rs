//! The commands in an entry of a placement.
//!
//! Version 2 (1), the number of the entry among those of its leader's term (8), the index below which every member has all entries (8), that
//! term (8), then the commands. Version 1 had no term. Each command begins with its kind (1) and its log (8):
//!
//! | kind | then |
//! |---|---|
//! | 1 message | its number (8), length (4), the stored message |
//! | 2 settle | reason (1), number of ranges (4), and of each: first (8), last (8), bytes (8) |
//! | 3 control | kind (1), length (4), content |
//! | 4 origin | of the messages before it; its log is 0: writer (8), number (8), messages that were accepted (4), number below which the writer has heard of all (8) |
//!
//! All integers are little endian.

use bytes::{Buf, BufMut, Bytes};
use leveret_log::{LogId, SettleRange, SettleReason};

use crate::publish_origin::PublishOrigin;
use crate::streams::{ControlRecord, Record};

const VERSION: u8 = 2;
const VERSION_WITHOUT_TERM: u8 = 1;
const HEADER_BYTES: usize = 17;
const RANGE_BYTES: usize = 24;

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    /// Its number among the entries of its leader's term.
    pub sequence: u64,
    /// Every member has all entries below this index.
    pub held_below: u64,
    /// The term of the leadership whose machines decided on it. If the entry is one of another term, they lacked what came between.
    pub term: Option<u64>,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub log: LogId,
    pub what: CommandKind,
}

/// A statement of a command about its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// It has this message.
    Message { number: u64, payload: Bytes },
    /// These messages left it.
    Settle { reason: SettleReason, ranges: Vec<SettleRange> },
    /// A control record.
    Control { kind: u8, payload: Bytes },
    /// A publish of a writer: see [`PublishOrigin`].
    Origin { writer: u64, number: u64, accepted: u32, heard: u64 },
}

impl CommandKind {
    /// Bytes that a record of the store has, apart from its own header.
    pub(super) fn record_bytes(&self) -> usize {
        match self {
            Self::Message { payload, .. } | Self::Control { payload, .. } => payload.len(),
            Self::Settle { ranges, .. } => ranges.len() * RANGE_BYTES,
            Self::Origin { .. } => 0,
        }
    }
}

/// Begins an entry.
pub(crate) fn put_header(header: EntryHeader, to: &mut Vec<u8>) {
    to.put_u8(if header.term.is_some() { VERSION } else { VERSION_WITHOUT_TERM });
    to.put_u64_le(header.sequence);
    to.put_u64_le(header.held_below);
    header.term.into_iter().for_each(|term| to.put_u64_le(term));
}

/// Adds the origin of a publish, of whose messages so many were accepted.
pub(crate) fn put_origin(origin: PublishOrigin, accepted: u32, to: &mut Vec<u8>) {
    to.put_u8(4);
    to.put_u64_le(0);
    to.put_u64_le(origin.writer);
    to.put_u64_le(origin.number);
    to.put_u32_le(accepted);
    to.put_u64_le(origin.heard);
}

/// Adds the commands of a record. Returns how many.
pub(crate) fn put_record(record: Record<'_>, to: &mut Vec<u8>) -> u64 {
    match record {
        Record::Messages { log, first, part, instead } => {
            for (at, number) in part.indexes().zip(first..) {
                let message = part.batch.message(at as usize);
                let body = instead.or(message.large).map_or(&[][..], |body| body);
                to.put_u8(1);
                to.put_u64_le(log.0);
                to.put_u64_le(number);
                put_length(message.head.len() + body.len(), to);
                to.put_slice(message.head);
                to.put_slice(body);
            }
            u64::from(part.count)
        }
        Record::Settle { log, reason, ranges } => {
            to.put_u8(2);
            to.put_u64_le(log.0);
            to.put_u8(reason as u8);
            put_length(ranges.len(), to);
            for SettleRange { first, last, bytes } in ranges {
                [first, last, bytes].into_iter().for_each(|number| to.put_u64_le(*number));
            }
            1
        }
    }
}

/// Adds the command of a control record. Returns how many that are.
pub(crate) fn put_control(record: ControlRecord<'_>, to: &mut Vec<u8>) -> u64 {
    let ControlRecord { log, kind, payload } = record;
    to.put_u8(3);
    to.put_u64_le(log.0);
    to.put_u8(kind);
    put_length(payload.len(), to);
    to.put_slice(payload);
    1
}

fn put_length(length: usize, to: &mut Vec<u8>) {
    to.put_u32_le(u32::try_from(length).expect("a record is shorter than 4 GiB"));
}

/// The header of an entry, and its commands; `None` if it isn't one of this version.
pub(super) fn decode(entry: &Bytes) -> Option<(EntryHeader, Vec<Command>)> {
    let mut rest = entry.clone();
    if rest.len() < HEADER_BYTES {
        return None;
    }
    let version = rest.get_u8();
    let (sequence, held_below) = (rest.get_u64_le(), rest.get_u64_le());
    let term = match version {
        VERSION => Some(rest.try_get_u64_le().ok()?),
        VERSION_WITHOUT_TERM => None,
        _ => return None,
    };
    let header = EntryHeader { sequence, held_below, term };
    let mut commands = Vec::new();
    while rest.has_remaining() {
        commands.push(command(&mut rest)?);
    }
    Some((header, commands))
}

fn command(from: &mut Bytes) -> Option<Command> {
    let kind = from.try_get_u8().ok()?;
    let log = LogId(from.try_get_u64_le().ok()?);
    let what = match kind {
        1 => CommandKind::Message { number: from.try_get_u64_le().ok()?, payload: bytes(from)? },
        2 => {
            let reason = SettleReason::from_code(from.try_get_u8().ok()?)?;
            let count = from.try_get_u32_le().ok()? as usize;
            if from.remaining() / RANGE_BYTES < count {
                return None;
            }
            let range = |_| SettleRange { first: from.get_u64_le(), last: from.get_u64_le(), bytes: from.get_u64_le() };
            CommandKind::Settle { reason, ranges: (0..count).map(range).collect() }
        }
        3 => CommandKind::Control { kind: from.try_get_u8().ok()?, payload: bytes(from)? },
        4 => CommandKind::Origin {
            writer: from.try_get_u64_le().ok()?,
            number: from.try_get_u64_le().ok()?,
            accepted: from.try_get_u32_le().ok()?,
            heard: from.try_get_u64_le().ok()?,
        },
        _ => return None,
    };
    Some(Command { log, what })
}

fn bytes(from: &mut Bytes) -> Option<Bytes> {
    let length = from.try_get_u32_le().ok()? as usize;
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leveret_message::{Batch, BatchBuilder, BatchPart, StoredMessage};

    use super::*;

    #[test]
    fn commands_are_found_again_and_cut_ones_are_refused() {
        let mut builder = BatchBuilder::default();
        [&b"one"[..], b"two"].into_iter().for_each(|body| {
            builder.push_message(&StoredMessage { body, ..StoredMessage::default() });
        });
        let batch: Arc<Batch> = builder.finish().into();
        let log = LogId(7);
        let range = |first| SettleRange { first, last: first + 2, bytes: 30 };
        let mut entry = Vec::new();
        let header = EntryHeader { sequence: 4, held_below: 99, term: Some(3) };
        put_header(header, &mut entry);
        let records = [
            Record::Messages { log, first: 5, part: BatchPart::whole(&batch), instead: None },
            Record::Settle { log, reason: SettleReason::Purged, ranges: &[range(1), range(9)] },
        ];
        let [messages, settles] = records.map(|record| put_record(record, &mut entry));
        let counts = [messages, settles, put_control(ControlRecord { log, kind: 2, payload: b"runs" }, &mut entry)];
        let origin = PublishOrigin { writer: 7, number: 8, epoch: 9, is_first: true, heard: 5 };
        put_origin(origin, 2, &mut entry);
        let entry = Bytes::from(entry);
        let (found, commands) = decode(&entry).expect("it is whole");
        assert_eq!((found, commands.len(), counts), (header, 5, [2, 1, 1]));
        let origin = CommandKind::Origin { writer: 7, number: 8, accepted: 2, heard: 5 };
        assert_eq!(commands[4], Command { log: LogId(0), what: origin });
        let CommandKind::Message { number: 6, payload } = &commands[1].what else { panic!("{:?}", commands[1]) };
        assert!(payload.ends_with(b"two"));
        let ranges = vec![range(1), range(9)];
        assert_eq!(commands[2].what, CommandKind::Settle { reason: SettleReason::Purged, ranges });
        let payload = Bytes::from_static(b"runs");
        assert_eq!(commands[3], Command { log, what: CommandKind::Control { kind: 2, payload } });
        let is_whole = |length: &usize| decode(&entry.slice(..*length)).is_some();
        assert_eq!((0..entry.len()).filter(is_whole).count(), commands.len(), "between two commands only");
    }
}
