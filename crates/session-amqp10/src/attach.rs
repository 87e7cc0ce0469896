//! `attach`: begins or refuses a link (specification 2.6.3, 2.7.3).

use std::sync::Arc;

use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::{DistributionMode, TerminusDurability};
use leveret_amqp10::value::{EncodedMap, MapRef};
use leveret_amqp10::{
    Outcome, ReceiverSettleMode, Role, SenderSettleMode, Serial, Source, Symbol, Symbols, Target, TargetArchetype,
    condition,
};
use leveret_model::{Action, QueueType};
use leveret_queue::{ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Link as _};

use super::assembly::Assembly;
use super::attaching::Attaching;
use super::connection::{Connection, running};
use super::consumer::{Consumer, ConsumerTerms};
use super::error::{Failure, Result, Scope};
use super::filters::InEffect;
use super::grant::Grant;
use super::held::InputHold;
use super::link::Link;
use super::link_state::INITIAL_DELIVERY_COUNT;
use super::publisher::{Destination, Publisher, PublisherTarget};
use super::replies::VOLATILE_QUEUE;
use super::session::Session;
use super::{address, deferral, filters};
use leveret_broker::asked::NowOrLater;
use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::queue_handle::{NoConsumer, QueueRef};
use leveret_broker::quota::Kind;
use leveret_broker::reply_to::is_volatile;
use leveret_broker::time::Now;
use leveret_session::client_connection::ConsumerUse;
use leveret_session::early_signals::EarlySignals;
use leveret_session::stream_start::too_many_names;

/// The outcomes that a receiver may use (3.4).
pub(crate) const OUTCOMES: [Symbol<'static>; 4] = [
    Symbol::new("amqp:accepted:list"),
    Symbol::new("amqp:rejected:list"),
    Symbol::new("amqp:released:list"),
    Symbol::new("amqp:modified:list"),
];
/// Largest size in bytes of a link's name, which is kept as long as the link.
const LINK_NAME_MAX: usize = 1024;
const PRIORITY: &str = "rabbitmq:priority";
const CONSUMER_TIMEOUT: &str = "rabbitmq:consumer-timeout";

impl Connection {
    /// Handles the client's attach of a link.
    pub(crate) fn attach(&mut self, session: &mut Session, attach: &Attach<'_>, now: Now) -> Result<()> {
        let handle = attach.handle;
        if handle > session.handle_max() {
            return Err(Failure::session(
                condition::FRAMING_ERROR,
                format!("link handle value ({handle}) exceeds maximum link handle value ({})", session.handle_max()),
            ));
        }
        if session.is_attached(handle) {
            return Err(Failure::session(
                condition::HANDLE_IN_USE,
                format!("handle {handle} is already associated with a link"),
            ));
        }
        self.forget_declaring(|link| link != (session.channel(), handle));
        self.forget_attaching(|link| link != (session.channel(), handle), now);
        let attached = check(attach).and_then(|()| self.attach_counted(session, attach, now));
        let finds_nothing = |failure: &Failure| failure.condition == condition::NOT_FOUND;
        if attached.is_err() && self.client.parks(now)
            || attached.as_ref().is_err_and(finds_nothing) && self.client.catches_up(now)
        {
            return Ok(());
        }
        if attached.is_err() || !matches!(self.held, InputHold::Again { .. } | InputHold::Change) {
            // The queue that was declared for this link is none of the next one's.
            self.declaring = None;
            self.forget_attaching(|_| true, now);
        }
        if attached.as_ref().is_err_and(|failure| failure.scope == Scope::Link) {
            self.refuse(session.channel(), attach)?;
        }
        attached
    }

