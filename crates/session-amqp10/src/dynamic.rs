//! Queues that are declared for a link: dynamic nodes (specification 3.5.10), and queues of version 1 addresses.

use std::sync::Arc;

use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::{ExpiryPolicy, LifetimePolicy, TerminusDurability};
use leveret_amqp10::value::{EncodedMap, MapRef};
use leveret_amqp10::{Role, Source, Symbol, Symbols, Target, condition};
use leveret_model::{Action, Arguments, Bind, Command, DeclareQueue, DestinationName, Permit, Queue, Resource};

use super::address::percent_encode;
use super::connection::Connection;
use super::declaring::{Declaring, Step};
use super::error::{Failure, Result};
use super::held::InputHold;
use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;

/// The capability that a client must ask for to get a queue of its own.
pub(crate) const TEMPORARY_QUEUE: &str = "temporary-queue";
const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new(TEMPORARY_QUEUE)];
/// Bytes in a dynamic queue's name that come from the names of container and link.
const NAME_PART_MAX: usize = 64;

/// A queue that a link needs.
struct Needed<'a> {
    /// Channel and handle of the link.
    link: (u16, u32),
    name: &'a Arc<str>,
    durable: bool,
    exclusive: bool,
}

impl Connection {
    /// The exclusive queue of a dynamic terminus. None while it is being declared.
    pub(crate) fn dynamic_queue(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        addressed: bool,
        capable: bool,
        now: Now,
    ) -> Result<Option<QueueRef>> {
        if addressed || !capable {
            let terminus = match attach.role {
                Role::Sender => "target",
                Role::Receiver => "source",
            };
            return Err(Failure::link(
                condition::NOT_IMPLEMENTED,
                format!(
                    "Dynamic {terminus} not supported: it needs the capability '{TEMPORARY_QUEUE}', and no address of its \
                     own"
                ),
            ));
        }
        let name = match &self.declaring {
            Some(declaring) => declaring.name().clone(),
            None => {
                let part: String =
                    format!("{}-{}", self.opened.container(), attach.name).chars().take(NAME_PART_MAX).collect();
                self.client.new_name(&format!("amq.dyn-{part}-"))
            }
        };
        let permit = self.authorize(Action::DeclareQueue { queue: &name, dead_letter_exchange: None })?;
        self.authorize(Action::Consume(&name))?;
        self.client.name_is_used();
        let link = (channel, attach.handle);
        self.ensure_queue(permit, &Needed { link, name: &name, durable: false, exclusive: true }, now)
    }

    /// A queue that is declared by name if it doesn't exist. None while it is being declared.
    pub(crate) fn declared_queue(
        &mut self,
        link: (u16, u32),
        name: &Arc<str>,
        durable: bool,
        now: Now,
    ) -> Result<Option<QueueRef>> {
        let permit = self.authorize(Action::DeclareQueue { queue: name, dead_letter_exchange: None })?;
        if let Ok(queue) = self.usable_queue(name, None) {
            return Ok(Some(queue));
        }
        self.ensure_queue(permit, &Needed { link, name, durable, exclusive: false }, now)
    }

    fn ensure_queue(&mut self, permit: Permit, needed: &Needed<'_>, now: Now) -> Result<Option<QueueRef>> {
        let &Needed { link, name, durable, exclusive } = needed;
        let declaring = self.declaring.take();
        if declaring.is_some() || self.client.broker.registry.snapshot().queue(&self.client.vhost, name).is_none() {
            let mut declaring = declaring.unwrap_or_else(|| Declaring::new(link, name.clone()));
            let declared = DeclareQueue {
                vhost: self.client.vhost.clone(),
                name: name.clone(),
                server_named: name.starts_with("amq."),
                durable,
                auto_delete: false,
                exclusive,
                connection: Some(self.client.id),
                arguments: Arguments::default(),
            };
            let request = ChangeRequest::new(permit, Command::DeclareQueue(declared));
            let is_made = self.is_made(declaring.declared(), request, now);
            self.declaring = Some(declaring);
            if !is_made? {
                return Ok(None);
            }
        }
        self.usable_queue(name, None).map(Some)
    }

