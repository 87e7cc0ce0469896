//! `basic.get`: one message without a consumer.

use std::sync::Arc;

use crate::answers::{GetOutcome, QueueState};
use crate::counts::Count;
use crate::effects::{Effects, Link};
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::dispatch::ReadyRun;
use crate::nanos::Nanos;

impl LedgerQueue {
    /// Takes one message that isn't on its way to a consumer; `link` and `key` are signalled if it has to be read from disk
    /// first.
    pub fn get(
        &mut self,
        automatic_ack: bool,
        link: &Arc<dyn Link>,
        key: u64,
        now: Nanos,
        effects: &mut Effects,
    ) -> GetOutcome {
        if self.state != QueueState::Running {
            return GetOutcome::Empty;
        }
        self.used(now);
        self.expire_head(now, effects);
        if self.ready.messages() <= self.on_their_way() {
            // Consumers have credit for all ready messages, and came first.
            self.count(Count::GetEmpty, 1, now);
            return GetOutcome::Empty;
        }
        match self.ready_run(1) {
            ReadyRun::None => GetOutcome::Empty,
            ReadyRun::NotLoaded(number) => {
                self.read_ready(number, effects);
                self.reads.wait(link, key);
                GetOutcome::Wait
            }
            ReadyRun::Unmarked(number) => {
                self.raise_mark(number, effects);
                self.reads.wait(link, key);
                GetOutcome::Wait
            }
            ReadyRun::Found(taken, _) => {
                let size = u64::from(taken.batch.body_length(taken.index as usize));
                let what = if automatic_ack { Count::GetNoAck } else { Count::Get };
                self.count_out(&taken, what, now);
                self.hand_out(&taken, size, automatic_ack, effects);
                if self.ready() == 0 {
                    self.emptied = now;
                }
                if self.consumers.has_priorities() {
                    // Messages reserved for a lower priority may now go to a higher one.
                    self.schedule(effects);
                }
                self.finish_drains(effects);
                GetOutcome::Message(taken, self.ready())
            }
        }
    }
}
