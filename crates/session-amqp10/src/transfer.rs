//! `transfer` of a sending client: checked, routed, and collected in the run of its link.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_amqp10::condition;
use leveret_amqp10::performative::Transfer;
use leveret_message::fields_length;
use leveret_message::incoming::{self, Incoming};
use leveret_message::overlay::{Overlay, encode_keys};
use leveret_model::Action;

use super::address;
use super::assembly::{Address, Complete, LargeMessage, Payload};
use super::connection::Connection;
use super::error::{Failure, Result, Scope};
use super::held::InputHold;
use super::link::Link;
use super::on_link::OnLink;
use super::publisher::{Collected, Destination, Publisher};
use super::session::Session;
use super::unconfirmed::{Alike, PublishOutcome};
use leveret_broker::headers::MessageHeaders;
use leveret_broker::route::{self, Route};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

/// A message on its way in, with its address.
struct Arriving<'a> {
    destination: &'a Destination,
    exchange: &'a [u8],
    key: &'a [u8],
    complete: &'a Complete<'a>,
    message: &'a Incoming<'a>,
    /// Generation of the snapshot when the message came: an older route is looked up again.
    generation: u64,
}

impl Connection {
    /// Handles a transfer of the client.
    pub(crate) fn transfer(
        &mut self,
        session: &mut Session,
        transfer: &Transfer<'_>,
        payload: &[u8],
        now: Now,
    ) -> Result<()> {
        let handle = transfer.handle;
        let Some(mut link) = session.take(handle) else {
            return Err(Failure::session(condition::UNATTACHED_HANDLE, format!("Unknown link handle: {handle}")));
        };
        // A request may count, purge or copy what this connection has published.
        if matches!(*link, Link::Requests(_)) && self.awaits_publishes(session, now) {
            session.put(handle, link);
            return Ok(());
        }
        match session.window.received_transfer() {
            Ok(is_due) => session.owe_flow(is_due),
            Err(failure) => {
                session.put(handle, link);
                return Err(failure);
            }
        }
        let result = match &mut *link {
            Link::Publisher(publisher) => self.receive_transfer(session, publisher, transfer, payload, now),
            Link::Coordinator(coordinator) => {
                self.receive_transaction_request(session, coordinator, transfer, payload, now)
            }
            Link::Requests(requests) => self.receive_request(session, requests, transfer, payload, now),
            Link::Consumer(_) | Link::Replies(_) | Link::Responses(_) => Err(Failure::session(
                condition::UNATTACHED_HANDLE,
                format!("Unknown link handle: {handle} is one on which the client receives"),
            )),
            Link::Left | Link::Detached => Ok(()),
        };
        session.put(handle, link);
        result
    }

    fn receive_transfer(
        &mut self,
        session: &mut Session,
        publisher: &mut Publisher,
        transfer: &Transfer<'_>,
        payload: &[u8],
        now: Now,
    ) -> Result<()> {
        if !self.receive_plain(session, publisher, transfer, payload, now)? {
            self.receive_any(session, publisher, transfer, payload, now)?;
        }
        publisher.top_up(now.monotonic, self.client.broker.commit.sync_time());
        if publisher.is_flow_due() {
            session.note_granted(transfer.handle);
        }
        Ok(())
    }

    /// Handles any transfer. It is separate from what most messages need, so that their path is shorter.
    #[inline(never)]
    fn receive_any(
        &mut self,
        session: &mut Session,
        publisher: &mut Publisher,
        transfer: &Transfer<'_>,
        payload: &[u8],
        now: Now,
    ) -> Result<()> {
        if self.client.identity.asked().is_some()
            && !transfer.more
            && self.lacks_answer_to_publish(publisher, payload)
            && self.client.parks(now)
        {
            session.window.take_back_transfer();
            return Ok(());
        }
        if !transfer.more
            && matches!(publisher.destination(), Destination::Anonymous)
            && self.client.may_be_behind()
            && self.lacks_exchange(publisher, payload)
            && self.client.catches_up(now)
        {
            session.window.take_back_transfer();
            return Ok(());
        }
        let size_max = self.client.broker.settings.max_message_size;
        let Some(mut complete) = publisher.receive(transfer, payload, size_max)? else {
            return self.begin_large(publisher);
        };
        // The destination is read while the publisher's run changes.
        let destination = publisher.take_destination();
        let mut on = OnLink { session, handle: transfer.handle, link: publisher };
        let published = self.publish(&mut on, &destination, &mut complete, now);
        publisher.put_destination(destination);
        published
    }

