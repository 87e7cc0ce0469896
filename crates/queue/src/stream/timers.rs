//! The timers of a stream: for retention by age, and for offsets that have to be logged.

use crate::answers::QueueState;
use crate::deadlines::Deadlines;
use crate::effects::Effects;
use crate::nanos::Nanos;
use crate::records::KeptOffset;
use crate::stream::StreamQueue;

impl StreamQueue {
    /// Removes messages that are too old, and logs offsets. No stream is deleted because nobody uses it.
    pub fn run_timers(&mut self, now: Nanos, _most: u64, effects: &mut Effects) -> bool {
        self.announced = Deadlines::NONE;
        if self.state == QueueState::Running {
            self.retain(now, effects);
            let told = self.groups.expire(now);
            self.tell_members(told, effects);
            self.log_offsets(self.kept.tracking.due().is_some_and(|due| due <= now), now, effects);
        }
        false
    }

    /// Logs changed offsets, if it is time to.
    pub(super) fn log_offsets(&mut self, is_due: bool, now: Nanos, effects: &mut Effects) {
        let changed = if is_due { self.kept.tracking.take_changed(now) } else { Vec::new() };
        if !changed.is_empty() {
            effects.rare_mut().offsets.extend(changed);
        }
    }

    /// Offsets that a clean stop has to record.
    pub fn offsets_to_log(&mut self, now: Nanos) -> Vec<KeptOffset> {
        self.kept.tracking.take_changed(now)
    }

    /// Offsets couldn't be logged.
    pub fn offsets_not_logged(&mut self, offsets: &[KeptOffset]) {
        self.kept.tracking.not_logged(offsets);
    }

    /// The next deadlines, as far as they are sooner than those announced before.
    pub fn announce_deadlines(&mut self) -> Deadlines {
        if self.state != QueueState::Running {
            return Deadlines::NONE;
        }
        let next = Deadlines::of([self.kept.tracking.due(), self.groups.due()], [self.retention_due_ms()]);
        let next = next.sooner_than(self.announced);
        self.announced = self.announced.and(next);
        next
    }
}
