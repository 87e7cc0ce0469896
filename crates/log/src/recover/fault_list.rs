//! The content of the `faults-` file: the damage that starts found in WAL files, with the messages in it that never came into a
//! queue.
//!
//! Once such a file is retired, no other file shows that something is missing.

use super::{Damage, Hit, Numbers};
use crate::format::{VERSION, u16_at, u32_at, u64_at};
use crate::types::LogId;

const MAGIC: &[u8; 4] = b"LVRF";
const HEADER_BYTES: usize = 24;
/// A reason or file name is cut to this, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

pub(crate) fn encode(faults: &[Damage], node_id: u64, wal_id: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(wal_id.to_le_bytes());
    bytes.extend(node_id.to_le_bytes());
    bytes.extend((faults.len() as u64).to_le_bytes());
    for fault in faults {
        put_text(&mut bytes, &fault.file);
        put_text(&mut bytes, &fault.reason);
        let logs: Option<&[LogId]> = match &fault.logs {
            Hit::Logs(logs) => Some(logs),
            Hit::Any => None,
        };
        let counts = [
            logs.map_or(u64::MAX, |logs| logs.len() as u64),
            fault.messages.len() as u64,
            fault.range.start,
            fault.range.end,
            fault.unknown,
        ];
        let logs = logs.into_iter().flatten().map(|log| log.0);
        let messages = fault.messages.iter().flat_map(|numbers| [numbers.log.0, numbers.first, numbers.last]);
        counts.into_iter().chain(logs).chain(messages).for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// The content, if it is valid and belongs to this WAL.
pub(crate) fn decode(bytes: &[u8], node_id: u64, wal_id: u16) -> Option<Vec<Damage>> {
    let end = bytes.len().checked_sub(4).filter(|end| *end >= HEADER_BYTES)?;
    let is_ours = &bytes[..4] == MAGIC
        && u32_at(bytes, end) == crc32c::crc32c(&bytes[..end])
        && u16_at(bytes, 4) == VERSION
        && u16_at(bytes, 6) == wal_id
        && u64_at(bytes, 8) == node_id;
    if !is_ours {
        return None;
    }
    let mut reader = Reader(&bytes[HEADER_BYTES..end]);
    let faults = (0..u64_at(bytes, 16)).map(|_| reader.fault()).collect::<Option<Vec<_>>>()?;
    reader.0.is_empty().then_some(faults)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn fault(&mut self) -> Option<Damage> {
        let (file, reason) = (self.text()?, self.text()?);
        let [logs, messages, start, end, unknown] = self.numbers()?;
        let logs = match logs {
            u64::MAX => Hit::Any,
            count => Hit::Logs((0..count).map(|_| self.numbers().map(|[log]| LogId(log))).collect::<Option<_>>()?),
        };
        let messages = (0..messages).map(|_| {
            let [log, first, last] = self.numbers()?;
            Some(Numbers { log: LogId(log), first, last })
        });
        let messages = messages.collect::<Option<_>>()?;
        Some(Damage { file, range: start..end, logs, messages, unknown, reason })
    }

    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (taken, rest) = self.0.split_at_checked(N * 8)?;
        self.0 = rest;
        Some(std::array::from_fn(|at| u64_at(taken, at * 8)))
    }

    fn text(&mut self) -> Option<String> {
        let (length, rest) = self.0.split_at_checked(2)?;
        let (text, rest) = rest.split_at_checked(usize::from(u16_at(length, 0)))?;
        self.0 = rest;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let hit = Hit::Logs(vec![LogId(3), LogId(4)]);
        let mut some = Damage::new("wal-0000-0000000000000002", 512..700, hit, "wrong");
        some.messages.push(Numbers { log: LogId(3), first: 7, last: 9 });
        some.unknown = 2;
        let any = Damage::new("wal-0000-0000000000000003", 0..1, Hit::Any, "\u{e4}".repeat(TEXT_BYTES_MAX));
        let bytes = encode(&[some.clone(), any], 5, 1);
        let decoded = decode(&bytes, 5, 1).expect("valid bytes");
        assert_eq!((&decoded[0], &decoded[1].logs, decoded[1].reason.len()), (&some, &Hit::Any, TEXT_BYTES_MAX));
        assert_eq!((decode(&bytes, 5, 2), decode(&bytes[1..], 5, 1), decode(&[], 5, 1)), (None, None, None));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, 5, 1), None);
        }
    }
}