    /// Whether a backend has to answer before the message that this transfer completes is granted or refused. Nothing of the transfer may
    /// have been taken in.
    #[cold]
    fn lacks_answer_to_publish(&self, publisher: &Publisher, payload: &[u8]) -> bool {
        let Some(earlier) = publisher.assembly().gathered() else { return false };
        let whole = [earlier, payload].concat();
        let Ok(message) = incoming::amqp10(&whole) else { return false };
        let Ok((exchange, key)) = address_of(publisher.destination(), &message) else { return false };
        let publishes = |routing_key| Action::PublishWith { exchange: &exchange, routing_key };
        let mut keys = std::iter::once(key.as_bytes()).chain(message.further_keys());
        keys.any(|key| self.client.lacks_answer(publishes(key)))
    }

    /// Starts to write a large durable message to its file as it comes, if it only goes to durable queues; it is routed
    /// now. It stays in memory until it is complete if a queue keeps it in memory anyway, if its publisher made an
    /// error, or if too little of it is known yet.
    fn begin_large(&mut self, publisher: &mut Publisher) -> Result<()> {
        let from = self.client.broker.settings.body_file_from;
        let (destination, assembly) = publisher.assembling();
        let Some(payload) = assembly.large(from) else { return Ok(()) };
        let Ok(Some((message, body))) = incoming::amqp10_start(payload) else { return Ok(()) };
        if !message.durable || message.user_id.is_some_and(|user| user != self.client.identity.name().as_bytes()) {
            return Ok(());
        }
        let Ok((exchange, key)) = address_of(destination, &message) else { return Ok(()) };
        let Ok(route) = self.route(exchange.as_bytes(), key.as_bytes(), &message) else { return Ok(()) };
        if !route.streams(&self.client.broker.shared, true, payload.len())
            || route.check(|| MessageHeaders(message.headers)).is_err()
        {
            return Ok(());
        }
        let address = Address { exchange: exchange.as_ref().into(), key: key.as_ref().into(), route };
        let file = self.client.broker.bodies.begin(&self.client.unwritten, &self.client.outbox);
        let bare = payload.len() - message.body_length();
        let large = LargeMessage::begin(payload, (bare, body), address, file, &self.client.partial)?;
        assembly.goes_to_file(large);
        Ok(())
    }

    /// Whether this node doesn't know the exchange to which the message goes that this transfer completes. Nothing of the transfer may have
    /// been taken in.
    #[cold]
    fn lacks_exchange(&self, publisher: &Publisher, payload: &[u8]) -> bool {
        let Some(earlier) = publisher.assembly().gathered() else { return false };
        let whole = if earlier.is_empty() { payload.into() } else { Cow::from([earlier, payload].concat()) };
        let Ok(message) = incoming::amqp10(&whole) else { return false };
        let Ok((exchange, _)) = address_of(publisher.destination(), &message) else { return false };
        self.client.lacks_exchange(exchange.as_bytes())
    }

    /// Handles a complete message.
    fn publish(
        &mut self,
        on: &mut OnLink<'_, Publisher>,
        destination: &Destination,
        complete: &mut Complete<'_>,
        now: Now,
    ) -> Result<()> {
        on.link.received(complete.size as u64);
        if let Payload::Large(_) = complete.payload {
            return self.publish_large(on, complete, now);
        }
        let bytes = complete.payload.bytes();
        self.client.counters.published(bytes.len() as u64);
        self.publishing.begin();
        let message = incoming::amqp10(bytes).map_err(|error| Failure::link(error.condition(), error.to_string()))?;
        if let Some(user) = message.user_id {
            self.check_user_id(user)?;
        }
        let (exchange, key) = match address_of(destination, &message) {
            Ok(found) => found,
            Err(failure) if matches!(destination, Destination::Anonymous) => {
                return self.misaddressed(on, complete, failure, now);
            }
            Err(failure) => return Err(failure),
        };
        let (exchange, key) = (exchange.as_bytes(), key.as_bytes());
        let generation = self.client.broker.registry.generation();
        let goes_on = complete.transaction.is_none() && on.link.run().goes_on_with(&message, generation);
        if !goes_on {
            let arriving = Arriving { destination, exchange, key, complete, message: &message, generation };
            if !self.turn_to(on, &arriving, now)? {
                return Ok(());
            }
        }
        let Some(route) = on.link.run().route() else { return Ok(()) };
        let to_file = route.wants_file(&self.client.broker.shared, message.durable, bytes.len());
        if to_file {
            self.flush_run(on.session, on.handle, on.link, now);
        }
        if on.link.run().is_empty() {
            self.publishing.collect(on.session.channel(), on.handle);
        }
        let overlay = self.overlay_of(&message, now);
        let stored = message.stored(exchange, key, now.wall_ms, Overlay::new(&overlay));
        let collected = Collected { id: complete.id, settled: complete.settled };
        if to_file && stored.body.len() >= leveret_message::batch::INLINE_BELOW {
            let body = bytes::Bytes::copy_from_slice(stored.body);
            let file = self.client.broker.bodies.write(&body, &self.client.outbox);
            let route = on.link.run().route();
            match route.is_some_and(|route| route.streams(&self.client.broker.shared, true, body.len())) {
                true => {
                    // A slice would keep the whole body in memory.
                    let fields = fields_length(stored.body).map_or(&[][..], |length| &stored.body[..length]);
                    let fields = bytes::Bytes::copy_from_slice(fields);
                    on.link.run_mut().push_file(collected, &stored, fields, file);
                }
                false => on.link.run_mut().push_large(collected, &stored, body, file),
            }
            self.held = InputHold::Body { channel: on.session.channel(), handle: on.handle };
        } else {
            on.link.run_mut().push(collected, &stored);
        }
        if on.link.run().is_full() {
            self.flush_run_in_parts(on.session, on.handle, on.link, now);
        }
        Ok(())
    }

