//! `StoreOffset`, `QueryOffset`, `ResolveOffsetSpec`.
//!
//! A client stores the offset of the last message that it has handled. A stream keeps the offset of the first one that isn't, for
//! consumers of all protocols: it is one more.

use leveret_broker::queue_handle::{KeptOffsetOf, Search};
use leveret_broker::time::Now;
use leveret_model::Action;
use leveret_queue::{KeptOffset, Scan};
use leveret_stream_protocol::{OffsetSpec, Pairs, ResponseCode, answers};

use super::commands::{filter_of, start_of};
use super::publishers::REFERENCE_BYTES_MAX;
use super::questions::{Looked, Looking};
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
        let line = self.refused_line("StoreOffset", "the stream keeps the offsets of too many names");
        // The command has no answer, so that nothing waits for this one.
        queue.keep_offset(kept, now.monotonic).then(move |is_kept| {
            if !is_kept {
                line()
            }
        });
    }

    /// `QueryOffset`.
    pub(crate) fn query_offset(&mut self, correlation: u32, reference: &str, stream: &str) {
        match self.stream(stream, Action::Consume(stream)) {
            Ok(queue) => {
                let asked = queue.ask(KeptOffsetOf(reference.into()));
                self.look::<KeptOffsetOf>(correlation, asked, Looked::Offset, Looking::Offset);
            }
            Err(code) => self.answer_offset(correlation, code, 0),
        }
    }

    pub(crate) fn offset_found(&mut self, correlation: u32, kept: Option<u64>) {
        match kept.and_then(|next| next.checked_sub(1)) {
            Some(offset) => self.answer_offset(correlation, ResponseCode::Ok, offset),
            None => self.answer_offset(correlation, ResponseCode::NoOffset, 0),
        }
    }

    fn answer_offset(&mut self, correlation: u32, code: ResponseCode, offset: u64) {
        self.refused.count(code);
        answers::query_offset(self.client.output.buffer(), correlation, code, offset);
    }

    /// `ResolveOffsetSpec`: where a subscription would begin.
    pub(crate) fn resolve_offset(&mut self, correlation: u32, stream: &str, start: OffsetSpec, properties: Pairs<'_>) {
        match self.stream(stream, Action::Consume(stream)) {
            Ok(queue) => {
                let asked = queue.ask(Search { start: start_of(start), filter: filter_of(properties) });
                self.look::<Search>(correlation, asked, Looked::Resolve, Looking::Resolve);
            }
            Err(code) => self.answer_resolved(correlation, code, 0),
        }
    }

    pub(crate) fn offset_resolved(&mut self, correlation: u32, found: Option<(u64, Box<Scan>)>) {
        match found {
            Some((offset, scan)) => {
                let offset = scan.end.map_or(offset, |end| offset.min(end));
                self.answer_resolved(correlation, ResponseCode::Ok, offset);
            }
            None => self.answer_resolved(correlation, ResponseCode::NoOffset, 0),
        }
    }

    fn answer_resolved(&mut self, correlation: u32, code: ResponseCode, offset: u64) {
        self.refused.count(code);
        answers::resolved_offset(self.client.output.buffer(), correlation, code, offset);
    }
}
