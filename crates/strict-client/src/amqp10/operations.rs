//! Requests of a client. They are appended to the output at once and may be pipelined; none of them fails: a request
//! that the peer refuses results in a detached link, an ended session or a closed connection.

use leveret_amqp10::performative::{Attach, Begin, Close, Detach, Disposition, End as EndSession, Flow, Transfer};
use leveret_amqp10::sasl::Response;
use leveret_amqp10::{
    DeliveryState, Error, MapRef, Performative, Role, SaslFrame, SenderSettleMode, Serial, Source, Symbol, Target,
    TargetArchetype, encode_empty, encode_performative,
};

use super::client::{Client, ConnectionState};
use super::flow::Granted;
use super::link::{Grants, Link, LinkEnd, LinkState, ReceiverEnd, SenderEnd};
use super::options::SessionOptions;
use super::send::{Frames, Send};
use super::session::{Session, SessionState};

impl Client {
    /// Writes any performative unchanged and counts nothing: for tests that break rules themselves.
    pub fn send_performative(&mut self, channel: u16, performative: &Performative<'_>) {
        encode_performative(&mut self.out, channel, performative);
    }

    /// Writes an empty frame, which keeps an idle connection open.
    pub fn send_empty(&mut self) {
        encode_empty(&mut self.out);
    }

    /// Replies to a challenge.
    pub fn sasl_response(&mut self, response: &[u8]) {
        SaslFrame::Response(Response { response }).encode(&mut self.out);
    }

    /// Closes the connection.
    pub fn close(&mut self, error: Option<Error<'_>>) {
        self.send_performative(0, &Close { error }.into());
        self.state = ConnectionState::Closing;
    }

    /// Begins a session, possibly on a channel that was used before.
    ///
    /// # Panics
    /// If the channel has a session.
    pub fn begin(&mut self, channel: u16, options: SessionOptions) {
        let index = usize::from(channel);
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        let slot = &mut self.sessions[index];
        assert!(slot.as_ref().is_none_or(|old| old.state == SessionState::Ended), "channel {channel} has a session");
        *slot = Some(Box::new(Session::new(channel, options)));
        let begin = Begin {
            next_outgoing_id: options.next_outgoing_id,
            incoming_window: options.incoming_window,
            outgoing_window: options.outgoing_window,
            handle_max: options.handle_max,
            ..Begin::default()
        };
        self.send_performative(channel, &begin.into());
    }

    /// Ends a session.
    pub fn end(&mut self, channel: u16, error: Option<Error<'_>>) {
        self.send_performative(channel, &EndSession { error }.into());
        self.session(channel).state = SessionState::Ending;
    }

    /// True if the session is begun on both sides.
    #[must_use]
    pub fn is_begun(&self, channel: u16) -> bool {
        matches!(self.sessions.get(usize::from(channel)), Some(Some(session)) if session.state == SessionState::Begun)
    }

    /// Attaches a link as a sender or receiver, according to its role. A sender must have an
    /// `initial_delivery_count`.
    ///
    /// # Panics
    /// If the handle is attached, above 65,535, or a sender lacks its count.
    pub fn attach(&mut self, channel: u16, attach: &Attach<'_>) {
        let end = match attach.role {
            Role::Sender => LinkEnd::Sender(SenderEnd {
                delivery_count: Serial(attach.initial_delivery_count.expect("a sender has an initial-delivery-count")),
                credit: 0,
                max_message_size: 0,
                sending: None,
            }),
            Role::Receiver => LinkEnd::Receiver(Box::new(ReceiverEnd {
                delivery_count: Serial(0),
                grants: Grants::new(Serial(0)),
                max_message_size: attach.max_message_size.unwrap_or(0),
                settle_mode: SenderSettleMode::Mixed,
                assembly: None,
                parts: Vec::new(),
                tags: Default::default(),
            })),
        };
        let link = Link {
            name: attach.name.to_owned(),
            handle: attach.handle,
            state: LinkState::Attaching,
            remote_handle: None,
            end,
        };
        let session = self.session(channel);
        let index = usize::from(u16::try_from(attach.handle).expect("handles of this client are small"));
        if session.links.len() <= index {
            session.links.resize_with(index + 1, || None);
        }
        assert!(session.links[index].is_none(), "handle {index} is attached");
        session.links[index] = Some(Box::new(link));
        self.send_performative(channel, &(*attach).into());
    }