    /// Finds the way of a message that doesn't simply follow the one before it, and makes the link's run take it. False
    /// if the message is finished by that: it was refused, reached no queue, or waits in its transaction.
    fn turn_to(&mut self, on: &mut OnLink<'_, Publisher>, arriving: &Arriving<'_>, now: Now) -> Result<bool> {
        let Arriving { destination, exchange, key, complete, message, generation } = *arriving;
        let route = match self.route(exchange, key, message) {
            Ok(route) => route,
            Err(failure) if matches!(destination, Destination::Anonymous) && !self.ends_session(exchange) => {
                self.misaddressed(on, complete, failure, now)?;
                return Ok(false);
            }
            Err(failure) => {
                if !complete.settled && !self.ends_session(exchange) {
                    self.send_outcome(on.session.channel(), complete.id, complete.id, &PublishOutcome::Released);
                }
                return Err(failure);
            }
        };
        if let Err(refused) = route.check(|| MessageHeaders(message.headers)) {
            self.misaddressed(on, complete, refused.into(), now)?;
            return Ok(false);
        }
        if let Some(transaction) = &complete.transaction {
            self.flush_run(on.session, on.handle, on.link, now);
            let overlay = self.overlay_of(message, now);
            let stored = message.stored(exchange, key, now.wall_ms, Overlay::new(&overlay));
            let id = (complete.id, complete.settled);
            self.client.trace_single(on.session.channel(), &route, &stored, now);
            self.publish_in_transaction(on.session.channel(), transaction, id, &route, &stored)?;
            return Ok(false);
        }
        if route.is_unroutable() {
            route.count_unroutable(!complete.settled, now.monotonic);
            if self.client.shows_unroutable(&route) {
                let overlay = self.overlay_of(message, now);
                let stored = message.stored(exchange, key, now.wall_ms, Overlay::new(&overlay));
                self.client.trace_single(on.session.channel(), &route, &stored, now);
            }
            if complete.settled {
                self.client.counters.unroutable_dropped.add(1);
            } else {
                self.client.counters.unroutable_returned.add(1);
            }
            // Earlier messages keep their place in the order of outcomes.
            self.flush_run(on.session, on.handle, on.link, now);
            let (id, settled) = (complete.id, complete.settled);
            on.link.add_outcome(Alike::one(id, settled), WaitFor::default(), &PublishOutcome::Released, now.monotonic);
            on.session.note_confirming(on.handle);
            return Ok(false);
        }
        if !on.link.run().is_of(&route, message.durable) {
            self.flush_run(on.session, on.handle, on.link, now);
        }
        let leads_on =
            destination.fixed().is_some() && !message.has_further_keys() && route.leads_on(!message.headers.is_empty());
        on.link.run_mut().turn_to(route, if leads_on { generation } else { 0 }, message.durable);
        Ok(true)
    }

    /// Handles a large message whose body is on its way to its file.
    fn publish_large(&mut self, on: &mut OnLink<'_, Publisher>, complete: &mut Complete<'_>, now: Now) -> Result<()> {
        let Payload::Large(large) = std::mem::replace(&mut complete.payload, Payload::Slice(&[])) else {
            return Ok(());
        };
        let LargeMessage { start, address, file, .. } = *large;
        let Address { exchange, key, route } = address;
        self.client.counters.published(complete.size as u64);
        self.publishing.begin();
        let message =
            incoming::amqp10_sections(&start).map_err(|error| Failure::link(error.condition(), error.to_string()))?;
        self.flush_run(on.session, on.handle, on.link, now);
        on.link.run_mut().turn_to(route, 0, true);
        self.publishing.collect(on.session.channel(), on.handle);
        let overlay = self.overlay_of(&message, now);
        let stored = message.stored(exchange.as_bytes(), key.as_bytes(), now.wall_ms, Overlay::new(&overlay));
        let fields = bytes::Bytes::copy_from_slice(stored.body);
        let collected = Collected { id: complete.id, settled: complete.settled };
        on.link.run_mut().push_file(collected, &stored, fields, file);
        self.held = InputHold::Body { channel: on.session.channel(), handle: on.handle };
        Ok(())
    }

