//! A group of another node's client that is carried out: in one turn, or in several, in which its groups stay open.

use std::vec::IntoIter;

use leveret_broker::group::{Group, TakenSlot};
use leveret_broker::remote::{CallKind, LaneCall};
use leveret_broker::turn_budget::{ENQUEUE, QUEUE_RUN, TurnBudget};

/// A group whose calls have all come.
pub(super) struct Committing {
    /// The number of the call that ends with it.
    pub number: Option<u64>,
    /// The calls that are left.
    pub calls: IntoIter<LaneCall>,
    /// Its groups, one for each stream.
    pub groups: Vec<Group>,
    /// Whether one turn is enough.
    pub is_short: bool,
    /// Whether not all of it is carried out.
    pub is_lost: bool,
    /// The right to groups that stay open over several turns.
    pub slot: Option<TakenSlot>,
}

impl Committing {
    /// A group of these calls, on a core whose turns have this share of work.
    pub(super) fn new(number: Option<u64>, calls: Vec<LaneCall>, share: u32) -> Self {
        let work = calls.iter().map(work_of).fold(0, u32::saturating_add);
        Self {
            number,
            calls: calls.into_iter(),
            groups: Vec::new(),
            is_short: work <= share,
            is_lost: false,
            slot: None,
        }
    }

    /// The next call of this turn.
    pub(super) fn next(&mut self, budget: &mut TurnBudget) -> Option<LaneCall> {
        // Without the slot it has to be done in this turn.
        if self.slot.is_some() && budget.is_spent() {
            return None;
        }
        let call = self.calls.next()?;
        budget.spend(work_of(&call));
        Some(call)
    }
}

fn work_of(call: &LaneCall) -> u32 {
    let count = match &call.what {
        CallKind::Publish { count, .. } => *count,
        CallKind::Settle { runs, .. } => runs.len() as u32,
        _ => 0,
    };
    QUEUE_RUN.saturating_add(count.saturating_mul(ENQUEUE))
}