    /// Attaches a sender to an address, `None` for the anonymous terminus, with settlement mode mixed.
    pub fn attach_sender(&mut self, channel: u16, handle: u32, name: &str, address: Option<&str>) {
        let target = Target { address, ..Target::default() };
        self.attach(
            channel,
            &Attach {
                name,
                handle,
                role: Role::Sender,
                source: Some(Source::default()),
                target: Some(TargetArchetype::Target(target)),
                initial_delivery_count: Some(0),
                ..Attach::default()
            },
        );
    }

    /// Attaches a receiver to an address; it has no credit yet.
    pub fn attach_receiver(&mut self, channel: u16, handle: u32, name: &str, address: &str, settled: bool) {
        let source = Source { address: Some(address), ..Source::default() };
        self.attach(
            channel,
            &Attach {
                name,
                handle,
                role: Role::Receiver,
                snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
                source: Some(source),
                target: Some(TargetArchetype::Target(Target::default())),
                ..Attach::default()
            },
        );
    }

    /// True if the link is attached on both sides.
    #[must_use]
    pub fn is_attached(&self, channel: u16, handle: u32) -> bool {
        self.find_link(channel, handle).is_some_and(|link| link.state == LinkState::Attached)
    }

    /// Detaches a link, for good if `closed`.
    pub fn detach(&mut self, channel: u16, handle: u32, closed: bool, error: Option<Error<'_>>) {
        self.send_performative(channel, &Detach { handle, closed, error }.into());
        self.session(channel).link(handle).state = LinkState::Detaching { closed };
    }

    /// Grants the peer of a receiver this many deliveries from now on; with `drain` it has to use them up at once.
    pub fn grant(&mut self, channel: u16, handle: u32, credit: u32, drain: bool) {
        self.flow(channel, handle, credit, drain, false);
    }

    /// As [`grant`](Self::grant); `echo` requests a reply.
    pub fn flow(&mut self, channel: u16, handle: u32, credit: u32, drain: bool, echo: bool) {
        let (session, out) = self.session_and_output(channel);
        session.grant(handle, &Granted { credit, drain, echo, properties: None }, out);
    }

    /// As [`grant`](Self::grant), with properties of the flow.
    pub fn grant_with(&mut self, channel: u16, handle: u32, credit: u32, properties: MapRef<'_>) {
        let (session, out) = self.session_and_output(channel);
        session.grant(handle, &Granted { credit, properties: Some(properties), ..Granted::default() }, out);
    }

    /// Sets the number of transfers that the session accepts from now on. A narrower window isn't asserted, because
    /// nothing shows when the peer has seen it.
    pub fn set_window(&mut self, channel: u16, incoming_window: u32, echo: bool) {
        let (session, out) = self.session_and_output(channel);
        session.options.incoming_window = incoming_window;
        session.widen(incoming_window);
        let flow = Flow { echo, ..session.flow() };
        encode_performative(out, channel, &flow.into());
    }

    /// Uses up a sender's credit without messages, as requested by the peer's `drain`.
    pub fn drain_credit(&mut self, channel: u16, handle: u32) {
        let (session, out) = self.session_and_output(channel);
        let LinkEnd::Sender(end) = &mut session.link(handle).end else { panic!("handle {handle} is a receiver's") };
        end.delivery_count = end.delivery_count.add(std::mem::take(&mut end.credit));
        let link = session.links[handle as usize].as_deref().expect("the link was found above");
        let flow = Flow { drain: true, ..session.link_flow(link) };
        encode_performative(out, channel, &flow.into());
    }

    /// Current number of deliveries that a sender may send, or that the peer may send to a receiver.
    #[must_use]
    pub fn credit(&self, channel: u16, handle: u32) -> u32 {
        self.find_link(channel, handle).map_or(0, |link| match &link.end {
            LinkEnd::Sender(end) => end.credit,
            LinkEnd::Receiver(end) => end.grants.credit(end.delivery_count),
        })
    }

    /// Current number of transfers that the session's peer accepts.
    #[must_use]
    pub fn window(&self, channel: u16) -> u32 {
        self.find_session(channel).map_or(0, |session| session.remote_window)
    }

    /// The largest message in bytes that the peer of a sender accepts; 0 for no limit.
    #[must_use]
    pub fn remote_max_message_size(&self, channel: u16, handle: u32) -> u64 {
        match self.find_link(channel, handle).map(|link| &link.end) {
            Some(LinkEnd::Sender(end)) => end.max_message_size,
            _ => 0,
        }
    }

