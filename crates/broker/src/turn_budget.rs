//! How much a connection does before it lets others run.
//!
//! A core serves its connections in turns. Reads and writes are bounded in bytes, but a few bytes can ask for a lot of work: to
//! close a channel with 60,000 consumers, for example. Such work is counted, in units of about 0.1 µs, and is cut where a turn
//! has done its share: the rest is done in the next turns, and until then no more input is read.

/// What one consumer costs that ends, starts or is looked at.
pub(crate) const CONSUMER: u32 = 40;
/// So many consumers are woken first that waited for their client, and so many at most in a turn.
pub(crate) const WOKEN_FIRST: usize = 16;
pub(crate) const WOKEN_MAX: usize = 400;
/// What one delivery costs that is settled or goes back.
pub(crate) const DELIVERY: u32 = 1;
/// What one of several queues costs that messages go to, whose memory is far away most often, and each of the messages.
pub(crate) const QUEUE_RUN: u32 = 25;
pub(crate) const ENQUEUE: u32 = 2;
/// What a queue costs whose messages have become durable.
pub(crate) const APPLY: u32 = 20;
/// What one event costs.
pub(crate) const EVENT: u32 = 2;
/// What a method or performative costs that isn't a message and settles none.
pub(crate) const CONTROL: u32 = 50;
/// What a change of queues, exchanges or bindings costs.
pub(crate) const TOPOLOGY: u32 = 300;
/// How many exclusive queues are deleted together, and what that costs.
pub(crate) const EXCLUSIVE_QUEUES_PART: usize = 32;
pub(crate) const EXCLUSIVE_QUEUES: u32 = EXCLUSIVE_QUEUES_PART as u32 * TOPOLOGY;
/// How many queues of one change are deleted in a turn.
pub(crate) const DELETED_QUEUES: usize = 256;

/// So many small things that lie side by side are looked at in a unit of time.
const LOOKS: usize = 32;

/// With less a turn might do nothing at all: a frame costs half of it.
const SHARE_MIN: u32 = 2 * CONTROL;

/// What is left of a turn's share.
#[derive(Debug)]
pub(crate) struct TurnBudget {
    share: u32,
    left: u32,
}

impl TurnBudget {
    /// One whose turns may do so much ([`crate::Settings::turn_work_max`]).
    pub(crate) fn new(share: u32) -> Self {
        let share = share.max(SHARE_MIN);
        Self { share, left: share }
    }

    /// For what can't be cut.
    pub(crate) fn unlimited() -> Self {
        Self { share: u32::MAX, left: u32::MAX }
    }

    /// The cost of a look at so many small things that lie side by side.
    pub(crate) fn of_looks(count: usize) -> u32 {
        u32::try_from(count / LOOKS).unwrap_or(u32::MAX)
    }

    /// A turn begins.
    pub(crate) fn renew(&mut self) {
        self.left = self.share;
    }

    /// Something was done.
    pub(crate) fn spend(&mut self, cost: u32) {
        self.left = self.left.saturating_sub(cost);
    }

    /// The rest has to wait for the next turn.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
