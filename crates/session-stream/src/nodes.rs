//! The nodes that clients are told: this one, and those that have streams.

use std::sync::Arc;

use leveret_broker::addresses::{ClientAddress, host_of};
use leveret_broker::queue_handle::QueueRef;

use super::session::Session;

/// This node among the brokers of an answer. The others follow it.
const HERE: u16 = 0;
/// A stream without a leader.
const NOWHERE: u16 = u16::MAX;

/// A node in an answer: its reference there, its host and its port.
pub(crate) type ToldNode = (u16, Arc<str>, u32);

impl Session {
    /// The address at which clients find this node.
    pub(crate) fn own_address(&self) -> (String, u16) {
        let broker = &self.client.broker;
        let has_members = broker.registry.snapshot().topology.members().nth(1).is_some();
        let host = has_members.then(|| host_of(&broker.settings.node_name));
        self.settings.address_for(&self.client.peer, host)
    }

    /// The node of each of these streams, `None` for one that has none, and the nodes. One of another node whose address isn't known is
    /// served here.
    pub(crate) fn leaders<'a>(&self, streams: impl Iterator<Item = Option<&'a QueueRef>>) -> (Vec<u16>, Vec<ToldNode>) {
        let mut others: Vec<ClientAddress> = Vec::new();
        let leader = |stream: Option<&QueueRef>| {
            let Some(stream) = stream else { return NOWHERE };
            let Some(address) = self.address_of(stream) else { return HERE };
            let at = others.iter().position(|known| *known == address).unwrap_or_else(|| {
                others.push(address);
                others.len() - 1
            });
            HERE + 1 + at as u16
        };
        let leaders: Vec<u16> = streams.map(leader).collect();
        let mut nodes = Vec::new();
        if leaders.contains(&HERE) {
            let (host, port) = self.own_address();
            nodes.push((HERE, host.into(), port.into()));
        }
        let others = others.into_iter().zip(HERE + 1..);
        nodes.extend(others.map(|(address, at)| (at, address.host, address.port.into())));
        (leaders, nodes)
    }

    /// The address of the node that has a stream, if that is another one and told its address.
    fn address_of(&self, stream: &QueueRef) -> Option<ClientAddress> {
        if !stream.is_away() {
            return None;
        }
        let member = stream.member()?;
        let protocol = if self.client.peer.encryption.is_some() { "stream/ssl" } else { "stream" };
        self.client.broker.addresses.of(member, protocol)
    }
}
