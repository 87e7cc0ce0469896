//! A session: its windows, its links by handle, and its outgoing frames (specification 2.5).

use leveret_amqp10::{Role, Serial};
use thin_vec::ThinVec;

use super::link::Link;
use super::pairs::PairName;
use super::pending::PendingQueue;
use super::unsettled::Unsettled;
use super::window::Window;

/// The state of a session. A connection may have tens of thousands without links: an empty list takes one pointer.
pub(crate) struct Session {
    channel: u16,
    pub window: Window,
    /// Largest handle that the client may use.
    handle_max: u32,
    /// The id of the next delivery to the client.
    next_delivery_id: Serial,
    links: ThinVec<Option<Box<Link>>>,
    /// Deliveries to the client that it hasn't settled.
    pub unsettled: Unsettled,
    /// Entries that wait, in order, for the client's window.
    pub pending: PendingQueue,
    /// Handles of consumers that wait for the client's window.
    parked: ThinVec<u32>,
    /// Handles of publishers with messages that wait for their outcome.
    confirming: ThinVec<u32>,
    /// Handles of publishers whose client may have to be sent a flow with its credit.
    granted: ThinVec<u32>,
    /// The client asked for the state of the session, which a flow of a link doesn't answer.
    echo_due: bool,
    /// The client has to be sent a flow with our window.
    flow_due: bool,
    /// We ended it and ignore everything until the client ends it, too.
    ending: bool,
    /// Everything that it owns is being ended.
    leaving: bool,
    /// Everything that it owned has ended.
    left: bool,
    /// It is in the connection's list of sessions with work.
    listed: bool,
}

impl Session {
    /// A session that begins.
    pub(crate) fn new(channel: u16, window: Window, handle_max: u32) -> Self {
        Self {
            channel,
            window,
            handle_max,
            next_delivery_id: Serial(0),
            links: ThinVec::new(),
            unsettled: Unsettled::default(),
            pending: PendingQueue::default(),
            parked: ThinVec::new(),
            confirming: ThinVec::new(),
            granted: ThinVec::new(),
            echo_due: false,
            flow_due: false,
            ending: false,
            leaving: false,
            left: false,
            listed: false,
        }
    }

    #[inline]
    pub(crate) fn channel(&self) -> u16 {
        self.channel
    }

    /// Largest handle that the client may use.
    pub(crate) fn handle_max(&self) -> u32 {
        self.handle_max
    }

    /// The id of the next delivery to the client.
    #[inline]
    pub(crate) fn next_delivery_id(&self) -> Serial {
        self.next_delivery_id
    }

    /// Takes the id of the next delivery to the client.
    #[inline]
    pub(crate) fn use_delivery_id(&mut self) -> Serial {
        self.next_delivery_id.advance()
    }

    /// A consumer waits for the client's window.
    pub(crate) fn park(&mut self, handle: u32) {
        self.parked.push(handle);
    }

    /// Number of consumers that wait for the client's window.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Takes the first ones of these.
    pub(crate) fn take_parked(&mut self, count: usize) -> ThinVec<u32> {
        let rest = self.parked.split_off(count);
        std::mem::replace(&mut self.parked, rest)
    }

    /// A consumer is gone.
    pub(crate) fn forget_parked(&mut self, handle: u32) {
        self.parked.retain(|other| *other != handle);
    }

    /// A publisher's client may have to be sent a flow with its credit.
    pub(crate) fn note_granted(&mut self, handle: u32) {
        self.granted.push(handle);
    }

    pub(crate) fn take_granted(&mut self) -> ThinVec<u32> {
        std::mem::take(&mut self.granted)
    }

    /// Whether publishers wait for outcomes.
    pub(crate) fn is_confirming(&self) -> bool {
        !self.confirming.is_empty()
    }

    pub(crate) fn take_confirming(&mut self) -> ThinVec<u32> {
        std::mem::take(&mut self.confirming)
    }

    /// A publisher is gone.
    pub(crate) fn forget_confirming(&mut self, handle: u32) {
        self.confirming.retain(|other| *other != handle);
    }

    /// The client may have asked for the state of the session.
    pub(crate) fn echo(&mut self, is_asked: bool) {
        self.echo_due |= is_asked;
    }

    /// The client may have to be sent a flow with our window.
    pub(crate) fn owe_flow(&mut self, is_due: bool) {
        self.flow_due |= is_due;
    }

    /// A flow of a link told the client our window.
    pub(crate) fn window_told(&mut self) {
        self.flow_due = false;
    }

