//! Messages on their way in, which go to their queues together.

use std::sync::Arc;

use leveret_broker::bodies::BodyFile;
use leveret_broker::route::Route;
use leveret_broker::wait_for::WaitFor;
use leveret_message::BatchBuilder;
use leveret_session::fan_out::FanOut;

use super::confirming::Acknowledged;

/// Messages of one route. A client that never publishes has none.
pub(crate) struct PublishRun {
    pub builder: BatchBuilder,
    pub route: Arc<Route>,
    pub persistent: bool,
    /// Number of messages at which it is handed on.
    pub messages_max: usize,
    /// The acknowledgements of its messages, by their index.
    pub acks: Vec<(u32, Acknowledged)>,
    /// The condition under which what it keeps for later subscribers is safe.
    pub kept: WaitFor,
    /// The body file of its last message.
    pub file: Option<BodyFile>,
}

/// A run while its queues get it.
pub(crate) struct OnItsWay {
    pub acks: Vec<(u32, Acknowledged)>,
    pub kept: WaitFor,
    pub fan_out: FanOut,
}
