//! Who a connection is, as somebody else decides it.

use leveret_model::Topology;

/// Checks credentials. Implemented by the node over the `auth` crate; must not block.
pub trait Authenticate: Send + Sync {
    /// The user's name.
    ///
    /// For every mechanism `response` has PLAIN's form (RFC 4616); AMQPLAIN's table is turned into it.
    ///
    /// # Errors
    /// Why not, for the log; the client is told no more than that it was refused.
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        peer_is_loopback: bool,
    ) -> Result<String, String>;
}
