//! `DeclarePublisher`, `DeletePublisher`, `QueryPublisherSequence`.

use std::sync::Arc;

use leveret_model::{Action, RefusedKind, Resource};
use leveret_stream_protocol::{ResponseCode, answers, key};

use super::input_hold::DurableAnswer;
use super::publishers::{DeclaredPublisher, REFERENCE_BYTES_MAX};
use super::questions::{Looked, Looking};
use super::session::Session;
use leveret_broker::queue_handle::{StreamQueueRef, WriterSequence};
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Now;

impl Session {
    /// A stream that this connection may use for `action`.
    pub(crate) fn stream(&self, name: &str, action: Action<'_>) -> Result<StreamQueueRef, ResponseCode> {
        let queue = self.client.known_queue(name, action).map_err(|refused| match refused.kind {
            // An exclusive queue of another connection isn't a stream: none is exclusive.
            RefusedKind::ResourceLocked => ResponseCode::StreamDoesNotExist,
            _ => super::refusal::code_of(&refused),
        })?;
        let queue = queue.as_stream().ok_or(ResponseCode::StreamDoesNotExist)?;
        queue.check_runs().map_err(|_| ResponseCode::StreamNotAvailable)?;
        Ok(queue)
    }

    /// `DeclarePublisher`.
    pub(crate) fn declare_publisher(&mut self, correlation: u32, id: u8, reference: &str, stream: &str, _now: Now) {
        let code = match self.new_publisher(id, reference, stream) {
            Ok(()) => ResponseCode::Ok,
            Err(code) => code,
        };
        self.respond(key::DECLARE_PUBLISHER, correlation, code);
    }

    fn new_publisher(&mut self, id: u8, reference: &str, stream: &str) -> Result<(), ResponseCode> {
        if self.alarm {
            return Err(ResponseCode::PreconditionFailed);
        }
        self.client
            .authorize(Action::Write(Resource::Queue(stream)))
            .map_err(|refused| super::refusal::code_of(&refused))?;
        if reference.len() > REFERENCE_BYTES_MAX || self.publishers.has(id, stream, reference) {
            return Err(ResponseCode::PreconditionFailed);
        }
        let queue = self.stream(stream, Action::Write(Resource::Queue(stream)))?;
        let stream: Arc<str> = stream.into();
        self.watch(&stream, &queue);
        let reference: Option<Arc<str>> = (!reference.is_empty()).then(|| reference.into());
        self.publishers.insert(id, DeclaredPublisher::new(stream, queue, reference));
        self.client.counters.publishers_opened.increment();
        Ok(())
    }

    /// `DeletePublisher`.
    pub(crate) fn delete_publisher(&mut self, correlation: u32, id: u8, now: Now) {
        self.flush_run(now);
        let code = match self.forget_publisher(id) {
            true => ResponseCode::Ok,
            false => ResponseCode::PublisherDoesNotExist,
        };
        self.respond(key::DELETE_PUBLISHER, correlation, code);
    }

    /// `QueryPublisherSequence`.
    pub(crate) fn query_sequence(&mut self, correlation: u32, reference: &str, stream: &str, now: Now) {
        self.flush_run(now);
        let found = self.stream(stream, Action::Read(Resource::Queue(stream)));
        match found {
            Ok(queue) => {
                let asked = queue.ask(WriterSequence(reference.into()));
                self.look::<WriterSequence>(correlation, asked, Looked::Sequence, Looking::Sequence);
            }
            Err(code) => {
                self.refused.count(code);
                answers::sequence(self.client.output.buffer(), correlation, code, 0);
            }
        }
    }

    pub(crate) fn sequence_found(&mut self, correlation: u32, (sequence, awaited): (Option<u64>, Awaited)) {
        let sequence = sequence.unwrap_or(0);
        self.answer_when_durable(awaited, DurableAnswer::Sequence { correlation, sequence });
    }
}
