//! The write-ahead log, the message stores behind it, and their recovery.
//!
//! Many logs (queues, and the metadata as log 0) share one *commit stream*: records are appended to a buffer, made
//! durable batch by batch, and identified by their dense [`Position`]. Full WAL files are *retired*: live messages
//! move to segments, the rest of the state to a checkpoint, and the file is reused. Formats and guarantees are in
//! `docs/storage.md`.
//!
//! The crate does no I/O of its own: [`Log::next_job`] hands out a [`Job`], the caller's threads run it on a [`Disk`]
//! outside the log's lock, and [`Log::complete`] takes the result. Time is an argument.
//!
//! It must not know: queues, exchanges, protocols, threads, sockets, clocks, `std::fs`. A payload is bytes, a control
//! record's kind a number.
//!
//! Reading order: [`types`], `format/` (bytes), `builder` (a batch being filled), `log` and `commit` (the
//! front), `background`, `retire` and `rewrite` (the back), `recover`.

/// Whether the fault [`Bug`] is planted in this thread; always false without the feature `planted-bugs`.
macro_rules! planted {
    ($bug:ident) => {{
        #[cfg(feature = "planted-bugs")]
        let is_planted = crate::Bug::$bug.is_planted();
        #[cfg(not(feature = "planted-bugs"))]
        let is_planted = false;
        is_planted
    }};
}

mod background;
mod body_file;
mod builder;
mod checkpoint;
mod commit;
mod damage;
mod disk;
mod dump;
mod entries;
mod entry_read;
mod error;
pub mod format;
mod group;
mod index;
mod job;
mod live_state;
mod log;
mod memory_disk;
mod metadata;
mod names;
mod options;
mod pin;
mod read;
mod recover;
mod repair;
mod retire;
mod rewrite;
mod ring;
mod scan;
mod segment;
mod space;
mod statistics;
mod step;
mod store;
mod survey;
mod types;
mod verify;
mod wal;
mod walk;

pub use body_file::{BodyFiles, BodyRead, BodyWrite};
pub use disk::Disk;
pub use dump::{Dumped, dump, files};
pub use entries::{
    Bounds, CheckedEntries, EntryError, EntryLog, EntryOptions, EntryReport, FoundEntry, recover_entries,
    verify_entries,
};
pub use entry_read::EntryRead;
pub use error::{DiskError, Operation, ReadError, StorageError};
pub use format::body::PIECE_BYTES as BODY_PIECE_BYTES;
pub use format::entry::{ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES, Entry, EntryKind, EntryRecord, Mark, PlacementId, Vote};
pub use group::{GROUPS_OPEN_MAX, GroupId};
pub use job::{Done, Event, Job, JobId, Lane, Next};
pub use live_state::LiveState;
pub use log::Log;
pub use memory_disk::MemoryDisk;
#[cfg(feature = "planted-bugs")]
pub use options::Bug;
pub use options::Options;
pub use read::{Lent, ReadPlan, Skim, Skimmed, StoredMessage};
pub use recover::{Cut, Damage, Hit, Numbers, Replay, Report, recover};
pub use repair::{Survivors, repair};
pub use ring::Ring;
pub use roaring::RoaringTreemap;
pub use statistics::Statistics;
pub use step::Step;
pub use types::{
    ChunkRecord, JoinChunks, JointRecord, LogId, Nanos, NewChunk, Payload, Position, SettleRange, SettleReason, Wait,
};
pub use verify::{Owners, SetAside, Verified, look, salvage, verify};
