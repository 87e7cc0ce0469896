//! `Metadata`, `StreamStats`, `ExchangeCommandVersions`.

use std::collections::HashSet;

use leveret_broker::addresses::{ClientAddress, host_of};
use leveret_broker::queue_handle::{StreamEnd, StreamEnds};
use leveret_model::{Action, Home, Queue as QueueInfo, QueueType, Resource};
use leveret_stream_protocol::{ResponseCode, StreamMetadata, Strings, Versions, answers, key};

use super::questions::{Looked, Looking};
use super::session::Session;

/// This node among the brokers of an answer. The others follow it.
const HERE: u16 = 0;
/// A stream without a leader.
const NOWHERE: u16 = u16::MAX;

impl Session {
    /// The address at which clients find this node.
    pub(crate) fn own_address(&self) -> (String, u16) {
        let broker = &self.client.broker;
        let has_members = broker.registry.snapshot().topology.members().nth(1).is_some();
        let host = has_members.then(|| host_of(&broker.settings.node_name));
        self.settings.address_for(&self.client.peer, host)
    }

    /// The address of the node that has a stream, if that is another one and told its address.
    fn address_of(&self, stream: &QueueInfo) -> Option<ClientAddress> {
        let Home::Owner(member) = stream.home;
        let protocol = if self.client.peer.encryption.is_some() { "stream/ssl" } else { "stream" };
        self.client.broker.addresses.of(member, protocol)
    }

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
        let mut others: Vec<ClientAddress> = Vec::new();
        let leaders: Vec<u16> = found
            .iter()
            .map(|(stream, code)| {
                let queue = snapshot.queue(vhost, stream).filter(|_| *code == ResponseCode::Ok);
                let Some(queue) = queue else { return NOWHERE };
                let Some(address) = self.address_of(queue.info()).filter(|_| queue.is_away()) else { return HERE };
                let at = others.iter().position(|known| *known == address).unwrap_or_else(|| {
                    others.push(address);
                    others.len() - 1
                });
                HERE + 1 + at as u16
            })
            .collect();
        let shown = found.iter().zip(&leaders);
        let shown = shown.map(|((stream, code), leader)| StreamMetadata {
            stream,
            code: *code,
            leader: *leader,
            replicas: &[],
        });
        let (host, port) = self.own_address();
        let here = (HERE, &*host, u32::from(port));
        let mut brokers = Vec::new();
        brokers.extend(leaders.contains(&HERE).then_some(here));
        let others = others.iter().zip(HERE + 1..);
        brokers.extend(others.map(|(address, at)| (at, &*address.host, u32::from(address.port))));
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
            self.deliver_version = 2;
        }
        answers::command_versions(self.client.output.buffer(), correlation, ResponseCode::Ok, key::VERSIONS);
    }
}
