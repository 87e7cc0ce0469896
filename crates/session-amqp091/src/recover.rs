//! `basic.recover`: requeueing what a channel's client hasn't settled.

use super::error::{Result, not_implemented};
use super::session::Session;
use super::unfinished::{Settling, Unfinished};
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;

impl Session {
    /// `basic.recover` and `basic.recover-async`: requeues all unacknowledged deliveries of the channel.
    pub(crate) fn recover(&mut self, channel: u16, requeue: bool, answer: bool, now: Now) -> Result<()> {
        self.channel(channel)?;
        if !requeue {
            return Err(not_implemented("requeue=false"));
        }
        let settlement = Settlement::Requeue { failed: false };
        let settling = Settling { channel, up_to: u64::MAX, settlement, recover_ok: answer };
        self.begin_work(Unfinished::Settling(settling), now);
        Ok(())
    }
}
