//! The other members of the cluster, as this node knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leveret_broker::AlarmSource;
use leveret_model::Member;
use leveret_node::{ClusterSeen, GossipSetting, ToldByMember};

use crate::api::Api;

/// Another member of the cluster.
pub(crate) struct OtherMember {
    pub(crate) member: Arc<Member>,
    /// Wall time of its start in milliseconds since 1970, if it can be reached.
    pub(crate) started_ms: Option<u64>,
    /// The reason why it can't be reached, if that is known.
    pub(crate) failure: Option<String>,
    /// Its words about itself, if it can be reached.
    pub(crate) told: Option<Arc<ToldByMember>>,
}

impl OtherMember {
    pub(crate) fn name(&self) -> &str {
        &self.member.name
    }

    /// Whether it can be reached.
    pub(crate) fn is_running(&self) -> bool {
        self.started_ms.is_some()
    }

    /// Whether it has said that this alarm is raised there.
    pub(crate) fn has_alarm(&self, source: AlarmSource) -> bool {
        self.told.as_ref().is_some_and(|told| told.has_alarm(source))
    }
}

impl Api {
    /// The cluster as the node sees it; empty without one.
    pub(crate) fn cluster_seen(&self) -> ClusterSeen {
        self.node().cluster().map(|cluster| cluster.seen()).unwrap_or_default()
    }

    /// Whether the node is a member of a cluster.
    pub(crate) fn is_member(&self) -> bool {
        self.cluster_seen().member.is_some()
    }

    /// The other members of the cluster.
    pub(crate) fn other_members(&self) -> Vec<OtherMember> {
        let seen = self.cluster_seen();
        let topology = self.topology();
        let others = topology.members().filter(|member| Some(member.number) != seen.member);
        let other = |member: &Arc<Member>| OtherMember {
            member: member.clone(),
            started_ms: seen.reached.get(&member.number).copied(),
            failure: seen.failures.get(&member.number).cloned(),
            told: seen.told.get(&member.number).cloned(),
        };
        others.map(other).collect()
    }

    /// The other members that run.
    pub(crate) fn running_members(&self) -> impl Iterator<Item = OtherMember> + use<> {
        self.other_members().into_iter().filter(OtherMember::is_running)
    }

    /// The alarms of all nodes of the cluster that can be reached, with the nodes.
    pub(crate) fn alarms_of_all(&self) -> Vec<(AlarmSource, String)> {
        let own = self.broker().alarms.raised().map(|source| (source, self.name().to_owned()));
        let mut alarms: Vec<(AlarmSource, String)> = own.collect();
        for other in self.other_members() {
            let raised = AlarmSource::ALL.into_iter().filter(|source| other.has_alarm(*source));
            alarms.extend(raised.map(|source| (source, other.name().to_owned())));
        }
        alarms
    }

    /// Keys of the configuration whose values differ between this node and the others that can be reached.
    pub(crate) fn different_settings(&self) -> Vec<String> {
        let others = self.other_members();
        let told = others.iter().filter_map(|other| other.told.as_ref()?.words.settings.as_deref());
        match self.node().own_settings() {
            Some(own) => different(own, told),
            None => Vec::new(),
        }
    }
}

fn different<'a>(own: &'a [GossipSetting], others: impl Iterator<Item = &'a [GossipSetting]>) -> Vec<String> {
    let digests = |settings: &'a [GossipSetting]| -> BTreeMap<&'a str, u64> {
        settings.iter().map(|setting| (setting.key.as_str(), setting.digest)).collect()
    };
    let own = digests(own);
    let mut different = BTreeSet::new();
    for other in others.map(digests) {
        let keys = own.keys().chain(other.keys());
        different.extend(keys.filter(|key| own.get(*key) != other.get(*key)).map(|key| (*key).to_owned()));
    }
    different.into_iter().collect()
}

#[test]
fn settings_that_only_one_node_has_differ() {
    let setting = |key: &str, digest| GossipSetting { key: key.to_owned(), digest };
    let (own, alike) = ([setting("a", 1), setting("b", 2)], [setting("a", 1), setting("b", 2)]);
    let other = [setting("b", 3), setting("c", 4), setting("a", 1)];
    assert_eq!(different(&own, [&alike[..]].into_iter()), Vec::<String>::new());
    assert_eq!(different(&own, [&alike[..], &other[..]].into_iter()), ["b", "c"]);
}
