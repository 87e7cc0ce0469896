//! Waking consumers that wait for their client to settle something.

use leveret_queue::Flow;

use super::session::Session;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::{CONSUMER, WOKEN_FIRST, WOKEN_MAX};

impl Session {
    /// Wakes consumers that waited for the client to settle something.
    pub(crate) fn settled_some(&mut self, number: u16, now: Now) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        channel.unsettled_mut().report(&mut self.client.account);
        let mut any_parked = false;
        for (_, parked) in channel.waiting(0).filter(|(_, parked)| !parked.is_empty()) {
            parked.wake(WOKEN_FIRST);
            any_parked = true;
        }
        if any_parked {
            self.wake_parked(number, now);
        }
    }

    /// Wakes some consumers that wait for the client to settle something, while there is room. The queues of woken
    /// consumers may be empty. If there still is room in the next turn, twice as many are woken then, and so on until
    /// all are. Waking all at once would let one acknowledgement cost a scan of all consumers.
    fn wake_parked(&mut self, number: u16, now: Now) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        let room =
            channel.unsettled().room(self.client.broker.settings.unsettled_per_channel_max, &self.client.account);
        let mut are_left = false;
        for (room, parked) in channel.waiting(room) {
            if room == 0 {
                parked.wake(0);
                continue;
            }
            for key in parked.next_ones(WOKEN_MAX) {
                self.client.budget.spend(CONSUMER);
                if let Some(consumer) = self.consumers.get(&key) {
                    consumer.queue().flow(consumer.id(), Flow::Window(true), now.monotonic);
                }
            }
            are_left |= !parked.is_empty();
        }
        if are_left {
            self.waking.note(number);
        }
    }

    /// Continues to wake consumers of channels where some are left.
    pub(super) fn wake_more(&mut self, now: Now) {
        if self.waking.is_empty() {
            return;
        }
        for number in self.waking.take() {
            self.wake_parked(number, now);
        }
    }
}