    /// Whether a change that the attach needs is made, and published. If not, it is asked for, and the frame is handled again then.
    fn is_made(&mut self, step: &mut Step, request: ChangeRequest, now: Now) -> Result<bool> {
        let outcome = match step {
            Step::Unasked => match self.client.change(request, now) {
                NowOrLater::Now(outcome) => Some(outcome),
                NowOrLater::Later(answer) => {
                    answer.notify(self.client.outbox.clone(), 0);
                    *step = Step::Asked(answer);
                    None
                }
            },
            Step::Asked(answer) => self.client.take_change(answer, now),
            Step::Made(_) => None,
        };
        if let Some(outcome) = outcome {
            *step = Step::Made(outcome?.ticket);
        }
        match step {
            Step::Made(ticket) if self.client.broker.streams.is_durable(*ticket) => {
                self.client.broker.registry.publish();
                return Ok(true);
            }
            Step::Made(ticket) => self.hold(*ticket),
            Step::Asked(_) | Step::Unasked => self.held = InputHold::Change,
        }
        Ok(false)
    }

    /// The name of a queue of the link's own, bound to an exchange. None while it is being declared.
    pub(crate) fn bound_queue(
        &mut self,
        link: (u16, u32),
        exchange: &Arc<str>,
        key: &str,
        durable: bool,
        now: Now,
    ) -> Result<Option<Arc<str>>> {
        if self.client.broker.registry.snapshot().topology.exchange(&self.client.vhost, exchange).is_none() {
            return Err(leveret_model::Refused::no_exchange(&self.client.vhost, exchange).into());
        }
        let name: Arc<str> = match &self.declaring {
            Some(declaring) => declaring.name().clone(),
            None => self.client.new_name("amq.gen-"),
        };
        let permit = self.authorize(Action::DeclareQueue { queue: &name, dead_letter_exchange: None })?;
        self.client.name_is_used();
        if self.ensure_queue(permit, &Needed { link, name: &name, durable, exclusive: false }, now)?.is_none() {
            return Ok(None);
        }
        let destination = Resource::Queue(&name);
        let permit = self.authorize(Action::Bind { source: exchange, destination, routing_key: key.as_bytes() })?;
        let bind = Bind {
            vhost: self.client.vhost.clone(),
            source: exchange.clone(),
            destination: DestinationName::Queue(name.clone()),
            routing_key: key.as_bytes().into(),
            arguments: Arguments::default(),
            connection: Some(self.client.id),
        };
        let mut declaring = self.declaring.take().unwrap_or_else(|| Declaring::new(link, name.clone()));
        let is_made = self.is_made(declaring.bound(), ChangeRequest::new(permit, Command::Bind(bind)), now);
        self.declaring = Some(declaring);
        Ok(is_made?.then_some(name))
    }
}

/// The address of a queue.
pub(crate) fn address(queue: &Queue) -> String {
    format!("/queues/{}", percent_encode(&queue.name))
}

/// The properties of a dynamic node: it is deleted with its link, and messages are moved out of it.
pub(crate) fn properties() -> EncodedMap {
    let mut properties = EncodedMap::new();
    properties.push_symbol("lifetime-policy", LifetimePolicy::DeleteOnClose.value());
    properties.push_symbol("supported-dist-modes", Symbol::new("move"));
    properties
}

/// The target that replaces a dynamic one.
pub(crate) fn target<'a>(address: &'a str, properties: MapRef<'a>) -> Target<'a> {
    Target {
        address: Some(address),
        durable: TerminusDurability::None,
        expiry_policy: ExpiryPolicy::LinkDetach,
        timeout: 0,
        dynamic: true,
        dynamic_node_properties: Some(properties),
        capabilities: Symbols::of(&CAPABILITIES),
    }
}

/// The source that replaces a dynamic one.
pub(crate) fn source<'a>(address: &'a str, properties: MapRef<'a>) -> Source<'a> {
    Source {
        address: Some(address),
        durable: TerminusDurability::None,
        expiry_policy: ExpiryPolicy::LinkDetach,
        timeout: 0,
        dynamic: true,
        dynamic_node_properties: Some(properties),
        capabilities: Symbols::of(&CAPABILITIES),
        ..Source::default()
    }
}
