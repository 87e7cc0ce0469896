//! Publishers that are held back. The queues that they publish to show the reason, and the time since when.

use crate::nanos::Nanos;
use crate::wait::{QueueWait, WaitReason};

/// Reasons for which publishers are held back.
const REASONS: [WaitReason; 3] = [WaitReason::LogFull, WaitReason::DiskFull, WaitReason::Alarm];

/// Number of waiting publishers for each reason, and the time since when.
#[derive(Debug, Default)]
pub(crate) struct HeldPublishers {
    waits: [(u32, Nanos); REASONS.len()],
}

impl HeldPublishers {
    /// Counts one more waiting publisher.
    pub(crate) fn hold(&mut self, reason: WaitReason, now: Nanos) {
        let Some((count, since)) = self.of(reason) else { return };
        if *count == 0 {
            *since = now;
        }
        *count += 1;
    }

    /// Counts one waiting publisher less.
    pub(crate) fn release(&mut self, reason: WaitReason) {
        if let Some((count, _)) = self.of(reason) {
            *count = count.saturating_sub(1);
        }
    }

    /// The reasons that publishers wait for.
    pub(crate) fn waits(&self) -> impl Iterator<Item = QueueWait> {
        let counted = REASONS.into_iter().zip(self.waits);
        counted.filter(|(_, (count, _))| *count > 0).map(|(reason, (_, since))| QueueWait { reason, since })
    }

    fn of(&mut self, reason: WaitReason) -> Option<&mut (u32, Nanos)> {
        REASONS.iter().position(|known| *known == reason).map(|at| &mut self.waits[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_shown_from_its_first_publisher_to_its_last() {
        let mut held = HeldPublishers::default();
        held.hold(WaitReason::Alarm, 5);
        held.hold(WaitReason::Alarm, 7);
        held.hold(WaitReason::LogFull, 9);
        held.release(WaitReason::Alarm);
        let waits: Vec<_> = held.waits().collect();
        let wait = |reason, since| QueueWait { reason, since };
        assert_eq!(waits, [wait(WaitReason::LogFull, 9), wait(WaitReason::Alarm, 5)]);
        held.release(WaitReason::Alarm);
        held.release(WaitReason::LogFull);
        assert_eq!(held.waits().count(), 0);
        held.hold(WaitReason::Alarm, 11);
        assert_eq!(held.waits().collect::<Vec<_>>(), [wait(WaitReason::Alarm, 11)]);
    }
}
