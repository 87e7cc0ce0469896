//! `Metadata`, `StreamStats`, `ExchangeCommandVersions`.

use std::collections::HashSet;

use leveret_broker::queue_handle::Status;
use leveret_model::{Action, QueueType, Resource};
use leveret_queue::{QueueStatus, StreamStatus};
use leveret_stream_protocol::{ResponseCode, StreamMetadata, Strings, Versions, answers, key};

use super::questions::{Looked, Looking};
use super::session::Session;

/// The only broker in an answer: this one.
const HERE: u16 = 0;
/// A stream without a leader.
const NOWHERE: u16 = u16::MAX;

impl Session {
    /// `Metadata`: where streams are. On one node all are here, at the address that the client used.
    pub(crate) fn metadata(&mut self, correlation: u32, streams: Strings<'_>) {
        let snapshot = self.client.broker.registry.snapshot_full();
        let vhost = &self.client.vhost;
        let may = |action: Action<'_>| self.client.authorize(action).is_ok();
        let code_of = |name: &str| match snapshot.topology.queue(vhost, name) {
            _ if !may(Action::Read(Resource::Queue(name))) && !may(Action::Write(Resource::Queue(name))) => {
                ResponseCode::AccessRefused
            }
            Some(queue) if queue.queue_type() == QueueType::Stream => match snapshot.queue(vhost, name) {
                Some(queue) if queue.check_runs_here().is_ok() => ResponseCode::Ok,
                _ => ResponseCode::StreamNotAvailable,
            },
            _ => ResponseCode::StreamDoesNotExist,
        };
        let mut seen = HashSet::new();
        let found: Vec<_> =
            streams.iter().filter(|name| seen.insert(*name)).map(|name| (name, code_of(name))).collect();
        let shown = found.iter().map(|(stream, code)| {
            let is_here = *code == ResponseCode::Ok;
            StreamMetadata { stream, code: *code, leader: if is_here { HERE } else { NOWHERE }, replicas: &[] }
        });
        let (host, port) = self.settings.address_for(&self.client.peer);
        let here = [(HERE, &*host, u32::from(port))];
        let any = found.iter().any(|(_, code)| *code == ResponseCode::Ok);
        let brokers = if any { &here[..] } else { &[] };
        answers::metadata(self.client.output.buffer(), correlation, brokers, shown);
    }

    /// `StreamStats`.
    pub(crate) fn stream_stats(&mut self, correlation: u32, stream: &str) {
        match self.stream(stream, Action::Consume(stream)) {
            Ok(queue) => {
                let asked = queue.ask(Status);
                self.look::<Status>(correlation, asked, Looked::Stats, Looking::Stats);
            }
            Err(code) => self.answer_stats(correlation, code, None),
        }
    }

    pub(crate) fn stats_found(&mut self, correlation: u32, status: Option<Box<QueueStatus>>) {
        match status {
            Some(status) => self.answer_stats(correlation, ResponseCode::Ok, status.stream),
            None => self.answer_stats(correlation, ResponseCode::StreamDoesNotExist, None),
        }
    }

    fn answer_stats(&mut self, correlation: u32, code: ResponseCode, status: Option<StreamStatus>) {
        let stats = status.map(|status| {
            let last_chunk = status.last_chunk.map_or(-1, u64::cast_signed);
            let is_empty = status.first >= status.next;
            [
                ("first_chunk_id", if is_empty { -1 } else { status.first.cast_signed() }),
                ("committed_chunk_id", last_chunk),
                ("last_chunk_id", last_chunk),
                ("committed_offset", status.next.cast_signed() - 1),
            ]
        });
        let stats = stats.as_ref().map_or(&[][..], |stats| &stats[..]);
        self.refused.count(code);
        answers::stream_stats(self.client.output.buffer(), correlation, code, stats);
    }

    /// `ExchangeCommandVersions`: the client may know newer deliveries.
    pub(crate) fn command_versions(&mut self, correlation: u32, versions: Versions<'_>) {
        if versions.get(key::DELIVER).is_some_and(|(_, highest)| highest >= 2) {
            self.deliver_version = 2;
        }
        answers::command_versions(self.client.output.buffer(), correlation, ResponseCode::Ok, key::VERSIONS);
    }
}
