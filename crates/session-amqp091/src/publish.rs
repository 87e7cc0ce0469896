//! `basic.publish`: collecting messages of the same route into runs, and handing runs to queues.
//!
//! A run ends when the queues change, the read's frames are used up, or another method comes. A client's later methods
//! therefore see all of its earlier publishes.

use bytes::Bytes;
use leveret_amqp091::{
    ContentHeader, HEADER_OVERHEAD, Method, Properties, ReplyCode, delivery_mode, encode_content_body, encode_header,
    encode_method, headers, method::basic, priority,
};
use leveret_message::headers::{Headers, PropertiesAt};
use leveret_message::incoming::{FurtherKeys, without_blind_copies};
use leveret_message::overlay::{Overlay, encode_keys};
use leveret_message::{Batch, Encoding, Envelope, StoredMessage};
use leveret_model::Action;
use smallvec::SmallVec;

use super::content::{Body, Incoming, Publish, Received, Whole, WholeBody};
use super::encode::{CLASS_BASIC, short};
use super::error::{ProtocolError, Result, not_implemented, precondition, unanswered};
use super::held::InputHold;
use super::run::{Arriving, BodyRef, DELIVERY_MODE_PERSISTENT, LateReturn, Prepared, Returned, RunOnItsWay, TakenRun};
use super::session::{Phase, Session};
use super::unfinished::Unfinished;
use leveret_broker::expiration::time_to_live_ms;
use leveret_broker::headers::MessageHeaders;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::{self, Publisher};
use leveret_broker::stats::Stat;
use leveret_broker::time::Now;
use leveret_broker::wait_for::{WaitEnd, WaitFor};
use leveret_session::client_connection::WAIT_SHOWN_MAX;
use leveret_session::fan_out::{FanOut, FannedOut};

/// Property flags (4.2.6.1): bit 15 is content-type.
const FLAG_USER_ID: u16 = 1 << 4;
const FLAG_EXPIRATION: u16 = 1 << 8;
const FLAG_REPLY_TO: u16 = 1 << 9;
const FLAG_HEADERS: u16 = 1 << 13;

impl Session {
    /// Begins a publish; its header and body follow in frames of their own.
    pub(crate) fn begin_publish(&mut self, channel: u16, publish: &basic::Publish<'_>, now: Now) -> Result<()> {
        if publish.immediate {
            return Err(not_implemented("immediate=true"));
        }
        self.await_grants(publish.exchange.as_bytes(), [publish.routing_key.as_bytes()])?;
        // Another node may have said that the exchange exists. Once the content is complete its frames can't be taken again.
        if self.client.lacks_exchange(publish.exchange.as_bytes()) && self.client.catches_up(now) {
            return Err(unanswered());
        }
        let incoming = Publish {
            exchange: publish.exchange.as_bytes().into(),
            routing_key: publish.routing_key.as_bytes().into(),
            mandatory: publish.mandatory,
        };
        *self.channel(channel)?.incoming_mut() = Incoming::Header(incoming);
        Ok(())
    }

    /// Checks a content header against the limits.
    pub(crate) fn check_header(&self, header: &ContentHeader<'_>) -> Result<()> {
        if header.class_id != CLASS_BASIC {
            let text = format!("content header of class {}, expected {CLASS_BASIC} (basic)", header.class_id);
            return Err(ProtocolError::new(ReplyCode::UnexpectedFrame, text));
        }
        let limit = self.client.broker.settings.max_message_size;
        if header.body_size > limit {
            return Err(precondition(format!(
                "message size {} is larger than configured max size {limit}",
                header.body_size
            )));
        }
        Ok(())
    }

    /// Handles a content header on `channel`.
    pub(crate) fn content_header(&mut self, channel: u16, payload: &[u8], now: Now) -> Result<()> {
        if self.client.identity.asked().is_some() {
            self.await_grants_of_keys(channel, payload)?;
        }
        let incoming = std::mem::take(self.channel(channel)?.incoming_mut());
        let Incoming::Header(publish) = incoming else {
            return Err(unexpected("content header", "a method"));
        };
        let header = ContentHeader::decode(payload)?;
        self.check_header(&header)?;
        if header.body_size == 0 {
            return self.publish(&publish.arriving(channel, header.properties), BodyRef::Slice(b""), now);
        }
        let body = self.begin_body(channel, &publish, &header, now)?;
        *self.channel(channel)?.incoming_mut() = Incoming::Body(publish, body);
        Ok(())
    }

