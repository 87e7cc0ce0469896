//! A link endpoint on the broker's side (specification 2.6).

use leveret_amqp10::Role;

use super::consumer::Consumer;
use super::pairs::{PairName, Requests, Responses};
use super::publisher::Publisher;
use super::requester::Replies;
use super::transactions::Coordinator;

/// The role of the broker's end of a link.
pub(crate) enum Link {
    /// The client sends, to an exchange or queue.
    Publisher(Box<Publisher>),
    /// The client receives, from a queue.
    Consumer(Consumer),
    /// The client receives answers to its requests, without a queue.
    Replies(Replies),
    /// The client controls transactions.
    Coordinator(Coordinator),
    /// The client sends requests to the management node.
    Requests(Requests),
    /// The client receives their responses.
    Responses(Responses),
    /// The client detached it, and is answered when the queue that is deleted with it is gone.
    Left,
    /// We detached it with an error and ignore further frames for it until the client detaches it, too.
    Detached,
}

impl Link {
    /// The pair that the link is half of, and the client's role on this half.
    pub(super) fn pair(&self) -> Option<(&PairName, Role)> {
        match self {
            Link::Requests(requests) => Some((requests.pair(), Role::Sender)),
            Link::Responses(responses) => Some((responses.pair(), Role::Receiver)),
            Link::Publisher(_)
            | Link::Consumer(_)
            | Link::Coordinator(_)
            | Link::Replies(_)
            | Link::Left
            | Link::Detached => None,
        }
    }
}