    /// Attaches a link if the limit allows one more.
    fn attach_counted(&mut self, session: &mut Session, attach: &Attach<'_>, now: Now) -> Result<()> {
        self.client.account.take(Kind::Links)?;
        let receives = attach.role == Role::Receiver;
        if receives && let Err(reached) = self.client.account.take(Kind::Consumers) {
            self.client.account.give(Kind::Links, 1);
            return Err(reached.into());
        }
        let attached = match attach.role {
            _ if is_for_management(attach) => match attach.role {
                Role::Sender => self.attach_requests(session, attach),
                Role::Receiver => self.attach_responses(session, attach),
            },
            Role::Sender => self.attach_publisher(session, attach, now),
            Role::Receiver => self.attach_consumer(session, attach, now),
        };
        if !session.is_attached(attach.handle) {
            // The link was refused, or is held until its queue is declared.
            self.client.account.give(Kind::Links, 1);
            self.client.account.give(Kind::Consumers, u64::from(receives));
        }
        attached
    }

    /// Attaches a link on which the client sends.
    fn attach_publisher(&mut self, session: &mut Session, attach: &Attach<'_>, now: Now) -> Result<()> {
        let target = match &attach.target {
            Some(TargetArchetype::Target(target)) => target,
            Some(TargetArchetype::Coordinator(_)) => {
                return self.attach_coordinator(session, attach);
            }
            None => return Err(Failure::link(condition::INVALID_FIELD, "Attach refused: no target")),
        };
        if let Some(source) = &attach.source {
            check_outcomes(source)?;
        }
        let key = self.client.broker.fresh_id();
        let mut destination_name = None;
        let destination = if target.dynamic {
            let capable = target.capabilities.contains(super::dynamic::TEMPORARY_QUEUE);
            let Some(queue) = self.dynamic_queue(session.channel(), attach, target.address.is_some(), capable, now)?
            else {
                return Ok(());
            };
            destination_name = Some(super::dynamic::address(queue.info()));
            Destination::Queue(queue)
        } else {
            let link = (session.channel(), attach.handle);
            let Some(destination) = self.destination(link, target, now)? else { return Ok(()) };
            destination
        };
        let to_stream = matches!(&destination, Destination::Queue(queue) if queue.is_stream());
        let (exchange, queue) = match &destination {
            Destination::Exchange { exchange, .. } => (Some(exchange.clone()), None),
            Destination::Queue(queue) => (Some(Arc::from("")), Some(queue.clone())),
            Destination::Anonymous => (None, None),
        };
        if let Some(exchange) = exchange {
            self.check_exchange(&exchange)?;
        }
        if let Some(queue) = queue {
            queue.watch(key, self.client.outbox.clone());
            self.links.insert(key, (session.channel(), attach.handle));
        }
        let initial = Serial(attach.initial_delivery_count.unwrap_or(0));
        let address = destination_name.as_deref().or(target.address).map(Into::into);
        let publisher = Publisher::new(
            attach.name.into(),
            PublisherTarget { address, destination, key, dynamic: target.dynamic },
            attach.snd_settle_mode,
            Grant::new(self.client.broker.settings.link_credit, initial),
            Assembly::new(attach.snd_settle_mode, self.client.partial.clone()),
        );
        session.note_granted(attach.handle);
        session.put(attach.handle, Box::new(Link::Publisher(Box::new(publisher))));
        self.client.counters.publishers_opened.increment();
        let properties = super::dynamic::properties();
        let effective = match &destination_name {
            Some(name) => super::dynamic::target(name, properties.as_map()),
            None => *target,
        };
        let answer = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Receiver,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: attach.source,
            target: Some(TargetArchetype::Target(effective)),
            max_message_size: Some(self.client.broker.settings.max_message_size),
            // Also where nothing is received, as in RabbitMQ.
            offered_capabilities: Symbols::of(if to_stream { &filters::CAPABILITIES } else { &[] }),
            ..Attach::default()
        };
        self.send_attach(session.channel(), answer)?;
        self.send_session_flows(session);
        Ok(())
    }

    /// The link's destination. None while a queue is being declared for it: the attach is handled again then.
    fn destination(&mut self, link: (u16, u32), target: &Target<'_>, now: Now) -> Result<Option<Destination>> {
        let Some(address) = target.address else { return Ok(Some(Destination::Anonymous)) };
        let version_1 = self.client.broker.settings.amqp_address_v1;
        let parsed =
            address::target(address, version_1).map_err(|bad| Failure::link(condition::INVALID_FIELD, bad.0))?;
        let destination = match parsed {
            address::Target::Exchange { exchange, key } => Destination::Exchange { exchange, key: Some(key) },
            address::Target::Subject { exchange } => Destination::Exchange { exchange, key: None },
            address::Target::Queue(name) if is_volatile(name.as_bytes()) => {
                if !self.client.broker.replies.find(name.as_bytes()).is_some_and(|requester| requester.is_open()) {
                    return Err(leveret_model::Refused::no_queue(&self.client.vhost, &name).into());
                }
                Destination::Exchange { exchange: "".into(), key: Some(name) }
            }
            address::Target::Queue(name) => Destination::Queue(self.target_queue(&name)?),
            address::Target::DeclaredQueue(name) => {
                let durable = is_durable(target.durable);
                let Some(queue) = self.declared_queue(link, &name, durable, now)? else { return Ok(None) };
                Destination::Queue(queue)
            }
        };
        Ok(Some(destination))
    }

    fn check_exchange(&self, exchange: &str) -> Result<()> {
        self.authorize(Action::Publish(exchange))?;
        let snapshot = self.client.broker.registry.snapshot();
        let found = snapshot.topology.exchange(&self.client.vhost, exchange);
        let found = found.ok_or_else(|| leveret_model::Refused::no_exchange(&self.client.vhost, exchange))?;
        found.check_publish().map_err(|refused| {
            // RabbitMQ words this differently here than over AMQP 0-9-1.
            let text = refused.text.replacen("cannot publish", "forbidden to publish", 1);
            Failure::link(condition::UNAUTHORIZED_ACCESS, text)
        })
    }

    /// A queue to publish to. It may be another connection's exclusive queue, just as for clients that publish to the
    /// default exchange: this is how answers reach temporary queues.
    fn target_queue(&self, name: &str) -> Result<QueueRef> {
        let snapshot = self.client.broker.registry.snapshot();
        let queue = snapshot
            .queue(&self.client.vhost, name)
            .ok_or_else(|| leveret_model::Refused::no_queue(&self.client.vhost, name))?;
        queue.info().check_ordinary()?;
        running(queue.clone())
    }

    /// Attaches a link on which the client receives from a queue.
    fn attach_consumer(&mut self, session: &mut Session, attach: &Attach<'_>, now: Now) -> Result<()> {
        let Some(source) = &attach.source else {
            return Err(Failure::link(condition::INVALID_FIELD, "Attach refused: source_required"));
        };
        check_outcomes(source)?;
        if source.dynamic && source.capabilities.contains(VOLATILE_QUEUE) {
            return self.attach_replies(session, attach, source);
        }
        let Some(found) = self.queue_of(session, attach, source, now)? else { return Ok(()) };
        let SourceQueue { queue, dynamic_name } = &found;
        let mut filters = filters::in_effect(source, attach, queue.info(), now.wall_ms)?;
        let is_filtered = filters.messages.is_some();
        let is_search = is_filtered || filters.stream.as_ref().is_some_and(|stream| stream.filter.is_some());
        let settled = attach.snd_settle_mode == SenderSettleMode::Settled;
        // Readers of a stream never take messages away: it has no other consumers.
        let browses = source.distribution_mode == Some(DistributionMode::Copy) && !queue.is_stream();
        let own_timeout_ms = attach.properties.map_or(Ok(None), own_timeout)?;
        let wanted = Wanted { settled, browses, is_filtered, own_timeout_ms };
        let Some((id, added)) = self.ask_for_consumer((session.channel(), attach), queue, wanted, &mut filters, now)
        else {
            self.held = InputHold::Change;
            return Ok(());
        };
        match added {
            Ok(()) => {}
            // It has another type now.
            Err(NoConsumer::Converted) if !source.dynamic => return self.attach_consumer(session, attach, now),
            Err(reason) => return Err(self.no_consumer(queue, reason)),
        }
        self.links.insert(id.0, (session.channel(), attach.handle));
        let holds = !settled && !browses;
        let options = queue.effective();
        let consumer = Consumer::new(ConsumerTerms {
            name: attach.name.into(),
            address: dynamic_name.as_deref().or(source.address).unwrap_or("").into(),
            queue: queue.clone(),
            id,
            settled,
            browses,
            filters: is_search,
            max_message_size: attach.max_message_size.unwrap_or(0),
            timeout: ConsumerTimeout::of(options.options(queue.info()), own_timeout_ms).filter(|_| holds),
            own_timeout_ms,
            dynamic: source.dynamic,
        });
        session.put(attach.handle, Box::new(Link::Consumer(consumer)));
        let way = ConsumerUse { exclusive: false, no_ack: settled, prefetch: 0 };
        let (tag, name) = (attach.name.as_bytes(), &queue.info().name);
        let event = ConsumerEvent { channel: session.channel(), tag, queue: name };
        self.client.consumer_opened(&event, way, &filters.shown);
        self.answer_consumer((session.channel(), attach), source, &found, wanted, &filters.named)
    }

    /// The queue of a consumer's link, which may be one that is made for it. `None` while it is being declared.
    fn queue_of(
        &mut self,
        session: &Session,
        attach: &Attach<'_>,
        source: &Source<'_>,
        now: Now,
    ) -> Result<Option<SourceQueue>> {
        if source.dynamic {
            let capable = source.capabilities.contains(super::dynamic::TEMPORARY_QUEUE);
            let queue = self.dynamic_queue(session.channel(), attach, source.address.is_some(), capable, now)?;
            return Ok(queue.map(|queue| {
                let dynamic_name = Some(super::dynamic::address(queue.info()));
                SourceQueue { queue, dynamic_name }
            }));
        }
        let link = (session.channel(), attach.handle);
        let queue = self.source_queue(link, source, now)?;
        Ok(queue.map(|queue| SourceQueue { queue, dynamic_name: None }))
    }

    /// Asks a queue for a consumer, or takes the answer of one that was asked for this attach before. `None` if the answer comes later.
    fn ask_for_consumer(
        &mut self,
        (channel, attach): (u16, &Attach<'_>),
        queue: &QueueRef,
        wanted: Wanted,
        filters: &mut InEffect,
        now: Now,
    ) -> Option<(ConsumerId, core::result::Result<(), NoConsumer>)> {
        if let Some(attaching) = self.attaching.take_if(|attaching| attaching.queue.is_same(queue)) {
            let Some(added) = attaching.answer.take() else {
                self.attaching = Some(attaching);
                return None;
            };
            // They are handled in the next turn, behind the answer.
            attaching.early.into_signals().into_iter().for_each(|signal| self.client.outbox.signal(signal));
            return Some((attaching.id, added));
        }
        // Of a queue that was converted, or deleted and declared again.
        self.forget_attaching(|_| true, now);
        let id = self.client.broker.fresh_consumer_id();
        let priority =
            attach.properties.and_then(|properties| properties.lookup(PRIORITY)).and_then(|value| value.as_i64());
        let Wanted { settled, browses, own_timeout_ms, .. } = wanted;
        let options = ConsumerOptions {
            link: self.client.outbox.clone(),
            key: id.0,
            tag: attach.name.into(),
            channel: format!("{} ({channel})", self.client.name).into(),
            automatic_ack: settled,
            flow: ConsumerFlow::Credit { delivery_count: INITIAL_DELIVERY_COUNT.0 },
            priority: priority.and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0),
            mode: if browses { ConsumerMode::Copy } else { ConsumerMode::Move },
            exclusive: false,
            filter: filters.messages.take(),
            stream: filters.stream.take(),
            timeout_ms: own_timeout_ms,
            user: self.client.identity.name().clone(),
            arguments: filters.shown.clone(),
        };
        match queue.consume(id, options, now.monotonic) {
            NowOrLater::Now(added) => Some((id, added)),
            NowOrLater::Later(answer) => {
                answer.notify(self.client.outbox.clone(), id.0);
                let (link, queue) = ((channel, attach.handle), queue.clone());
                let early = EarlySignals::new(id.0);
                self.attaching = Some(Box::new(Attaching { link, queue, id, answer, early }));
                None
            }
        }
    }

    /// The failure of a link whose queue doesn't take its consumer.
    fn no_consumer(&self, queue: &QueueRef, reason: NoConsumer) -> Failure {
        let (name, vhost) = (&queue.info().name, &self.client.vhost);
        match reason {
            NoConsumer::Gone | NoConsumer::Converted => leveret_model::Refused::no_queue(vhost, name).into(),
            NoConsumer::Failed(reason) => Failure::link(condition::ILLEGAL_STATE, queue.crashed(&reason)),
            NoConsumer::Exclusive => {
                let text = format!("queue '{name}' in vhost '{vhost}' in exclusive use");
                Failure::link(condition::RESOURCE_LOCKED, text)
            }
            // Groups have subscriptions of the stream protocol only; another node says it by mistake.
            NoConsumer::OtherPartition => {
                Failure::link(condition::PRECONDITION_FAILED, format!("queue '{name}' is another partition"))
            }
            NoConsumer::TooManyNames => Failure::link(condition::RESOURCE_LIMIT_EXCEEDED, too_many_names(queue.info())),
        }
    }

    /// Sends our side of a consumer's attach, with what of its source is in effect.
    fn answer_consumer(
        &mut self,
        (channel, attach): (u16, &Attach<'_>),
        source: &Source<'_>,
        SourceQueue { queue, dynamic_name }: &SourceQueue,
        Wanted { settled, browses, is_filtered, .. }: Wanted,
        filters: &EncodedMap,
    ) -> Result<()> {
        let properties = super::dynamic::properties();
        let mut effective = match dynamic_name {
            Some(name) => super::dynamic::source(name, properties.as_map()),
            None => *source,
        };
        // Reading a stream takes nothing away.
        let copies = browses || queue.is_stream();
        effective.distribution_mode = Some(if copies { DistributionMode::Copy } else { DistributionMode::Move });
        effective.default_outcome = Some(Outcome::Released);
        if !source.dynamic {
            // The capabilities that it names have no meaning here.
            effective.capabilities = Symbols::NONE;
        }
        effective.outcomes = if source.outcomes.is_empty() { Symbols::of(&OUTCOMES) } else { source.outcomes };
        effective.filter = source.filter.map(|_| filters.as_map());
        let answer = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Sender,
            snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
            rcv_settle_mode: attach.rcv_settle_mode,
            source: Some(effective),
            target: attach.target,
            initial_delivery_count: Some(INITIAL_DELIVERY_COUNT.0),
            max_message_size: attach.max_message_size,
            offered_capabilities: Symbols::of(offered(queue, browses, is_filtered)),
            ..Attach::default()
        };
        self.send_attach(channel, answer)
    }

    /// The queue of a source. None while a queue is being declared for it: the attach is handled again then.
    fn source_queue(&mut self, link: (u16, u32), source: &Source<'_>, now: Now) -> Result<Option<QueueRef>> {
        let Some(address) = source.address else {
            return Err(bad_address("undefined"));
        };
        let version_1 = self.client.broker.settings.amqp_address_v1;
        let parsed =
            address::source(address, version_1).map_err(|bad| Failure::link(condition::INVALID_FIELD, bad.0))?;
        let name = match parsed {
            address::Source::Queue(name) => name,
            address::Source::DeclaredQueue(name) => {
                if self.declared_queue(link, &name, is_durable(source.durable), now)?.is_none() {
                    return Ok(None);
                }
                name
            }
            address::Source::Bound { exchange, key } => {
                match self.bound_queue(link, &exchange, &key, is_durable(source.durable), now)? {
                    Some(name) => name,
                    None => return Ok(None),
                }
            }
        };
        self.usable_queue(&name, Some(Action::Consume(&name))).map(Some)
    }

    /// Refuses an attach: the answer has no terminus, and a detach follows (2.6.3).
    fn refuse(&mut self, channel: u16, attach: &Attach<'_>) -> Result<()> {
        let mut answer = Attach {
            name: attach.name,
            handle: attach.handle,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            ..Attach::default()
        };
        match attach.role {
            Role::Sender => {
                answer.role = Role::Receiver;
                answer.source = attach.source;
            }
            Role::Receiver => {
                answer.role = Role::Sender;
                answer.target = attach.target;
                answer.initial_delivery_count = Some(INITIAL_DELIVERY_COUNT.0);
            }
        }
        self.send_attach(channel, answer)
    }
}

