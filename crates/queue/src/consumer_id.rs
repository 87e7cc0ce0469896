//! The name of a consumer.

/// A consumer of one queue. Bits 48 to 62 are the member number of the node that its client is connected to, bits 0 to 47 a counter of the
/// node's process, so that it is unique among all nodes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId(pub u64);
