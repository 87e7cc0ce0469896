use crate::{
    ConnectionId, DeprecatedFeatures, EnabledTypes, ExchangeType, LeaderLocator, Refused, RefusedKind, Topology,
};

/// Limits on declared objects. A limit that is reached refuses new objects; existing ones stay, even if there are
/// more.
///
/// Objects belong to their vhost and not to the user who declared them, so there are no limits per user here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Vhosts (`vhost_max`).
    pub vhosts: u64,
    /// Queues of all vhosts (`cluster_queue_limit`).
    pub queues: u64,
    /// Queues of one vhost (`queue_max_per_vhost`).
    pub queues_per_vhost: u64,
    /// Exclusive queues of one connection (`exclusive_queue_max_per_connection`).
    pub exclusive_queues_per_connection: u64,
    /// Exchanges of all vhosts, predeclared ones included (`cluster_exchange_limit`).
    pub exchanges: u64,
    /// Exchanges of one vhost, predeclared ones included (`exchange_max_per_vhost`).
    pub exchanges_per_vhost: u64,
    /// Bindings of all vhosts (`binding_max_per_node`).
    pub bindings: u64,
    /// Bindings of one vhost (`binding_max_per_vhost`).
    pub bindings_per_vhost: u64,
    /// The types of new queues (`queue_types.*.enabled`).
    pub queue_types: EnabledTypes,
    /// Whether local random exchanges can be declared (`exchange_types.local_random.enabled`).
    pub local_random_exchanges: bool,
    /// Whether a quorum queue can be declared again as a classic one, whatever else differs
    /// (`quorum_queue.property_equivalence.relaxed_checks_on_redeclaration`).
    pub relaxed_quorum_redeclaration: bool,
    /// Deprecated features that are permitted (`deprecated_features.permit.*`).
    pub deprecated: DeprecatedFeatures,
    /// Where new queues of a cluster are, unless an argument or a policy says otherwise (`queue_leader_locator`).
    pub leader_locator: LeaderLocator,
    /// Members of a new quorum queue of a cluster, unless an argument says otherwise (`quorum_queue.initial_cluster_size`). 1 is a queue
    /// that isn't replicated.
    pub quorum_group_size: usize,
    /// Members from which on quorum queues that were declared before others joined are replicated without being asked
    /// (`cluster_formation.target_cluster_size_hint`); below 2 for never.
    pub cluster_size: usize,
    /// Placements that each member of a cluster is to lead (`cluster.placements_per_node`).
    pub placements_per_node: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            vhosts: 10_000,
            queues: 4_000_000,
            queues_per_vhost: 2_000_000,
            exclusive_queues_per_connection: 65_536,
            exchanges: 1_000_000,
            exchanges_per_vhost: 500_000,
            bindings: 20_000_000,
            bindings_per_vhost: 10_000_000,
            queue_types: EnabledTypes::default(),
            local_random_exchanges: true,
            relaxed_quorum_redeclaration: false,
            deprecated: DeprecatedFeatures::default(),
            leader_locator: LeaderLocator::default(),
            quorum_group_size: 3,
            cluster_size: 1,
            placements_per_node: 8,
        }
    }
}

impl Limits {
    pub(crate) fn check_vhost(&self, topology: &Topology, name: &str) -> Result<(), Refused> {
        check(topology.vhosts.len() as u64, self.vhosts, |limit| {
            format!("cannot create vhost '{name}': vhost limit of {limit} is reached; raise vhost_max")
        })
    }

    pub(crate) fn check_exchange_type(&self, kind: ExchangeType) -> Result<(), Refused> {
        match kind {
            ExchangeType::LocalRandom if !self.local_random_exchanges => {
                Err(Refused::precondition("x-local-random exchange is disabled by configuration"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_queue(
        &self,
        topology: &Topology,
        vhost: &str,
        name: &str,
        owner: Option<ConnectionId>,
    ) -> Result<(), Refused> {
        let cannot = format_args!("cannot declare queue '{name}': ");
        check(topology.queue_count() as u64, self.queues, |limit| {
            format!("{cannot}queue limit in cluster ({limit}) is reached; raise cluster_queue_limit")
        })?;
        let in_vhost = topology.vhosts.get(vhost).map_or(0, |vhost| vhost.queues.len());
        check(in_vhost as u64, self.queues_per_vhost, |limit| {
            format!("{cannot}queue limit in vhost '{vhost}' ({limit}) is reached; raise queue_max_per_vhost")
        })?;
        let Some(owner) = owner else { return Ok(()) };
        let of_owner = topology.exclusive_queues.get(&owner).map_or(0, |queues| queues.len());
        check(of_owner as u64, self.exclusive_queues_per_connection, |limit| {
            format!(
                "{cannot}limit of exclusive queues of a connection ({limit}) is reached; raise \
                 exclusive_queue_max_per_connection"
            )
        })
    }

    pub(crate) fn check_exchange(&self, topology: &Topology, vhost: &str, name: &str) -> Result<(), Refused> {
        let cannot = format_args!("cannot declare exchange '{name}' in vhost '{vhost}': ");
        check(topology.exchanges, self.exchanges, |limit| {
            format!("{cannot}exchange limit of {limit} is reached; raise cluster_exchange_limit")
        })?;
        let in_vhost = topology.vhosts.get(vhost).map_or(0, |vhost| vhost.exchanges.len());
        check(in_vhost as u64, self.exchanges_per_vhost, |limit| {
            format!("{cannot}exchange limit of {limit} in this vhost is reached; raise exchange_max_per_vhost")
        })
    }

    pub(crate) fn check_binding(&self, topology: &Topology, vhost: &str) -> Result<(), Refused> {
        let cannot = "cannot bind: binding limit";
        check(topology.bindings, self.bindings, |limit| {
            format!("{cannot} of the node ({limit}) is reached; raise binding_max_per_node")
        })?;
        let in_vhost = topology.vhosts.get(vhost).map_or(0, |vhost| vhost.bindings.len());
        check(in_vhost, self.bindings_per_vhost, |limit| {
            format!("{cannot} in vhost '{vhost}' ({limit}) is reached; raise binding_max_per_vhost")
        })
    }
}

fn check(have: u64, limit: u64, text: impl FnOnce(u64) -> String) -> Result<(), Refused> {
    if have < limit { Ok(()) } else { Err(Refused::new(RefusedKind::LimitReached, text(limit))) }
}
