//! Blocked input: the connection isn't read until the event that it waits for.

use leveret_queue::WaitReason;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::connection::Connection;
use super::link::Link;
use super::publisher::{Destination, Publisher};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::ticket::Ticket;
use leveret_session::client_connection::WAIT_SHOWN_MAX;
use leveret_session::driven::Steps;

/// The reason why the connection's input is blocked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum InputHold {
    /// Input isn't blocked.
    #[default]
    No,
    /// The frame at its head declared something that becomes durable with this ticket. The frame is handled again then.
    Again { ticket: Ticket },
    /// The frame at its head needs a change whose outcome comes later. The frame is handled again then.
    Change,
    /// The frame at its head has more to do than fits in one turn. It is handled again in the next one.
    NextTurn,
    /// The frame at its head names this link, which waits for its queue. It is handled once the queue has answered, or the
    /// link has ended.
    Asked { channel: u16, handle: u32 },
    /// A management request removes messages or a binding, and isn't answered yet: what follows it mustn't come before it.
    Removal,
    /// Too many bytes of incoming bodies are on their way to their files; the disk has to catch up.
    Upload,
    /// The body of the last message of this link is being written to a file of its own.
    Body { channel: u16, handle: u32 },
    /// The log takes no publishes at the moment, or this connection's share of bytes on their way to the disk is used
    /// up.
    LogRoom,
}

impl Connection {
    /// The queues that show this wait of the client's publishes.
    pub(crate) fn queues_that_wait(&self, reason: WaitReason) -> SmallVec<[QueueRef; 2]> {
        let for_log = matches!(reason, WaitReason::LogFull | WaitReason::DiskFull);
        match (for_log && !self.client.log_wait().1) || reason == WaitReason::Pacing {
            // This connection's own share is used up, or the queue shows it itself.
            true => SmallVec::new(),
            false => self.published_to(),
        }
    }

    /// The reason why the client's publishes wait, if they do.
    pub(crate) fn publishes_wait_for(&self) -> Option<WaitReason> {
        if !self.has_published || self.client.gone || self.is_closed() && !self.is_ending() {
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
    let (queue, route) = match &publisher.destination {
        Destination::Queue(queue) => (Some(queue), None),
        _ => (None, publisher.run.route.as_deref()),
    };
    queue.into_iter().chain(route.into_iter().flat_map(|route| route.queues.iter()))
}
