//! The addresses at which clients find the other members of the cluster, as these told them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use leveret_model::MemberNumber;

/// An address for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    /// RabbitMQ's name of its protocol, such as `stream`.
    pub protocol: Arc<str>,
    /// Host name or address.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
}

type ByMember = BTreeMap<MemberNumber, Vec<ClientAddress>>;

/// The addresses of the members that this node reaches.
#[derive(Debug, Default)]
pub struct AddressesElsewhere(ArcSwap<ByMember>);

impl AddressesElsewhere {
    /// Sets the addresses of all members that are reached, some of which may have none.
    pub fn set(&self, addresses: ByMember) {
        if **self.0.load() != addresses {
            self.0.store(addresses.into());
        }
    }

    /// The address of a member for a protocol.
    pub fn of(&self, member: MemberNumber, protocol: &str) -> Option<ClientAddress> {
        self.0.load().get(&member)?.iter().find(|address| &*address.protocol == protocol).cloned()
    }
}

/// The host in the name of a node, which is its address unless the configuration says another.
pub fn host_of(node_name: &str) -> &str {
    node_name.split_once('@').map_or(node_name, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_by_its_protocol() {
        let addresses = AddressesElsewhere::default();
        let stream = ClientAddress { protocol: "stream".into(), host: host_of("rabbit@b").into(), port: 5552 };
        addresses.set(BTreeMap::from([(MemberNumber(3), vec![stream.clone()])]));
        assert_eq!(addresses.of(MemberNumber(3), "stream"), Some(stream));
        assert_eq!(addresses.of(MemberNumber(3), "stream/ssl"), None);
        assert_eq!(addresses.of(MemberNumber(2), "stream"), None);
    }
}
