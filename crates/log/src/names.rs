//! The names of the files in a data directory.

/// A file of this WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Wal(u64),
    Segment(u64),
    Checkpoint(u64),
    /// The second copy of a checkpoint's metadata.
    Metadata(u64),
    /// A file of the entry log.
    Entries(u64),
}

/// The name of the list of damage that starts found.
pub(crate) fn faults(wal_id: u16) -> String {
    format!("faults-{wal_id:04x}")
}

impl Name {
    pub(crate) fn text(self, wal_id: u16) -> String {
        match self {
            Name::Wal(sequence) => format!("wal-{wal_id:04x}-{sequence:016x}"),
            Name::Segment(id) => format!("segment-{wal_id:04x}-{id:016x}"),
            Name::Checkpoint(sequence) => format!("checkpoint-{wal_id:04x}-{sequence:016x}"),
            Name::Metadata(sequence) => format!("metadata-{wal_id:04x}-{sequence:016x}"),
            Name::Entries(sequence) => format!("raft-{wal_id:04x}-{sequence:016x}"),
        }
    }

    /// The kind of a file with this name, if it belongs to this WAL.
    pub(crate) fn parse(text: &str, wal_id: u16) -> Option<Name> {
        let (kind, rest) = text.split_once('-')?;
        let (wal, number) = rest.split_once('-')?;
        if wal.len() != 4 || number.len() != 16 || u16::from_str_radix(wal, 16).ok()? != wal_id {
            return None;
        }
        let number = u64::from_str_radix(number, 16).ok()?;
        match kind {
            "wal" => Some(Name::Wal(number)),
            "segment" => Some(Name::Segment(number)),
            "checkpoint" => Some(Name::Checkpoint(number)),
            "metadata" => Some(Name::Metadata(number)),
            "raft" => Some(Name::Entries(number)),
            _ => None,
        }
    }

    /// The sequence of a file of an entry log, whichever one it is.
    pub(crate) fn entries_sequence(text: &str) -> Option<u64> {
        let wal_id = u16::from_str_radix(text.split('-').nth(1)?, 16).ok()?;
        match Name::parse(text, wal_id)? {
            Name::Entries(sequence) => Some(sequence),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_written() {
        for name in
            [Name::Wal(1), Name::Segment(u64::MAX), Name::Checkpoint(0xabc), Name::Metadata(7), Name::Entries(8)]
        {
            assert_eq!(Name::parse(&name.text(7), 7), Some(name));
            assert_eq!(Name::parse(&name.text(7), 8), None);
        }
        assert_eq!(Name::entries_sequence(&Name::Entries(0xabc).text(7)), Some(0xabc));
        assert_eq!(Name::entries_sequence(&Name::Wal(0xabc).text(7)), None);
        for other in ["", "wal", "wal-0007-1", "reserve-0007", "cut-wal-0007-0000000000000001-200"] {
            assert_eq!(Name::parse(other, 7), None);
        }
    }
}
