//! The waits of a client's publishes, as listings show them.

use leveret_queue::WaitReason;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::connection::Connection;
use super::held::InputHold;
use super::link::Link;
use super::publisher::{Destination, Publisher};
use leveret_broker::queue_handle::QueueRef;
use leveret_session::client_connection::WAIT_SHOWN_MAX;
use leveret_session::driven::Steps;

impl Connection {
    /// The queues that show this wait of the client's publishes.
    pub(crate) fn queues_that_wait(&self, reason: WaitReason) -> SmallVec<[QueueRef; 2]> {
        match (reason.is_for_room() && !self.client.log_wait().1) || reason == WaitReason::Pacing {
            // This connection's own share is used up, or the queue shows it itself.
            true => SmallVec::new(),
            false => self.published_to(),
        }
    }

    /// The reason why the client's publishes wait, if they do.
    pub(crate) fn publishes_wait_for(&self) -> Option<WaitReason> {
        if !self.publishing.has_begun() || self.client.is_gone() || self.is_closed() && !self.is_ending() {
            None
        } else if self.client.broker.alarms.publishing_blocked() {
            Some(WaitReason::Alarm)
        } else if matches!(self.held, InputHold::Upload | InputHold::Body { .. }) {
            Some(WaitReason::BodyFile)
        } else {
            let for_log = self.publishes_wait().then(|| self.client.log_wait().0);
            for_log.or(self.client.pace.is_shown().then_some(WaitReason::Pacing))
        }
    }

    /// The queues that the client's links publish to and that show its waits, as far as they are known.
    fn published_to(&self) -> SmallVec<[QueueRef; 2]> {
        let publishers = self.sessions.iter().flat_map(|session| session.links()).filter_map(|link| match link {
            Link::Publisher(publisher) => Some(&**publisher),
            _ => None,
        });
        let mut seen = FxHashSet::default();
        let queues = publishers.flat_map(targets).filter(|queue| seen.insert(queue.key()));
        queues.take(WAIT_SHOWN_MAX).cloned().collect()
    }
}

/// The queue of a link, or the queues that its last message went to.
fn targets(publisher: &Publisher) -> impl Iterator<Item = &QueueRef> {
    let (queue, route) = match publisher.destination() {
        Destination::Queue(queue) => (Some(queue), None),
        _ => (None, publisher.run().route().map(|route| &**route)),
    };
    queue.into_iter().chain(route.into_iter().flat_map(|route| route.queues.iter()))
}
