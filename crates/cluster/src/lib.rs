//! Placements: Raft groups of a node over its entry log and abstract links.
//!
//! The engine is openraft, which no other crate names. It gets its storage, its network and its state machine from here, over a [`Host`]
//! that has the clock, the links and the disk. Frames and records are ours, so nothing of the engine is on a disk or on a wire.
//!
//! The engine is checked where it asks for something: entries follow each other, terms never fall, votes never go back, what is applied
//! is never cut ([`leveret_log::EntryError`]), entries are applied in order and once, and flushes are reported in order. A call against
//! that stops the placement with a text, and nothing of it is done. Frames are checked before the engine sees them ([`vetting`]), and a
//! replica that may have lost its vote doesn't start ([`start`]).
//!
//! Placement 0 is the metadata ([`metadata`]): its entries are changes of the broker's control plane. The others have replicated queues
//! ([`queues`]).
//!
//! It must not know: sockets, files, threads, clocks, clients' protocols. Everything is in one thread.

/// Whether the fault [`leveret_log::Bug`] is planted in this thread; always false without the feature `planted-bugs`.
macro_rules! planted {
    ($bug:ident) => {{
        #[cfg(feature = "planted-bugs")]
        let is_planted = leveret_log::Bug::$bug.is_planted();
        #[cfg(not(feature = "planted-bugs"))]
        let is_planted = false;
        is_planted
    }};
}

mod answers;
#[cfg(feature = "bare-engine")]
pub mod bare;
mod entry_codec;
#[cfg(feature = "metadata")]
mod event;
mod flushes;
pub mod forming;
mod frame;
mod machine;
mod members;
#[cfg(feature = "metadata")]
pub mod metadata;
mod network;
mod placement;
#[cfg(feature = "metadata")]
pub mod queues;
mod settings;
mod shared;
mod start;
mod storage;
mod types;
mod vetting;

/// Frames by themselves, for links that carry them, and for those that try any bytes on the decoders.
pub mod frames {
    use bytes::Bytes;
    use leveret_log::PlacementId;

    pub use crate::frame::FrameWeight;
    use crate::frame::{Reply, Request};
    use crate::vetting::Vetted;

    /// The placement that a request is for; `None` if the bytes aren't a request.
    #[must_use]
    pub fn placement_of(request: &[u8]) -> Option<PlacementId> {
        crate::frame::placement_of(request)
    }

    /// The weight of a request, by which its link is chosen.
    #[must_use]
    pub fn weight_of(request: &[u8]) -> FrameWeight {
        crate::frame::weight_of(request)
    }

    /// Decodes a request, checks it as a replica that knows nothing would, and encodes it again.
    #[must_use]
    pub fn request_again(bytes: &Bytes) -> Option<Bytes> {
        let (placement, request) = Request::decode(bytes)?;
        let known = Vetted { replica: 1, term: 0, committed: None, term_of: &|_| None };
        // Whether it is refused doesn't matter here.
        let _ = known.check(&request);
        Some(request.encode(placement))
    }

    /// Decodes an answer, and encodes it again.
    #[must_use]
    pub fn answer_again(bytes: &Bytes) -> Option<Bytes> {
        Reply::decode(bytes).map(|reply| reply.encode())
    }
}

/// The traits of a runtime, for those that bring one.
pub mod runtime {
    pub use openraft::async_runtime::*;
}

pub use flushes::NodeLog;
pub use machine::{Applied, Ask, LocalFuture, Machine};
pub use network::Host;
pub use placement::{LeadershipSeen, Placement, PlacementState, Proposed, ReplicaRole, ReplicaStatus};
pub use settings::{Settings, StartError};
pub use types::{Commands, MemberInfo, ReplicaId};