    /// Whether the client has to be sent a flow of the session.
    pub(crate) fn take_flow(&mut self) -> bool {
        std::mem::take(&mut self.flow_due) | std::mem::take(&mut self.echo_due)
    }

    /// Whether we ended it: everything is ignored until the client ends it, too.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    pub(crate) fn end(&mut self) {
        self.ending = true;
    }

    /// Whether everything that it owns is being ended.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Everything that it owns is being ended, and no consumer waits any more. False if that has begun before.
    pub(crate) fn begin_leaving(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.leaving, true);
        if is_first {
            self.parked.clear();
        }
        is_first
    }

    /// Whether everything that it owned has ended.
    pub(crate) fn has_left(&self) -> bool {
        self.left
    }

    pub(crate) fn set_left(&mut self) {
        self.left = true;
    }

    /// Whether it is in the connection's list of sessions with work.
    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(crate) fn set_listed(&mut self, is_listed: bool) {
        self.listed = is_listed;
    }

    /// Takes a link out while its frames are handled; [`Session::put`] puts it back.
    pub(crate) fn take(&mut self, handle: u32) -> Option<Box<Link>> {
        self.links.get_mut(handle as usize)?.take()
    }

    /// Puts a link in its place. The caller has checked the handle against [`Session::handle_max`].
    #[inline]
    pub(crate) fn put(&mut self, handle: u32, link: Box<Link>) {
        match self.links.get_mut(handle as usize) {
            Some(slot @ None) => *slot = Some(link),
            _ => self.put_anew(handle, link),
        }
    }

    #[inline(never)]
    fn put_anew(&mut self, handle: u32, link: Box<Link>) {
        let at = handle as usize;
        if at >= self.links.len() {
            self.links.extend((self.links.len()..=at).map(|_| None));
        }
        self.links[at] = Some(link);
    }

    /// The link with this handle.
    pub(crate) fn link(&mut self, handle: u32) -> Option<&mut Link> {
        self.links.get_mut(handle as usize)?.as_deref_mut()
    }

    /// The link with this handle, to be looked at.
    pub(crate) fn look(&self, handle: u32) -> Option<&Link> {
        self.links.get(handle as usize)?.as_deref()
    }

    /// True when the handle is in use.
    pub(crate) fn is_attached(&self, handle: u32) -> bool {
        self.links.get(handle as usize).is_some_and(Option::is_some)
    }

    /// Whether a link of it receives from a quorum queue.
    pub(crate) fn receives_from_quorum_queues(&self) -> bool {
        let consumers = self.links.iter().flatten().filter_map(|link| match &**link {
            Link::Consumer(consumer) => Some(consumer),
            _ => None,
        });
        consumers.into_iter().any(|consumer| consumer.queue().is_quorum())
    }

    /// The handles in use, ascending.
    pub(crate) fn handles(&self) -> Vec<u32> {
        (0..self.links.len() as u32).filter(|handle| self.is_attached(*handle)).collect()
    }

    /// Removes the link with the highest handle.
    pub(crate) fn pop(&mut self) -> Option<(u32, Box<Link>)> {
        loop {
            if let Some(link) = self.links.pop()? {
                return Some((self.links.len() as u32, link));
            }
        }
    }

    /// All links.
    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten().map(|link| &**link)
    }

    /// All links with their handles, ascending.
    pub(crate) fn attached(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter().enumerate().filter_map(|(handle, link)| Some((handle as u32, &**link.as_ref()?)))
    }

    /// Whether a turn has to check it, since something waits for the client's window, an outcome or a flow.
    pub(crate) fn has_work(&self) -> bool {
        let is_idle = self.pending.is_empty() && self.confirming.is_empty() && self.granted.is_empty();
        !is_idle || self.flow_due || self.echo_due
    }

    /// Notes that a publisher waits for outcomes.
    pub(crate) fn note_confirming(&mut self, handle: u32) {
        if !self.confirming.contains(&handle) {
            self.confirming.push(handle);
        }
    }

    /// The handle of the half of this pair on which the client is `role`.
    pub(super) fn half(&mut self, pair: &PairName, role: Role) -> Option<u32> {
        self.handles().into_iter().find(|handle| self.link(*handle).and_then(|link| link.pair()) == Some((pair, role)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_192_bytes_at_most() {
        // The allocator's next size is 224: a second session would then take over 5 % more of an idle connection.
        assert!(size_of::<Session>() <= 192, "{} bytes", size_of::<Session>());
    }
}
