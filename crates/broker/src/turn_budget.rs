//! The work budget of a connection's turn, after which other connections run.
//!
//! A core serves its connections in turns. Reads and writes are bounded in bytes, but a few bytes can request a lot of work: to
//! close a channel with 60,000 consumers, for example. Such work is counted in units of about 0.1 µs, and interrupted when a
//! turn has used its share. The rest is done in the next turns, and until then no more input is read.

/// Cost of a consumer that ends, starts or is visited.
pub const CONSUMER: u32 = 40;
/// Cost of a turn of a consumer with a filter, at most: the queue looks at messages that aren't sent.
pub const FILTER: u32 = 500;
/// Number of consumers waiting for their client that are woken first, before other work of the turn.
pub const WOKEN_FIRST: usize = 16;
/// Maximum number of consumers that are woken in one turn.
pub const WOKEN_MAX: usize = 400;
/// Cost of a delivery that is settled or requeued.
pub const DELIVERY: u32 = 1;
/// Cost of each of several queues that messages go to; its memory usually isn't in the cache.
pub const QUEUE_RUN: u32 = 25;
/// Cost of a look at the state of a queue among many.
pub const QUEUE_LOOK: u32 = 2;
/// Cost of each message there.
pub const ENQUEUE: u32 = 2;
/// Cost of a queue that gets other effective arguments.
pub(crate) const POLICY_CHANGE: u32 = 50;
/// Cost of each policy that a queue is compared with.
pub(crate) const POLICY: u32 = 1;
/// Cost of each message that leaves because a limit was lowered.
pub(crate) const DELETED_MESSAGE: u32 = 2;
/// Cost of a queue whose messages have become durable.
pub const APPLY: u32 = 20;
/// Cost of an event.
pub const EVENT: u32 = 2;
/// Cost of a method or performative other than messages and settlements.
pub const CONTROL: u32 = 50;
/// Cost of a change of queues, exchanges or bindings.
pub const TOPOLOGY: u32 = 300;
/// Number of exclusive queues that are deleted together.
pub(crate) const EXCLUSIVE_QUEUES_PART: usize = 32;
/// Cost of deleting that many.
pub const EXCLUSIVE_QUEUES: u32 = EXCLUSIVE_QUEUES_PART as u32 * TOPOLOGY;
/// Number of queues of one change that are deleted in a turn.
pub(crate) const DELETED_QUEUES: usize = 256;

/// Number of small, contiguous entries that are scanned in one unit of time.
const LOOKS: usize = 32;

/// Minimum share of a turn, with which it always makes progress: a frame costs half of it.
const SHARE_MIN: u32 = 2 * CONTROL;

/// Number of queues for which a turn with this share has work.
pub(crate) fn targets_max(share: u32) -> usize {
    (share / QUEUE_RUN).max(1) as usize
}

/// The rest of a turn's share.
#[derive(Debug)]
pub struct TurnBudget {
    share: u32,
    left: u32,
}

impl TurnBudget {
    /// A budget of `share` for each turn ([`crate::Settings::turn_work_max`]).
    pub fn new(share: u32) -> Self {
        let share = share.max(SHARE_MIN);
        Self { share, left: share }
    }

    /// The budget of a whole turn.
    pub fn share(&self) -> u32 {
        self.share
    }

    /// A budget for work that can't be interrupted.
    pub fn unlimited() -> Self {
        Self { share: u32::MAX, left: u32::MAX }
    }

    /// The cost of scanning this many small, contiguous entries.
    pub fn of_looks(count: usize) -> u32 {
        u32::try_from(count / LOOKS).unwrap_or(u32::MAX)
    }

    /// Starts a new turn.
    pub fn renew(&mut self) {
        self.left = self.share;
    }

    /// Counts work that was done.
    pub fn spend(&mut self, cost: u32) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Whether the rest has to wait for the next turn.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}