    /// Refuses a frame of a message for which a backend has to answer first, before anything of it is kept: the frame is taken again.
    fn await_grants<'k>(&self, exchange: &[u8], keys: impl IntoIterator<Item = &'k [u8]>) -> Result<()> {
        if self.client.identity.asked().is_none() {
            return Ok(());
        }
        let exchange = &*String::from_utf8_lossy(exchange);
        let publishes = |routing_key| Action::PublishWith { exchange, routing_key };
        match keys.into_iter().any(|key| self.client.lacks_answer(publishes(key))) {
            true => Err(unanswered()),
            false => Ok(()),
        }
    }

    /// The same for the further keys in a content header.
    #[cold]
    fn await_grants_of_keys(&mut self, channel: u16, payload: &[u8]) -> Result<()> {
        let header = ContentHeader::decode(payload)?;
        let Some(further) = headers(header.properties).map(FurtherKeys::of).transpose().ok().flatten().flatten() else {
            return Ok(());
        };
        let Incoming::Header(publish) = self.channel(channel)?.incoming() else { return Ok(()) };
        let exchange = publish.exchange.clone();
        self.await_grants(&exchange, further.seen.into_iter().chain(further.blind))
    }

    /// Handles a content body on `channel`.
    pub(crate) fn content_body(&mut self, channel: u16, payload: &[u8], now: Now) -> Result<()> {
        let partial = self.client.partial.clone();
        let incoming = self.channel(channel)?.incoming_mut();
        let Incoming::Body(_, body) = incoming else {
            return Err(unexpected("content body", "a method or content header"));
        };
        if !body.add(payload, &partial)? {
            return Ok(());
        }
        let Incoming::Body(publish, body) = std::mem::take(incoming) else { unreachable!("matched above") };
        let Whole { properties, received } = body.finish();
        let arriving = publish.arriving(channel, &properties);
        let (prepared, body) = match received {
            WholeBody::Memory(bytes) => return self.publish(&arriving, BodyRef::Whole(bytes), now),
            WholeBody::File(file, prepared) => (prepared, BodyRef::File(file)),
            WholeBody::Dropped(bytes, prepared) => (prepared, BodyRef::Dropped(bytes)),
        };
        self.hand_on(&arriving, *prepared, body, now)
    }

    /// Decides where the body that a header announces is kept. A large body that only goes to durable queues is routed
    /// now, and written to its file as it comes. It stays in memory until it is complete if a queue keeps it in memory
    /// anyway, if it may be returned to its publisher, or if it waits for a commit.
    fn begin_body(&mut self, channel: u16, publish: &Publish, header: &ContentHeader<'_>, now: Now) -> Result<Body> {
        let size = header.body_size as usize;
        let persistent = delivery_mode(header.properties) == Some(DELIVERY_MODE_PERSISTENT);
        if persistent && size >= self.client.broker.settings.body_file_from && !self.transactions.any() {
            let prepared = self.prepare(&publish.arriving(channel, header.properties), now)?;
            if prepared.route.streams(&self.client.broker.shared, persistent, size) {
                let file = self.client.broker.bodies.begin(&self.client.unwritten, &self.client.outbox);
                let received = Received::File(Box::new(file), Box::new(prepared));
                return Ok(Body::elsewhere(header.properties, size, received));
            }
            let is_shown = self.client.shows_unroutable(&prepared.route);
            if prepared.route.is_unroutable() && !publish.mandatory && !is_shown {
                let received = Received::Dropped(Box::new(prepared));
                return Ok(Body::elsewhere(header.properties, size, received));
            }
        }
        Body::new(header.properties, size, &self.client.partial)
    }

    /// Handles a complete message.
    pub(crate) fn publish(&mut self, arriving: &Arriving<'_>, body: BodyRef<'_>, now: Now) -> Result<()> {
        let prepared = self.prepare(arriving, now)?;
        self.hand_on(arriving, prepared, body, now)
    }

    /// Checks and routes a message.
    fn prepare(&mut self, arriving: &Arriving<'_>, now: Now) -> Result<Prepared> {
        let Arriving { channel, exchange, routing_key, properties, .. } = *arriving;
        let flags = content_flags(properties);
        let headers = if flags & FLAG_HEADERS != 0 { headers(properties) } else { None };
        let routed_by = || MessageHeaders(Headers::amqp091(headers).with(PropertiesAt::Amqp091(properties)));
        let mut rewritten = None;
        if flags & FLAG_REPLY_TO != 0 {
            rewritten = self.with_volatile_reply_to(channel, properties)?;
        }
        let publisher = Publisher { who: &self.client.identity, vhost: &self.client.vhost, client_id: None };
        let mut overlay = Vec::new();
        let route = match headers
            .map(FurtherKeys::of)
            .transpose()
            .map_err(|error| precondition(error.to_string()))?
            .flatten()
        {
            None => {
                let generation = self.client.broker.registry.generation();
                match self.client.routes.again(generation, exchange, routing_key, headers.is_some()) {
                    Some(route) => route,
                    None => {
                        let snapshot = self.client.broker.registry.snapshot();
                        self.client.routes.find(&snapshot, &publisher, exchange, routing_key, &routed_by())?
                    }
                }
            }
            Some(further) => {
                let snapshot = self.client.broker.registry.snapshot();
                if further.has_blind {
                    rewritten = Some(without_blind_copies(rewritten.as_deref().unwrap_or(properties))?);
                }
                encode_keys(&mut overlay, further.seen.iter().copied(), further.blind.iter().copied());
                let mut keys = vec![routing_key];
                keys.extend(further.seen.iter().chain(&further.blind));
                route::extended(&snapshot, &publisher, exchange, &keys, &routed_by())?
            }
        };
        // Behind the exchange and its permission, as in RabbitMQ: who may not publish is told that.
        let mut expiry_ms = 0;
        if flags & (FLAG_USER_ID | FLAG_EXPIRATION) != 0 {
            let decoded = Properties::decode(properties)?;
            if let Some(text) = decoded.expiration {
                expiry_ms = Envelope::expiry(now.wall_ms, time_to_live_ms(text.as_bytes()).map_err(precondition)?);
            }
            if let Some(user) = decoded.user_id {
                let checked = self.client.broker.check_user_id(&self.client.identity, user.as_bytes());
                checked.map_err(precondition)?;
            }
        }
        route.check(routed_by)?;
        let properties = rewritten.as_deref().unwrap_or(properties);
        if properties.len() > self.negotiated.properties_max() {
            let (size, limit) = (properties.len() + HEADER_OVERHEAD, self.negotiated.frame_max());
            return Err(precondition(format!(
                "content header of {size} bytes with the reply-to that was put in is larger than frame_max ({limit})"
            )));
        }
        if let Some(stamps) = &self.client.broker.settings.stamps {
            stamps.encode_amqp091(properties, now.wall_ms, &mut overlay);
        }
        let persistent = delivery_mode(properties) == Some(DELIVERY_MODE_PERSISTENT);
        Ok(Prepared { route, persistent, expiry_ms, overlay, rewritten })
    }

    /// Hands on a message that was routed.
    fn hand_on(&mut self, arriving: &Arriving<'_>, prepared: Prepared, body: BodyRef<'_>, now: Now) -> Result<()> {
        self.client.counters.published(body.length());
        let Prepared { route, persistent, expiry_ms, overlay, rewritten } = prepared;
        let Arriving { channel, exchange, routing_key, mandatory, properties } = *arriving;
        let properties = rewritten.as_deref().unwrap_or(properties);
        let envelope = Envelope {
            durable: persistent,
            priority: priority(properties),
            exchange,
            routing_key,
            received_ms: now.wall_ms,
            expiry_ms,
        };
        let overlay = Overlay::new(&overlay);
        let message = StoredMessage { encoding: Encoding::Amqp091, envelope, overlay, properties, body: b"" };
        if route.is_unroutable() {
            route.count_unroutable(mandatory, now.monotonic);
            self.client.trace_single(channel, &route, &StoredMessage { body: body.bytes(), ..message }, now);
            return self.unroutable(&Arriving { properties, ..*arriving }, &body, now);
        }
        if self.transactions.any() {
            self.check_transaction(channel, body.bytes().len(), route.queues.len())?;
        }
        let length = body.bytes().len();
        let is_free = !self.transactions.any();
        let body = match body {
            BodyRef::Slice(bytes) if is_free && route.streams(&self.client.broker.shared, persistent, length) => {
                let bytes = Bytes::copy_from_slice(bytes);
                BodyRef::File(Box::new(self.client.broker.bodies.write(&bytes, &self.client.outbox)))
            }
            body => body,
        };
        let is_in_file = matches!(body, BodyRef::File(_));
        let to_file = is_in_file || is_free && route.wants_file(&self.client.broker.shared, persistent, length);
        if to_file {
            self.flush_run(now);
        }
        if !self.run.is_of(channel, persistent, &route) {
            self.flush_run(now);
            self.run.turn_to(channel, persistent, route.clone());
        }
        if mandatory {
            self.run.next_is_mandatory();
        }
        match body {
            BodyRef::File(file) => {
                self.run.push_file(&message, *file);
                self.hold(InputHold::Body, now);
            }
            BodyRef::Whole(bytes) if bytes.len() >= leveret_message::batch::INLINE_BELOW => {
                let file = to_file.then(|| self.client.broker.bodies.write(&bytes, &self.client.outbox));
                self.run.push_large(&message, bytes, file);
                if to_file {
                    self.hold(InputHold::Body, now);
                }
            }
            body => self.run.push(&StoredMessage { body: body.bytes(), ..message }),
        }
        self.client.routes.keep(route);
        if self.run.is_full(self.client.pace.burst()) {
            // If a body file is pending, this does nothing: the call is repeated when the file is written.
            self.flush_in_parts(now);
        }
        Ok(())
    }

    /// Returns, drops and confirms a message that no queue gets.
    fn unroutable(&mut self, arriving: &Arriving<'_>, body: &BodyRef<'_>, now: Now) -> Result<()> {
        let Arriving { channel, exchange, routing_key, mandatory, properties } = *arriving;
        // Earlier messages keep their place in the order of confirms.
        self.flush_run(now);
        let stat = if mandatory { Stat::ReturnUnroutable } else { Stat::DropUnroutable };
        if let Some(entry) = self.channels.get_mut(&channel) {
            entry.count_publishes(exchange, 1, &self.client.counters, now.monotonic);
            entry.stats_mut().unroutable_of(exchange, stat, 1, now.monotonic);
        }
        if mandatory {
            self.client.counters.unroutable_returned.add(1);
            let returned = Returned { exchange, routing_key, properties, body: body.bytes() };
            if self.transactions.any() && self.tx_return(channel, &returned)? {
                return Ok(());
            }
            self.return_message(channel, &returned);
        } else {
            self.client.counters.unroutable_dropped.add(1);
        }
        if let Some(confirms) = self.channel(channel)?.confirms_mut() {
            confirms.publish(1, WaitFor::default(), true);
            self.client.counters.published_with_confirm.increment();
            self.note_confirming(channel);
        }
        Ok(())
    }

    /// Sends `basic.return` for a mandatory message that no queue got.
    pub(super) fn return_message(&mut self, channel: u16, returned: &Returned<'_>) {
        let Returned { exchange, routing_key, properties, body } = *returned;
        let frame_max = self.negotiated.frame_max();
        let out = self.out(channel);
        let method = basic::Return {
            reply_code: ReplyCode::NoRoute.code(),
            reply_text: leveret_amqp091::ShortStr::literal("NO_ROUTE"),
            exchange: short(exchange),
            routing_key: short(routing_key),
        };
        encode_method(out, channel, &Method::BasicReturn(method));
        encode_header(out, channel, CLASS_BASIC, body.len() as u64, properties);
        encode_content_body(out, channel, body, frame_max);
    }

    /// Hands the whole collected run to its queues, before something else is done.
    pub(crate) fn flush_run(&mut self, now: Now) {
        if let Some((run, mut fan_out)) = self.take_run(now) {
            fan_out.whole(&mut self.client, now.monotonic);
            self.fanned_out(run, fan_out, now);
        }
    }

    /// Hands the collected run to as many of its queues as the turn allows. No input is read until the others have it.
    pub(crate) fn flush_in_parts(&mut self, now: Now) {
        if let Some((run, mut fan_out)) = self.take_run(now) {
            match fan_out.part(&mut self.client, now.monotonic) {
                true => self.fanned_out(run, fan_out, now),
                false => self.unfinished.add(Unfinished::FanOut(run, Box::new(fan_out))),
            }
        }
    }

    /// Takes out the collected run to hand it to its queues. None if nothing is collected, or if the run has to wait.
    fn take_run(&mut self, now: Now) -> Option<(RunOnItsWay, FanOut)> {
        let TakenRun { route, batch, persistent, file, on_its_way } = self.run.take()?;
        let (channel, count) = (on_its_way.channel, batch.len() as u32);
        if let Some(entry) = self.channels.get_mut(&channel) {
            entry.count_publishes(route.exchange(), u64::from(count), &self.client.counters, now.monotonic);
        }
        route.count(u64::from(count), now.monotonic);
        self.client.trace_published(channel, &route, &batch, now);
        if self.transactions.any() && self.tx_publish(channel, &route, &batch, persistent) {
            return None;
        }
        let fan_out = FanOut::new(&self.client, route, batch, persistent, file);
        Some((on_its_way, fan_out))
    }

    /// Finishes a run that all its queues were offered.
    pub(super) fn fanned_out(&mut self, run: RunOnItsWay, fan_out: FanOut, now: Now) {
        let RunOnItsWay { channel, mandatory } = run;
        let FannedOut { route, batch, mut accepted, wait, reached_nobody, answers_later, slot, paced_by, .. } =
            fan_out.end(&mut self.client);
        let count = batch.len() as u32;
        if answers_later && !mandatory.is_empty() {
            let late = LateReturn { channel, batch: batch.clone(), mandatory: mandatory.clone() };
            self.late_returns.add(wait.clone(), late);
        }
        if reached_nobody {
            accepted = self.return_from_gone(channel, &batch, &mandatory);
        }
        let Some(publisher) = self.channels.get_mut(&channel) else { return };
        let slot = publisher.paced(slot, route.queues.len(), count, now.monotonic);
        self.client.pace.published(slot, paced_by, publisher.confirms().is_some(), now.monotonic);
        if let Some(confirms) = publisher.confirms_mut() {
            self.client.counters.published_with_confirm.add(u64::from(count));
            let refused = u64::from(count - accepted);
            if refused == 0 && slot.is_after(now.monotonic) {
                confirms.publish_paced(u64::from(accepted), wait, slot.at);
            } else if refused == 0 {
                confirms.publish(u64::from(accepted), wait, true);
            } else {
                confirms.publish(u64::from(accepted), wait.clone(), true);
                confirms.publish(refused, wait, false);
            }
            self.confirming.note(channel, publisher);
        }
    }

    /// Returns messages whose queues have said that they were deleted before the messages came.
    pub(super) fn return_late(&mut self) {
        let applied = self.client.applied();
        while let Some((LateReturn { channel, batch, mandatory }, end)) = self.late_returns.next(&applied) {
            if matches!(end, WaitEnd::Unrouted)
                && self.channels.get(&channel).is_some_and(|channel| !channel.is_closing())
            {
                self.return_from_gone(channel, &batch, &mandatory);
            }
        }
    }

    /// Returns the messages of a run whose queues are all being deleted: it is handled as if it had come a moment
    /// later. The result is the number of messages, from the first on, that are confirmed instead: one whose body is in
    /// a file can't be returned.
    fn return_from_gone(&mut self, channel: u16, batch: &Batch, mandatory: &[u32]) -> u32 {
        for index in mandatory {
            let message = batch.message(*index as usize);
            if message.file.is_some() {
                return *index;
            }
            let message = message.view();
            self.client.counters.unroutable_returned.add(1);
            if self.phase != Phase::Running {
                // Nothing may follow the broker's `connection.close`.
                continue;
            }
            self.return_message(
                channel,
                &Returned {
                    exchange: message.envelope.exchange,
                    routing_key: message.envelope.routing_key,
                    properties: message.properties,
                    body: message.body,
                },
            );
        }
        self.client.counters.unroutable_dropped.add(batch.len() as u64 - mandatory.len() as u64);
        batch.len() as u32
    }

    /// The queues of this connection's last route that show its waits.
    pub(crate) fn published_to(&self) -> SmallVec<[QueueRef; 2]> {
        self.run.queues().take(WAIT_SHOWN_MAX).cloned().collect()
    }

    /// Blocks input while publishes have to wait for the disk. If the log has no room, the queues of the connection's
    /// last route show it.
    pub(crate) fn hold_for_log(&mut self, now: Now) {
        self.flush_run(now);
        if self.alarm.is_raised() {
            self.tell_blocked();
        }
        let (reason, is_for_all) = self.client.log_wait();
        let queues = if is_for_all { self.published_to() } else { SmallVec::new() };
        self.hold_publishes(reason, queues, now);
    }
}

fn unexpected(received: &str, expected: &str) -> ProtocolError {
    ProtocolError::new(ReplyCode::UnexpectedFrame, format!("unexpected {received} frame, expected {expected}"))
}

/// The first word of property flags (4.2.6.1).
fn content_flags(properties: &[u8]) -> u16 {
    match properties {
        [high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}
