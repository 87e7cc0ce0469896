//! `Metadata`, `StreamStats`, `ExchangeCommandVersions`.

use std::collections::HashSet;

use leveret_broker::queue_handle::{StreamEnd, StreamEnds};
use leveret_model::{Action, QueueType, Resource};
use leveret_stream_protocol::{ResponseCode, StreamMetadata, Strings, Versions, answers, key};

use super::questions::{Looked, Looking};
use super::session::Session;

impl Session {
    /// `Metadata`: where streams are: each has one replica, its leader. On one node all are here, at the address that the client used. One
    /// of another node, whose address isn't known, is served here.
    pub(crate) fn metadata(&mut self, correlation: u32, streams: Strings<'_>) {
        let snapshot = self.client.broker.registry.snapshot_full();
        let vhost = &self.client.vhost;
        let may = |action: Action<'_>| self.client.authorize(action).is_ok();
        let code_of = |name: &str| match snapshot.topology.queue(vhost, name) {
            _ if !may(Action::Read(Resource::Queue(name))) && !may(Action::Write(Resource::Queue(name))) => {
                ResponseCode::AccessRefused
            }
            Some(queue) if queue.queue_type() == QueueType::Stream => match snapshot.queue(vhost, name) {
                Some(queue) if queue.check_runs().is_ok() => ResponseCode::Ok,
                _ => ResponseCode::StreamNotAvailable,
            },
            _ => ResponseCode::StreamDoesNotExist,
        };
        let mut seen = HashSet::new();
        let found: Vec<_> =
            streams.iter().filter(|name| seen.insert(*name)).map(|name| (name, code_of(name))).collect();
        let is_shown = |code: &ResponseCode| *code == ResponseCode::Ok;
        let queues = found.iter().map(|(stream, code)| snapshot.queue(vhost, stream).filter(|_| is_shown(code)));
        let (leaders, brokers) = self.leaders(queues);
        let brokers: Vec<_> = brokers.iter().map(|(at, host, port)| (*at, &**host, *port)).collect();
        let shown = found.iter().zip(leaders).map(|((stream, code), leader)| StreamMetadata {
            stream,
            code: *code,
            leader,
            replicas: &[],
        });
        answers::metadata(self.client.output.buffer(), correlation, &brokers, shown);
    }

    /// `StreamStats`.
    pub(crate) fn stream_stats(&mut self, correlation: u32, stream: &str) {
        match self.stream(stream, Action::Consume(stream)) {
            Ok(queue) => {
                let asked = queue.ask(StreamEnds);
                self.look::<StreamEnds>(correlation, asked, Looked::Stats, Looking::Stats);
            }
            Err(code) => self.answer_stats(correlation, code, None),
        }
    }

    pub(crate) fn stats_found(&mut self, correlation: u32, ends: Option<StreamEnd>) {
        let code = if ends.is_some() { ResponseCode::Ok } else { ResponseCode::StreamDoesNotExist };
        self.answer_stats(correlation, code, ends);
    }

    fn answer_stats(&mut self, correlation: u32, code: ResponseCode, ends: Option<StreamEnd>) {
        let stats = ends.map(|StreamEnd { first, next, last_chunk }| {
            let last_chunk = last_chunk.map_or(-1, u64::cast_signed);
            [
                ("first_chunk_id", if first >= next { -1 } else { first.cast_signed() }),
                ("committed_chunk_id", last_chunk),
                ("last_chunk_id", last_chunk),
                ("committed_offset", next.cast_signed() - 1),
            ]
        });
        let stats = stats.as_ref().map_or(&[][..], |stats| &stats[..]);
        self.refused.count(code);
        answers::stream_stats(self.client.output.buffer(), correlation, code, stats);
    }

    /// `ExchangeCommandVersions`: the client may know newer deliveries.
    pub(crate) fn command_versions(&mut self, correlation: u32, versions: Versions<'_>) {
        if versions.get(key::DELIVER).is_some_and(|(_, highest)| highest >= 2) {
            self.tuned.take_newer_deliveries();
        }
        answers::command_versions(self.client.output.buffer(), correlation, ResponseCode::Ok, key::VERSIONS);
    }
}
