//! A session on the client's side: windows, links, deliveries in both directions.

use std::collections::VecDeque;

use leveret_amqp10::performative::{Begin, End, Flow};
use leveret_amqp10::{Role, Serial, encode_performative};

use super::event::Event;
use super::link::{Link, LinkEnd, Tag};
use super::options::SessionOptions;
use super::send::Pending;
use super::window::Window;
use crate::{Rule, Violation};

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// `begin` was sent.
    Beginning,
    Begun,
    /// `end` was sent; frames in flight from the peer may still arrive.
    Ending,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// The client's channel.
    pub(crate) channel: u16,
    pub(crate) state: SessionState,
    pub(crate) options: SessionOptions,
    /// The peer's channel, once its `begin` arrived.
    remote_channel: Option<u16>,
    pub(crate) remote_handle_max: u32,

    /// The transfer-id of the peer's next transfer.
    pub(crate) next_incoming_id: Serial,
    /// The first transfer-id beyond every window announced so far: a narrower window only counts once the peer has
    /// seen it, which nothing shows.
    pub(crate) incoming_edge: Serial,
    /// The window that the client currently announces.
    pub(crate) incoming_window: u32,
    /// The delivery-id that the peer's next delivery must have, and its open deliveries.
    pub(crate) incoming: Option<Window<Tag>>,

    /// The transfer-id of the client's next transfer.
    pub(crate) next_outgoing_id: Serial,
    /// The last next-incoming-id reported by the peer.
    pub(crate) seen_by_peer: Serial,
    /// Number of transfers that the peer accepts.
    pub(crate) remote_window: u32,
    pub(crate) outgoing: Window<()>,
    pub(crate) pending: VecDeque<Pending>,

    /// Links by the client's handle.
    pub(crate) links: Vec<Option<Box<Link>>>,
    /// The peer's handles and the client's.
    pub(crate) by_remote: Vec<(u32, u32)>,
}

/// The parts of the client that a session uses.
pub(crate) struct Surroundings<'c> {
    pub(crate) out: &'c mut Vec<u8>,
    pub(crate) events: &'c mut Vec<Event>,
    pub(crate) arena: &'c mut Vec<u8>,
    /// The largest frame that the peer accepts, in bytes.
    pub(crate) max_frame_size: u32,
}

impl Session {
    pub(crate) fn new(channel: u16, options: SessionOptions) -> Self {
        let first = Serial(options.next_outgoing_id);
        Self {
            channel,
            state: SessionState::Beginning,
            options,
            remote_channel: None,
            remote_handle_max: u32::MAX,
            next_incoming_id: Serial(0),
            incoming_edge: Serial(0),
            incoming_window: options.incoming_window,
            incoming: None,
            next_outgoing_id: first,
            seen_by_peer: first,
            remote_window: 0,
            outgoing: Window::new(first),
            pending: VecDeque::new(),
            links: Vec::new(),
            by_remote: Vec::new(),
        }
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.remote_channel.is_some()
    }

    pub(crate) fn on_begin(&mut self, channel: u16, begin: &Begin<'_>) {
        self.remote_channel = Some(channel);
        self.remote_handle_max = begin.handle_max;
        self.next_incoming_id = Serial(begin.next_outgoing_id);
        self.incoming_edge = self.next_incoming_id.add(self.incoming_window);
        self.remote_window = begin.incoming_window;
        if self.state == SessionState::Beginning {
            self.state = SessionState::Begun;
        }
    }

    pub(crate) fn on_end(&mut self, end: &End<'_>, around: &mut Surroundings<'_>) {
        let by_peer = self.state != SessionState::Ending;
        if by_peer {
            encode_performative(around.out, self.channel, &End::default().into());
        }
        self.state = SessionState::Ended;
        self.links.clear();
        self.by_remote.clear();
        self.pending.clear();
        around.events.push(Event::Ended { channel: self.channel, error: end.error.map(Into::into), by_peer });
    }

    /// The link with this handle of the client.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn link(&mut self, handle: u32) -> &mut Link {
        match self.links.get_mut(handle as usize) {
            Some(Some(link)) => link,
            _ => panic!("handle {handle} is not attached"),
        }
    }

    /// The link with this handle of the peer.
    #[inline]
    pub(crate) fn link_of_peer(&mut self, handle: u32, name: &str) -> Result<&mut Link, Violation> {
        let ours = self.by_remote.iter().find(|(remote, _)| *remote == handle).map(|(_, ours)| *ours);
        match ours {
            Some(ours) if matches!(self.links.get(ours as usize), Some(Some(_))) => Ok(self.link(ours)),
            _ => Err(self.refuse(Rule::HandleAttached, format!("{name} for handle {handle}, which is not attached"))),
        }
    }

    /// The session's fields of a `flow`.
    pub(crate) fn flow(&self) -> Flow<'static> {
        Flow {
            next_incoming_id: self.is_begun().then_some(self.next_incoming_id.0),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id.0,
            outgoing_window: self.options.outgoing_window,
            ..Flow::default()
        }
    }

    /// A `flow` for a link.
    pub(crate) fn link_flow(&self, link: &Link) -> Flow<'static> {
        let mut flow = Flow { handle: Some(link.handle), ..self.flow() };
        match &link.end {
            LinkEnd::Sender(end) => {
                flow.delivery_count = Some(end.delivery_count.0);
                flow.link_credit = Some(end.credit);
            }
            LinkEnd::Receiver(end) => {
                let grant = end.grants.newest();
                flow.delivery_count = link.remote_handle.map(|_| end.delivery_count.0);
                flow.link_credit = Some(grant.limit.distance_from(end.delivery_count).max(0) as u32);
                flow.drain = grant.drain;
            }
        }
        flow
    }

    /// Restores the window's size from now on, without notifying the peer yet.
    pub(crate) fn widen(&mut self, window: u32) {
        self.incoming_window = window;
        let edge = self.next_incoming_id.add(window);
        if edge.distance_from(self.incoming_edge) > 0 {
            self.incoming_edge = edge;
        }
    }

    pub(crate) fn refuse(&self, rule: Rule, text: impl std::fmt::Display) -> Violation {
        Violation::new(rule, format!("channel {}: {text}", self.channel))
    }
}

/// The role of a link's end.
pub(crate) fn role(end: &LinkEnd) -> Role {
    match end {
        LinkEnd::Sender(_) => Role::Sender,
        LinkEnd::Receiver(_) => Role::Receiver,
    }
}
