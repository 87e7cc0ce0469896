//! Limits on the numbers of objects that clients open and declare.

/// Value for `infinity`.
pub const UNLIMITED: u64 = u64::MAX;

/// Settings in [`crate::Config::quotas`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// `connection_max_per_vhost`, `connection_max_per_user`; the limit of the node is
    /// [`crate::Config::max_connections`].
    pub connections: Quota,
    /// `channel_max_per_node`, `channel_max_per_vhost`, `channel_max_per_user`.
    pub channels: Quota,
    /// `link_max_per_node`, `link_max_per_vhost`, `link_max_per_user`.
    pub links: Quota,
    /// `consumer_max_per_node`, `consumer_max_per_vhost`, `consumer_max_per_user`.
    pub consumers: Quota,
    /// `consumer_max_per_channel`.
    pub consumers_per_channel: u64,
    /// `unsettled_max_per_node`, `unsettled_max_per_vhost`, `unsettled_max_per_user`.
    pub unsettled: Quota,
    /// `unsettled_max_per_channel`.
    pub unsettled_per_channel: u32,
    /// `vhost_max`.
    pub vhosts: u64,
    /// `cluster_queue_limit`.
    pub queues: u64,
    /// `queue_max_per_vhost`.
    pub queues_per_vhost: u64,
    /// `exclusive_queue_max_per_connection`.
    pub exclusive_queues_per_connection: u64,
    /// `cluster_exchange_limit`.
    pub exchanges: u64,
    /// `exchange_max_per_vhost`.
    pub exchanges_per_vhost: u64,
    /// `binding_max_per_node`.
    pub bindings: u64,
    /// `binding_max_per_vhost`.
    pub bindings_per_vhost: u64,
}

/// Limits of one kind of object; [`UNLIMITED`] for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Limit of the node.
    pub node: u64,
    /// Limit of each vhost.
    pub vhost: u64,
    /// Limit of each user.
    pub user: u64,
}

impl Quota {
    const fn half_for_each(node: u64) -> Self {
        Self { node, vhost: node / 2, user: node / 2 }
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            connections: Quota::half_for_each(200_000),
            channels: Quota::half_for_each(1_000_000),
            links: Quota::half_for_each(2_000_000),
            consumers: Quota::half_for_each(2_000_000),
            consumers_per_channel: 65_536,
            unsettled: Quota::half_for_each(20_000_000),
            unsettled_per_channel: 1 << 18,
            vhosts: 10_000,
            queues: 4_000_000,
            queues_per_vhost: 2_000_000,
            exclusive_queues_per_connection: 65_536,
            exchanges: 1_000_000,
            exchanges_per_vhost: 500_000,
            bindings: 20_000_000,
            bindings_per_vhost: 10_000_000,
        }
    }
}