/// The queue of a consumer's link, and its address if it was made for the link.
struct SourceQueue {
    queue: QueueRef,
    dynamic_name: Option<String>,
}

/// How a client wants to receive.
#[derive(Clone, Copy)]
struct Wanted {
    settled: bool,
    browses: bool,
    /// By a filter, which only queues have that aren't streams.
    is_filtered: bool,
    own_timeout_ms: Option<u64>,
}

/// The capabilities of a link on which a client receives from a queue.
fn offered(queue: &QueueRef, browses: bool, is_filtered: bool) -> &'static [Symbol<'static>] {
    match (queue.info().queue_type(), deferral::is_offered(queue, browses)) {
        (QueueType::Stream, _) => &filters::CAPABILITIES,
        (_, true) if is_filtered => &[deferral::TOKENS, filters::SELECTOR],
        (_, true) => &[deferral::TOKENS],
        // RabbitMQ's queues have no filters, and offer nothing: so it is for clients that don't ask for one.
        (_, false) if is_filtered => &[filters::SELECTOR],
        (_, false) => &[],
    }
}

/// Whether the address at our end is the management node.
fn is_for_management(attach: &Attach<'_>) -> bool {
    let address = match (attach.role, &attach.target, &attach.source) {
        (Role::Sender, Some(TargetArchetype::Target(target)), _) => target.address,
        (Role::Receiver, _, Some(source)) => source.address,
        _ => None,
    };
    address == Some(super::pairs::ADDRESS)
}

