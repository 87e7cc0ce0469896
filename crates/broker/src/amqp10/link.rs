//! A link endpoint of ours (specification 2.6).

use super::consumer::Consumer;
use super::publisher::Publisher;

/// What is at our end of a link.
pub(crate) enum Link {
    /// The client sends, to an exchange or queue.
    Publisher(Publisher),
    /// The client receives, from a queue.
    Consumer(Consumer),
    /// We detached it with an error and ignore what comes for it until the client detaches it, too.
    Detached,
}
