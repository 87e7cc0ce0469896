//! Queues on other nodes of a cluster, as the node sees them that its clients are connected to.
//!
//! Each core has a [`Lane`] to each other node: calls go out on it in the order in which they are made, and their outcomes come back on
//! it. A lane lasts as long as its link. It has a commit stream of its own ([`LaneWriter`]), whose places are the numbers of calls: so confirms,
//! transactions and waits work as they do for queues of this node. If the link ends, the stream leaves, and with it all that waits for it.
//!
//! It must not know: sockets, frames.

mod away_queue;
mod call;
mod homes;
mod inbox;
mod lane;
mod lanes;
mod writer;

pub(crate) use self::away_queue::{AwayQueue, MovingHome, Registration, home_question};
pub use self::call::{CallKind, Deletion, HeldBy, HeldRuns, HomeAnswer, HomeQuestion, LaneCall};
pub use self::homes::{EarlierHomes, HomeSeat, Homes};
pub use self::inbox::{RemoteSignal, WINDOW_BYTES, WINDOW_MESSAGES};
pub use self::lane::Lane;
pub(crate) use self::lanes::core;
pub use self::lanes::{Lanes, set_core};
pub use crate::published::NotTaken;