fn is_durable(durability: TerminusDurability) -> bool {
    durability != TerminusDurability::None
}

fn bad_address(shown: &str) -> Failure {
    Failure::link(condition::INVALID_FIELD, format!("Attach refused: {{bad_address,{shown}}}"))
}

/// Refuses fields of an attach that no link of ours supports.
fn check(attach: &Attach<'_>) -> Result<()> {
    let length = attach.name.len();
    if length > LINK_NAME_MAX {
        let text = format!("link name of {length} bytes is too long: at most {LINK_NAME_MAX} are kept");
        return Err(Failure::link(condition::INVALID_FIELD, text));
    }
    let unsettled = attach.unsettled.is_some_and(|map| !map.is_empty());
    if unsettled || attach.incomplete_unsettled {
        return Err(Failure::link(condition::NOT_IMPLEMENTED, "Link recovery not supported"));
    }
    if attach.rcv_settle_mode == ReceiverSettleMode::Second && attach.snd_settle_mode != SenderSettleMode::Settled {
        return Err(Failure::link(condition::NOT_IMPLEMENTED, "rcv-settle-mode second not supported"));
    }
    Ok(())
}

/// Milliseconds for which a receiver may leave a delivery unsettled, if it says so in the properties of its link. RabbitMQ takes a
/// uint and ignores anything else.
fn own_timeout(properties: MapRef<'_>) -> Result<Option<u64>> {
    let Some(value) = properties.lookup(CONSUMER_TIMEOUT) else { return Ok(None) };
    let milliseconds = value.as_i64().and_then(|milliseconds| u64::try_from(milliseconds).ok());
    let wrong =
        || format!("Attach refused: property {CONSUMER_TIMEOUT}: expected milliseconds as a uint, received {value:?}");
    milliseconds.map(Some).ok_or_else(|| Failure::link(condition::INVALID_FIELD, wrong()))
}

fn check_outcomes(source: &Source<'_>) -> Result<()> {
    match source.outcomes.iter().find(|outcome| !OUTCOMES.contains(outcome)) {
        None => Ok(()),
        Some(outcome) => Err(Failure::link(condition::NOT_IMPLEMENTED, format!("Outcomes not supported: [{outcome}]"))),
    }
}
