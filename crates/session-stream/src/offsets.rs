//! `StoreOffset`, `QueryOffset`, `ResolveOffsetSpec`.
//!
//! A client stores the offset of the last message that it has handled. A stream keeps the offset of the first one that isn't, for
//! consumers of all protocols: it is one more.

use leveret_broker::time::Now;
use leveret_model::Action;
use leveret_queue::KeptOffset;
use leveret_stream_protocol::{OffsetSpec, Pairs, ResponseCode, answers};

use super::commands::{filter_of, start_of};
use super::publishers::REFERENCE_BYTES_MAX;
use super::session::Session;

impl Session {
    /// `StoreOffset`, which has no answer.
    pub(crate) fn store_offset(&mut self, reference: &str, stream: &str, offset: u64, now: Now) {
        let queue = match self.stream(stream, Action::Consume(stream)) {
            Ok(queue) => queue,
            Err(code) => return self.tell_refused("StoreOffset", code.text()),
        };
        if reference.len() > REFERENCE_BYTES_MAX {
            let why = format!("the reference has {} bytes, more than {REFERENCE_BYTES_MAX}", reference.len());
            return self.tell_refused("StoreOffset", &why);
        }
        let kept = KeptOffset { name: reference.into(), offset: offset.saturating_add(1) };
        if !queue.keep_offset(kept, now.monotonic) {
            self.tell_refused("StoreOffset", "the stream keeps the offsets of too many names");
        }
    }

    /// `QueryOffset`.
    pub(crate) fn query_offset(&mut self, correlation: u32, reference: &str, stream: &str) {
        let (code, offset) = match self.stream(stream, Action::Consume(stream)) {
            Ok(queue) => match queue.kept_offset(reference).and_then(|next| next.checked_sub(1)) {
                Some(offset) => (ResponseCode::Ok, offset),
                None => (ResponseCode::NoOffset, 0),
            },
            Err(code) => (code, 0),
        };
        self.refused.count(code);
        answers::query_offset(self.client.output.buffer(), correlation, code, offset);
    }

    /// `ResolveOffsetSpec`: where a subscription would begin.
    pub(crate) fn resolve_offset(&mut self, correlation: u32, stream: &str, start: OffsetSpec, properties: Pairs<'_>) {
        let found = self.stream(stream, Action::Consume(stream));
        let found = found.map(|queue| queue.search(start_of(start), filter_of(properties)));
        let (code, offset) = match found {
            Ok(Some((offset, scan))) => (ResponseCode::Ok, scan.end.map_or(offset, |end| offset.min(end))),
            Ok(None) => (ResponseCode::NoOffset, 0),
            Err(code) => (code, 0),
        };
        self.refused.count(code);
        answers::resolved_offset(self.client.output.buffer(), correlation, code, offset);
    }
}
