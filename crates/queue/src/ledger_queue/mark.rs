//! The mark of a replicated queue: messages are handed out only below a number that all its replicas know, so that another leader can tell
//! those that were never delivered.

use crate::effects::Effects;
use crate::ledger_queue::LedgerQueue;
use crate::pending::{Awaited, Place, Watermarks};
use crate::planted::{Bug, is_planted};

/// The numbers by which the mark is ahead of what is handed out, so that it is logged once for as many messages.
const AHEAD: u64 = 4096;

/// The number below which messages may have been delivered.
pub(super) struct DeliveredMark {
    below: u64,
    /// The next one, once its record is there.
    next: Option<(u64, Awaited)>,
    /// Whether it stays as it is, since the leader ends.
    is_final: bool,
}

impl LedgerQueue {
    /// From now on messages are handed out only below this number, or a higher one whose record is reached.
    pub fn mark_deliveries(&mut self, below: u64) {
        self.mark = Some(Box::new(DeliveredMark { below, next: None, is_final: false }));
    }

    /// The record of a mark was appended that [`crate::RareEffects::deliver_below`] asked for.
    pub fn mark_logged(&mut self, below: u64, place: Place) {
        if let Some(mark) = &mut self.mark {
            mark.next = Some((below, Awaited::At(place)));
        }
    }

    /// Lowers the mark to what was handed out, for a leader that ends, and leaves it there. Returns it if it has to be logged.
    pub fn lower_mark(&mut self) -> Option<u64> {
        let exact = self.ready.handed_out_below().max(self.ready.redelivered_below());
        let mark = self.mark.as_mut()?;
        mark.is_final = true;
        let is_above = mark.next.take().is_some() || mark.below > exact;
        mark.below = mark.below.min(exact);
        is_above.then_some(mark.below)
    }

    /// The leader goes on after all: the mark is raised again when it is reached.
    pub fn resume_mark(&mut self) {
        if let Some(mark) = &mut self.mark {
            mark.is_final = false;
        }
    }

    /// The number of messages from this one on that may be handed out, at most `most`.
    pub(super) fn below_mark(&self, number: u64, most: u64) -> u64 {
        let mark = self.mark.as_ref().filter(|_| !is_planted(Bug::DeliverUnmarked));
        mark.map_or(most, |mark| most.min(mark.below.saturating_sub(number)))
    }

    /// This number is handed out next: asks for a higher mark if it is near, unless one was logged that isn't reached yet.
    pub(super) fn raise_mark(&self, number: u64, effects: &mut Effects) {
        if let Some(mark) = &self.mark
            && mark.next.is_none()
            && !mark.is_final
            && number + AHEAD / 2 >= mark.below
        {
            effects.rare_mut().deliver_below = Some(number + AHEAD);
        }
    }

    /// Takes the next mark if its record is reached, and the next active consumer.
    pub(super) fn apply_mark(&mut self, reached: Watermarks, effects: &mut Effects) {
        let Some(mark) = &mut self.mark else { return };
        if let Some((below, _)) = mark.next.take_if(|(_, place)| place.is_reached(reached)) {
            mark.below = below;
            self.reads.signal_getters(effects);
            self.schedule(effects);
            self.schedule_seekers(effects);
        }
        self.apply_active(reached, effects);
    }
}
