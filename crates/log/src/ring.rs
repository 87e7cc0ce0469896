//! The two sequences of log files that a data directory may have. Both are written, prepared, synced and replayed by the same code.

use crate::format::Identity;
use crate::format::file_header::FileKind;
use crate::names::Name;

/// A sequence of log files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ring {
    /// The write-ahead log of the store. Its full files are retired to segments and a checkpoint.
    #[default]
    Store,
    /// The entry log. Records of its oldest file that are still needed are appended again, and the file is used again.
    Entries,
}

impl Ring {
    /// The file with this sequence.
    pub(crate) fn file(self, sequence: u64) -> Name {
        match self {
            Ring::Store => Name::Wal(sequence),
            Ring::Entries => Name::Entries(sequence),
        }
    }

    /// The sequence of a file of this ring.
    pub(crate) fn sequence_of(self, name: Name) -> Option<u64> {
        match (self, name) {
            (Ring::Store, Name::Wal(sequence)) | (Ring::Entries, Name::Entries(sequence)) => Some(sequence),
            _ => None,
        }
    }

    /// The kind that the headers of its files name.
    pub(crate) fn file_kind(self) -> FileKind {
        match self {
            Ring::Store => FileKind::Wal,
            Ring::Entries => FileKind::Entries,
        }
    }

    /// The identity of the file with this sequence.
    pub(crate) fn identity(self, node_id: u64, wal_id: u16, sequence: u64) -> Identity {
        match self {
            Ring::Store => Identity::wal(node_id, wal_id, sequence),
            Ring::Entries => Identity::entries(node_id, wal_id, sequence),
        }
    }

    /// The name of the record that a clean stop leaves.
    pub(crate) fn closed(self, wal_id: u16) -> String {
        format!("{}closed-{wal_id:04x}", self.prefix())
    }

    /// The name of the file that reserves disk space.
    pub(crate) fn reserve(self, wal_id: u16) -> String {
        format!("{}reserve-{wal_id:04x}", self.prefix())
    }

    fn prefix(self) -> &'static str {
        match self {
            Ring::Store => "",
            Ring::Entries => "raft-",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_no_name_and_no_salt() {
        for sequence in 1..50 {
            let [store, entries] = [Ring::Store, Ring::Entries].map(|ring| (ring.file(sequence), ring));
            assert_ne!(store.0.text(0), entries.0.text(0));
            assert_eq!(Ring::Store.sequence_of(store.0), Some(sequence));
            assert_eq!(Ring::Entries.sequence_of(entries.0), Some(sequence));
            assert_eq!(Ring::Entries.sequence_of(store.0), None);
            let salts = [store.1, entries.1].map(|ring| ring.identity(7, 0, sequence).salt);
            assert_ne!(salts[0], salts[1]);
        }
        assert_ne!(Ring::Store.closed(0), Ring::Entries.closed(0));
        assert_ne!(Ring::Store.reserve(0), Ring::Entries.reserve(0));
        assert_eq!(Name::parse(&Ring::Entries.reserve(0), 0), None);
    }
}
