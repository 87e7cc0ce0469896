//! The operations of a client of either protocol on transactions.

use leveret_sim::failure::Failure;
use leveret_sim::world::World;

/// The settlement of the message that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Accepted,
    Rejected,
}

/// A client of transactions. One transaction is open at a time, from the first publish to the commit or rollback.
pub(crate) trait Client: Sized {
    /// Connects.
    fn start(world: &mut World) -> Result<Self, Failure>;

    /// Publishes a message in the transaction.
    fn publish(&mut self, world: &mut World, queue: &str, id: u64, length: usize) -> Result<(), Failure>;

    /// Takes the next message of the source; returns its number.
    fn take(&mut self, world: &mut World) -> Result<u64, Failure>;

    /// Commits, with the settlement of the message that was taken.
    fn commit(&mut self, world: &mut World, fate: Option<Fate>) -> Result<(), Failure>;

    /// Rolls back, and removes the message that was taken, without dead letters.
    fn roll_back(&mut self, world: &mut World) -> Result<(), Failure>;
}
