//! Deliveries: chunks that scheduled subscriptions take, written as they are stored, or short ones as one.

use leveret_broker::Output;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::Now;
use leveret_message::chunk::{HEADER_BYTES, Joined, SentEntries};
use leveret_queue::{Flow, TakenChunk, TurnEnd};
use leveret_stream_protocol::answers;

use super::session::Session;

impl Session {
    /// Serves scheduled subscriptions until the output holds one write's worth.
    pub(crate) fn serve_subscriptions(&mut self, now: Now) {
        if self.client.turns.are_over() && !self.client.turns.any_starved() {
            return;
        }
        let subscriptions = &self.subscriptions;
        let takes_more = self.client.tell_room(|key, has_room| {
            let Some(subscription) = subscriptions.by_key(key) else { return false };
            subscription.queue().flow(subscription.id(), Flow::Room(has_room), now.monotonic);
            true
        });
        if !takes_more {
            return;
        }
        while let Some(key) = self.client.next_scheduled() {
            if self.serve(key, now) == TurnEnd::More {
                self.client.turns.schedule(key);
            }
        }
    }

    fn serve(&mut self, key: u64, now: Now) -> TurnEnd {
        let Some((id, subscription)) = self.subscriptions.by_key_mut(key) else { return TurnEnd::Done };
        let bytes = TURN_BYTES_MAX.saturating_sub(self.client.output.len()) as u64;
        let turn = subscription.queue().take_chunks(subscription.id(), bytes, now.monotonic, &mut self.taken);
        let mut messages = 0;
        for taken in self.taken.chunk_by(|_, next| next.joins) {
            let (client, to) = (&mut self.client, (self.tuned.deliver_version(), id, turn.committed));
            match taken {
                [one] => write(&mut client.output, to, one),
                _ => write_joined(&mut client.output, to, taken),
            }
            subscription.chunk_sent();
            messages += taken.iter().map(|taken| taken.chunk.len()).sum::<u64>();
        }
        self.taken.clear();
        subscription.messages_sent(messages);
        self.client.counters.stream_delivered_no_ack.add(messages);
        turn.end
    }
}

/// Writes a chunk as it is stored to a subscription: the version of its frame, its id, and the last chunk that is committed.
fn write(output: &mut Output, (version, id, committed): (u16, u8, u64), taken: &TakenChunk) {
    let (head, entries) = taken.chunk.sent(taken.first);
    let length = u32::try_from(HEADER_BYTES + entries.len()).expect("a chunk is shorter");
    let out = output.buffer();
    answers::deliver_head(out, version, id, committed, length);
    out.extend_from_slice(&head);
    match entries {
        SentEntries::Memory(entries) => out.extend_from_slice(entries),
        SentEntries::File(entries) => output.push_file(entries.clone()),
    }
}

/// Writes short chunks as one.
fn write_joined(output: &mut Output, (version, id, committed): (u16, u8, u64), taken: &[TakenChunk]) {
    let mut joined = Joined::new(taken[0].first, &taken[0].chunk).expect("others were joined to it");
    for TakenChunk { first, chunk, .. } in &taken[1..] {
        assert!(joined.join(*first, chunk), "it was joined when it was taken");
    }
    let out = output.buffer();
    let length = u32::try_from(joined.chunk_bytes()).expect("it is short");
    answers::deliver_head(out, version, id, committed, length);
    let head_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    taken.iter().for_each(|taken| out.extend_from_slice(taken.chunk.entries()));
    let (head, entries) = out[head_at..].split_at_mut(HEADER_BYTES);
    head.copy_from_slice(&joined.head(entries));
}
