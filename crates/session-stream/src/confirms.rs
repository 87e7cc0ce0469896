//! Confirms: of every message of a publisher, once the disk has it.

use leveret_broker::time::Now;
use leveret_stream_protocol::{Confirms, ResponseCode, answers};

use super::confirming::Confirming;
use super::session::{Session, StreamPhase};

/// Bytes of a confirm besides the publishing ids: size, key, version, publisher and count.
const CONFIRM_HEAD: usize = 13;
/// Bytes of a publishing id.
const ID_BYTES: usize = 8;

impl Session {
    /// Sends the confirms that are due.
    pub(crate) fn confirm_durable(&mut self, _now: Now) {
        if self.phase != StreamPhase::Open {
            // Nothing may follow the broker's close.
            return;
        }
        let applied = self.client.applied();
        let ids_max = match self.tuned.frame_max() as usize {
            0 => usize::MAX,
            frame_max => (frame_max.saturating_sub(CONFIRM_HEAD) / ID_BYTES).max(1),
        };
        let mut open: Option<(u8, Confirms, usize)> = None;
        let out = self.client.output.buffer();
        while let Some((Confirming { publisher, serial, ids }, end)) = self.publishing.next_confirm(&applied) {
            let count = ids.len();
            if !end.is_reached() {
                // The stream refused them, or its log left.
                if let Some((_, confirms, _)) = open.take() {
                    confirms.end(out);
                }
                if let Some(known) = self.publishers.same(publisher, serial) {
                    known.not_taken(count);
                    let code = ResponseCode::StreamNotAvailable;
                    self.refused.count(code);
                    answers::publish_error(out, publisher, code, ids.iter());
                }
                continue;
            }
            self.client.counters.confirmed.add(count);
            // A publisher that is gone doesn't want to know.
            let Some(known) = self.publishers.same(publisher, serial) else {
                continue;
            };
            known.confirmed(count);
            for id in ids.iter() {
                if open.as_ref().is_some_and(|(of, _, length)| *of != publisher || *length >= ids_max)
                    && let Some((_, confirms, _)) = open.take()
                {
                    confirms.end(out);
                }
                let (_, confirms, length) = open.get_or_insert_with(|| (publisher, Confirms::begin(out, publisher), 0));
                confirms.push(out, id);
                *length += 1;
            }
        }
        if let Some((_, confirms, _)) = open {
            confirms.end(out);
        }
    }

    /// Answers messages that aren't part of the stream, and never will be.
    pub(crate) fn refuse_publishes(&mut self, publisher: u8, code: ResponseCode, ids: impl Iterator<Item = u64>) {
        self.refused.count(code);
        answers::publish_error(self.client.output.buffer(), publisher, code, ids);
    }
}
