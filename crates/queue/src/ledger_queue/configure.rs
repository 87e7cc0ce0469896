//! Other effective arguments for a queue that runs, because policies changed.

use leveret_model::QueueOptions;

use crate::answers::QueueState;
use crate::effects::Effects;
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;

impl LedgerQueue {
    /// Takes over other effective arguments. Those that only a declaration gives are the same. Messages beyond a lower limit leave;
    /// if there are very many, most do when the timers run.
    pub fn configure(&mut self, options: &QueueOptions, now: Nanos, effects: &mut Effects) {
        if self.state != QueueState::Running || self.options == *options {
            return;
        }
        let newest = self.ledger.next().checked_sub(1).filter(|_| !self.ledger.is_empty());
        self.clock.configure(options, newest.map(|newest| (self.ledger.low(), newest)), now);
        if self.options.dead_letter != options.dead_letter {
            // A queue may take the blocked ones now.
            self.dead.retry_at(now);
        }
        self.options = options.clone();
        self.drop_excess(effects);
    }
}
