//! Ends that take several turns: of links and sessions with an error, and of the connection.

use std::collections::VecDeque;

use leveret_model::QueueId;

use super::error::Failure;
use super::leaving::{FailedLink, Leaving};
use super::link::Link;

/// The ends of a connection's parts that are under way, and its own.
#[derive(Default)]
pub(crate) struct Endings {
    /// Links that we detach and whose deliveries aren't all settled yet.
    links: VecDeque<(FailedLink, Box<Link>)>,
    /// Channels of sessions that we end and that aren't left yet, with the error that is sent then.
    sessions: VecDeque<(u16, Failure)>,
    /// The error of our close, to be sent when everything has ended.
    close_due: Option<Failure>,
    leaving: Leaving,
}

impl Endings {
    /// The progress of the connection's end.
    pub(super) fn leaving(&self) -> Leaving {
        self.leaving
    }

    /// The connection begins to end, unless it does.
    pub(super) fn begin_to_leave(&mut self) {
        if !self.leaving.is_under_way() {
            self.leaving = Leaving::Sessions { next: 0 };
        }
    }

    /// The session on this channel is left, or isn't there.
    pub(super) fn left_session(&mut self, channel: usize) {
        self.leaving = Leaving::Sessions { next: channel + 1 };
    }

    /// Exclusive queues from this id on are left; no session is, and none is told its end any more.
    pub(super) fn queues_are_left(&mut self, next: QueueId) {
        self.sessions.clear();
        self.leaving = Leaving::Queues { next };
    }

    /// Nothing of the connection is left.
    pub(super) fn have_left(&mut self) {
        self.leaving = Leaving::No;
    }

    /// Whether any is under way.
    pub(super) fn are_under_way(&self) -> bool {
        self.leaving.is_under_way() || !self.sessions.is_empty() || !self.links.is_empty()
    }

    /// Adds a link that we detach.
    pub(super) fn push_link(&mut self, failed: FailedLink, link: Box<Link>) {
        self.links.push_back((failed, link));
    }

    /// Takes out the link that ends next.
    pub(super) fn pop_link(&mut self) -> Option<(FailedLink, Box<Link>)> {
        self.links.pop_front()
    }

    /// Puts back a link of which something is left.
    pub(super) fn put_link_back(&mut self, failed: FailedLink, link: Box<Link>) {
        self.links.push_front((failed, link));
    }

    /// Whether links are left.
    pub(super) fn have_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// Adds a session that we end.
    pub(super) fn push_session(&mut self, channel: u16, failure: Failure) {
        self.sessions.push_back((channel, failure));
    }

    /// Takes out the session that ends next.
    pub(super) fn pop_session(&mut self) -> Option<(u16, Failure)> {
        self.sessions.pop_front()
    }

    /// Puts back a session of which something is left.
    pub(super) fn put_session_back(&mut self, channel: u16, failure: Failure) {
        self.sessions.push_front((channel, failure));
    }

    /// The close is sent when everything has ended.
    pub(super) fn close_at_end(&mut self, failure: Failure) {
        self.close_due = Some(failure);
    }

    /// The error of the close that is due.
    pub(super) fn take_close(&mut self) -> Option<Failure> {
        self.close_due.take()
    }
}