    /// Sends a message. Returns its delivery-id; without link credit or window nothing is sent and `None` returned. A
    /// message larger than a frame, or than the window, is sent in several transfers.
    #[inline]
    pub fn send(
        &mut self,
        channel: u16,
        handle: u32,
        tag: &[u8],
        payload: &[u8],
        options: &Send<'_>,
    ) -> Option<Serial> {
        let size_max = self.remote_max_frame_size;
        let (session, out) = self.session_and_output(channel);
        session.send(handle, tag, payload, options, &mut Frames { out, size_max })
    }

    /// Writes one transfer unchanged, regardless of credit and window, and counts it: for partial and aborted
    /// deliveries, and for tests that break rules themselves. A delivery-id has to be
    /// [`next_delivery_id`](Self::next_delivery_id).
    pub fn transfer(&mut self, channel: u16, transfer: &Transfer<'_>, payload: &[u8]) {
        let (session, out) = self.session_and_output(channel);
        session.transfer(transfer, payload, out);
    }

    /// The delivery-id of the session's next delivery.
    #[must_use]
    pub fn next_delivery_id(&self, channel: u16) -> Serial {
        self.find_session(channel).map_or(Serial(0), |session| session.outgoing.next())
    }

    /// Sends the state of received deliveries, and settles them if `settled`.
    pub fn dispose(
        &mut self,
        channel: u16,
        first: Serial,
        last: Serial,
        settled: bool,
        state: Option<DeliveryState<'_>>,
    ) {
        let (session, out) = self.session_and_output(channel);
        let last_field = (first != last).then_some(last.0);
        let disposition =
            Disposition { role: Role::Receiver, first: first.0, last: last_field, settled, state, batchable: false };
        encode_performative(out, channel, &disposition.into());
        if settled {
            session.settle_incoming(first, last);
        }
    }

    /// Accepts and settles received deliveries.
    pub fn accept(&mut self, channel: u16, first: Serial, last: Serial) {
        self.dispose(channel, first, last, true, Some(DeliveryState::Accepted));
    }

    /// Settles sent deliveries.
    pub fn settle_sent(&mut self, channel: u16, first: Serial, last: Serial, state: Option<DeliveryState<'_>>) {
        let (session, out) = self.session_and_output(channel);
        let last_field = (first != last).then_some(last.0);
        let disposition = Disposition {
            role: Role::Sender,
            first: first.0,
            last: last_field,
            settled: true,
            state,
            batchable: false,
        };
        encode_performative(out, channel, &disposition.into());
        session.outgoing.settle(first, last, |_| {});
    }

    /// Number of unsettled sent deliveries.
    #[must_use]
    pub fn unsettled_sent(&self, channel: u16) -> usize {
        self.find_session(channel).map_or(0, |session| session.outgoing.open())
    }

    /// Number of unsettled received deliveries.
    #[must_use]
    pub fn unsettled_received(&self, channel: u16) -> usize {
        let incoming = self.find_session(channel).and_then(|session| session.incoming.as_ref());
        incoming.map_or(0, |incoming| incoming.open())
    }

    /// Whether a received delivery is unsettled.
    #[must_use]
    pub fn is_unsettled(&self, channel: u16, delivery_id: Serial) -> bool {
        let incoming = self.find_session(channel).and_then(|session| session.incoming.as_ref());
        incoming.is_some_and(|incoming| incoming.slot(delivery_id).is_some())
    }

    /// An error with this condition.
    #[must_use]
    pub fn error<'a>(condition: &'a str, description: &'a str) -> Error<'a> {
        Error::new(Symbol::new(condition), description)
    }

    fn find_session(&self, channel: u16) -> Option<&Session> {
        self.sessions.get(usize::from(channel)).and_then(Option::as_deref)
    }

    fn find_link(&self, channel: u16, handle: u32) -> Option<&Link> {
        self.find_session(channel)?.links.get(handle as usize)?.as_deref()
    }

    fn session(&mut self, channel: u16) -> &mut Session {
        self.session_and_output(channel).0
    }

    #[inline]
    fn session_and_output(&mut self, channel: u16) -> (&mut Session, &mut Vec<u8>) {
        match self.sessions.get_mut(usize::from(channel)) {
            Some(Some(session)) => (session, &mut self.out),
            _ => panic!("channel {channel} has no session"),
        }
    }
}
