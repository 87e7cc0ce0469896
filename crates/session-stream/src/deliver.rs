//! Deliveries: chunks that scheduled subscriptions take, written as they are stored.

use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::Now;
use leveret_message::chunk::{HEADER_BYTES, SentEntries};
use leveret_queue::TurnEnd;
use leveret_stream_protocol::answers;

use super::session::Session;

impl Session {
    /// Serves scheduled subscriptions until the output holds one write's worth.
    pub(crate) fn serve_subscriptions(&mut self, now: Now) {
        if self.client.scheduled.is_empty() && self.client.starved.is_empty() {
            return;
        }
        let (subscriptions, ids) = (&mut self.subscriptions, &self.subscription_ids);
        let takes_more = self.client.tell_room(|key, has_room| {
            let Some(subscription) = ids.get(&key).and_then(|id| subscriptions.get_mut(id)) else { return false };
            subscription.starved = !has_room;
            subscription.queue.set_room(subscription.id, has_room, now.monotonic);
            true
        });
        if !takes_more {
            return;
        }
        while let Some(key) = self.client.next_scheduled() {
            if self.serve(key, now) == TurnEnd::More {
                self.client.scheduled.push_back(key);
            }
        }
    }

    fn serve(&mut self, key: u64, now: Now) -> TurnEnd {
        let Some(id) = self.subscription_ids.get(&key).copied() else { return TurnEnd::Done };
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return TurnEnd::Done };
        let bytes = TURN_BYTES_MAX.saturating_sub(self.client.output.len()) as u64;
        let turn = subscription.queue.take_chunks(subscription.id, bytes, now.monotonic, &mut self.taken);
        let mut messages = 0;
        for taken in self.taken.drain(..) {
            let (head, entries) = taken.chunk.sent(taken.first);
            let length = u32::try_from(HEADER_BYTES + entries.len()).expect("a chunk is shorter");
            let out = self.client.output.buffer();
            answers::deliver_head(out, self.deliver_version, id, turn.committed, length);
            out.extend_from_slice(&head);
            match entries {
                SentEntries::Memory(entries) => out.extend_from_slice(entries),
                SentEntries::File(entries) => self.client.output.push_file(entries.clone()),
            }
            subscription.sent = subscription.sent.wrapping_add(1);
            subscription.credit = subscription.credit.saturating_sub(1);
            messages += taken.chunk.len();
        }
        subscription.consumed += messages;
        self.client.counters.stream_delivered_no_ack.add(messages);
        turn.end
    }
}