    /// The data that is stored beside the publisher's bytes.
    #[inline]
    fn overlay_of(&self, message: &Incoming<'_>, now: Now) -> Vec<u8> {
        let mut overlay = Vec::new();
        if message.has_further_keys() {
            encode_keys(&mut overlay, message.further_keys(), []);
        }
        if let Some(stamps) = &self.client.broker.settings.stamps {
            stamps.encode_amqp10(message, now.wall_ms, &mut overlay);
        }
        overlay
    }

    fn route(&mut self, exchange: &[u8], key: &[u8], message: &Incoming<'_>) -> Result<Arc<Route>> {
        let publisher = route::Publisher { who: &self.client.identity, vhost: &self.client.vhost, client_id: None };
        let snapshot = self.client.broker.registry.snapshot();
        let headers = MessageHeaders(message.headers);
        let mut further = message.further_keys().peekable();
        if further.peek().is_none() {
            return Ok(self.client.routes.find(&snapshot, &publisher, exchange, key, &headers)?);
        }
        let mut keys = vec![key];
        keys.extend(further);
        Ok(route::extended(&snapshot, &publisher, exchange, &keys, &headers)?)
    }

    /// Handles a message that can't be routed because of what it says, such as one without a destination on an anonymous terminus. It is
    /// rejected; if the client settled it, so that it would never know, the link ends instead (anonymous terminus, 2.2.2).
    fn misaddressed(
        &mut self,
        on: &mut OnLink<'_, Publisher>,
        complete: &Complete<'_>,
        mut failure: Failure,
        now: Now,
    ) -> Result<()> {
        if failure.scope != Scope::Link {
            return Err(failure);
        }
        if complete.settled {
            failure.delivery_tag = Some(complete.tag.to_vec());
            return Err(failure);
        }
        self.flush_run(on.session, on.handle, on.link, now);
        let outcome = PublishOutcome::Unroutable(Arc::new(failure));
        on.link.add_outcome(Alike::one(complete.id, false), WaitFor::default(), &outcome, now.monotonic);
        on.session.note_confirming(on.handle);
        Ok(())
    }

    /// Whether a message for this exchange ends the session, as RabbitMQ 4.3 does if its user may not publish there.
    fn ends_session(&self, exchange: &[u8]) -> bool {
        let exchange = str::from_utf8(exchange).unwrap_or_default();
        self.client.broker.settings.strict_compat && self.authorize(Action::Publish(exchange)).is_err()
    }

    fn check_user_id(&self, claimed: &[u8]) -> Result<()> {
        let checked = self.client.broker.check_user_id(&self.client.identity, claimed);
        checked.map_err(|text| Failure::link(condition::UNAUTHORIZED_ACCESS, text))
    }
}

/// The exchange and routing key of a message.
fn address_of<'a>(destination: &'a Destination, message: &Incoming<'a>) -> Result<(Cow<'a, str>, Cow<'a, str>)> {
    match destination {
        Destination::Exchange { exchange, key: Some(key) } => Ok((Cow::Borrowed(exchange), Cow::Borrowed(key))),
        Destination::Exchange { exchange, key: None } => {
            let subject = message.subject.unwrap_or_default();
            if !address::is_routing_key(subject) {
                let text = format!("subject of {} bytes is too long for a routing key", subject.len());
                return Err(Failure::link(condition::INVALID_FIELD, text));
            }
            Ok((Cow::Borrowed(exchange), Cow::Borrowed(subject)))
        }
        Destination::Queue(queue) => Ok((Cow::Borrowed(""), Cow::Borrowed(&queue.info().name))),
        Destination::Anonymous => {
            let failed = |text| Failure::link(condition::PRECONDITION_FAILED, text);
            let Some(to) = message.to else {
                return Err(failed("anonymous terminus requires 'to' address to be set".to_owned()));
            };
            match address::to_field(to) {
                Some(address::Target::Exchange { exchange, key }) => {
                    Ok((Cow::Owned(exchange.to_string()), Cow::Owned(key.to_string())))
                }
                Some(address::Target::Queue(queue)) => Ok((Cow::Borrowed(""), Cow::Owned(queue.to_string()))),
                _ => Err(failed(format!("bad 'to' address string: {to}"))),
            }
        }
    }
}
