//! Events of the control plane: what changed, and who changed it.

use std::sync::Arc;

use leveret_message::own::HeaderValue;
use leveret_model::{
    Binding, Change, Destination, Exchange, LimitOwner, LimitValues, Policy, PolicyKind, Queue, QueueType, Topology,
    User, Value, VhostSettings,
};

use super::{Event, process, wide, wide_table};
use crate::names::TRANSFER_PARAMETER;
use crate::notices::Notices;
use crate::policy_walk::PolicyNews;

/// Leaves the events of changes that `actor` made, nobody for the broker itself; `before` is the topology without them.
pub(crate) fn changed(notices: &Notices, before: &Topology, changes: &[Change], actor: &str) {
    if notices.wants_events() {
        let told = Told { notices, before, changes, actor };
        changes.iter().for_each(|change| told.change(change));
    }
}

/// Leaves the event of a queue to which other policies apply after this change.
pub(crate) fn queue_policy_changed(notices: &Notices, queue: &Queue, news: &PolicyNews) {
    let event = || named(&queue.name, &queue.vhost).text("type", queue_type(queue)).by(&news.actor);
    match &news.policy {
        Some(policy) => notices.event("queue.policy.updated", || defined(event(), policy).table()),
        None => notices.event("queue.policy.cleared", || event().table()),
    }
}

/// Adds what a policy says.
fn defined(event: Event, policy: &Policy) -> Event {
    event
        .text("pattern", policy.pattern.as_str())
        .with("definition", HeaderValue::Table(wide_table(&policy.arguments())))
        .number("priority", policy.priority)
        .text("apply-to", policy.apply_to.name())
}

struct Told<'a> {
    notices: &'a Notices,
    before: &'a Topology,
    changes: &'a [Change],
    actor: &'a str,
}

impl Told<'_> {
    fn event(&self, key: &'static str, event: Event) {
        self.notices.event(key, || event.by(self.actor).table());
    }

    fn change(&self, change: &Change) {
        match change {
            Change::QueueDeclared(queue) => self.event("queue.created", created(self.notices.node(), queue)),
            Change::QueueConverted(queue) => self.event("queue.converted", created(self.notices.node(), queue)),
            Change::QueueDeleted(queue) => {
                let event = named(&queue.name, &queue.vhost).text("type", queue_type(queue));
                self.event("queue.deleted", event);
            }
            Change::ExchangeDeclared(exchange) => self.event("exchange.created", exchange_created(exchange)),
            Change::ExchangeDeleted(exchange) => {
                self.event("exchange.deleted", named(&exchange.name, &exchange.vhost));
            }
            Change::Bound(binding) => self.event("binding.created", bound(binding)),
            Change::Unbound(gone) => gone.iter().for_each(|binding| self.event("binding.deleted", bound(binding))),
            Change::SourceUnbound(gone) => {
                gone.iter().for_each(|binding| self.event("binding.deleted", bound(binding)));
            }
            Change::VhostCreated(name) => {
                // Its settings come with a change of their own, if any were given.
                if !self.changes.iter().any(|change| matches!(change, Change::VhostSet(set, _) if set == name)) {
                    self.event("vhost.created", self.vhost(name, &VhostSettings::default()));
                }
            }
            Change::VhostSet(name, settings) => {
                let key = if self.before.vhost(name).is_none() { "vhost.created" } else { "vhost.updated" };
                self.event(key, self.vhost(name, settings));
            }
            Change::VhostDeleted(name) => {
                self.event("vhost.deleted", Event::new().text("name", &**name));
                let down = || Event::new().text("name", &**name).text("node", self.notices.node()).by("").table();
                self.notices.event("vhost.down", down);
            }
            Change::UserPut(user) => self.user(user),
            Change::UserDeleted(user) => self.event("user.deleted", Event::new().text("name", &*user.name)),
            Change::PermissionsSet(permission) => {
                let event = Event::new()
                    .text("user", &*permission.user)
                    .text("vhost", &*permission.vhost)
                    .text("configure", permission.configure.as_str())
                    .text("write", permission.write.as_str())
                    .text("read", permission.read.as_str());
                self.event("permission.created", event);
            }
            Change::PermissionsCleared(permission) => {
                let event = Event::new().text("user", &*permission.user).text("vhost", &*permission.vhost);
                self.event("permission.deleted", event);
            }
            Change::TopicPermissionSet(permission) => {
                let event = Event::new()
                    .text("user", &*permission.user)
                    .text("vhost", &*permission.vhost)
                    .text("exchange", &*permission.exchange)
                    .text("write", permission.write.as_str())
                    .text("read", permission.read.as_str());
                self.event("topic.permission.created", event);
            }
            Change::TopicPermissionCleared(permission) => {
                let event = Event::new().text("user", &*permission.user).text("vhost", &*permission.vhost);
                self.event("topic.permission.deleted", event);
            }
            Change::PolicySet(policy) => self.policy_set(policy),
            Change::PolicyCleared(policy) => self.policy_cleared(policy),
            Change::LimitsSet(owner, values) => self.limits(owner, values),
            // Their progress would be an event each second.
            Change::GlobalParameter(name, _) if name.starts_with(TRANSFER_PARAMETER) => {}
            Change::GlobalParameter(name, value) => {
                let event = Event::new().text("component", "global").text("name", &**name);
                match value {
                    Some(value) => self.event("parameter.set", event.with("value", wide(&Value::from_json(value)))),
                    None => self.event("parameter.cleared", event),
                }
            }
            Change::AlternateChanged(..)
            | Change::MemberPut(_)
            | Change::MemberForgotten(_)
            | Change::PlacementPut(_) => {}
        }
    }

    fn vhost(&self, name: &str, settings: &VhostSettings) -> Event {
        let running = vec![(self.notices.node().to_owned().into(), HeaderValue::text("running"))];
        Event::new()
            .text("name", name)
            .text("description", &*settings.description)
            .texts("tags", &settings.tags)
            .text("default_queue_type", &*settings.default_queue_type)
            .flag("protected_from_deletion", settings.protected_from_deletion)
            .flag("tracing", false)
            .with("cluster_state", HeaderValue::Table(running))
    }

    fn user(&self, user: &Arc<User>) {
        let event = || Event::new().text("name", &*user.name);
        let before = self.before.user(&user.name);
        let hash = |user: &User| user.password_hash.clone().filter(|hash| !hash.is_empty());
        match before {
            None => self.event("user.created", event()),
            Some(before) if hash(before) != hash(user) => match hash(user) {
                Some(_) => self.event("user.password.changed", event()),
                None => self.event("user.password.cleared", event()),
            },
            Some(_) => {}
        }
        self.event("user.tags.set", event().texts("tags", &user.tags));
    }

    fn policy_set(&self, policy: &Policy) {
        if policy.kind == PolicyKind::Operator {
            let value = HeaderValue::Table(defined(Event::new(), policy).table());
            self.event("parameter.set", operator_policy(policy).with("value", value));
        }
        self.event("policy.set", defined(named(&policy.name, &policy.vhost), policy));
    }

    fn policy_cleared(&self, policy: &Policy) {
        let event = named(&policy.name, &policy.vhost);
        match policy.kind {
            PolicyKind::Operator => {
                self.event("parameter.cleared", operator_policy(policy));
                self.event("operator.policy.cleared", event);
            }
            PolicyKind::User => self.event("policy.cleared", event),
        }
    }

    fn limits(&self, owner: &LimitOwner, values: &LimitValues) {
        let limits = |event: Event| {
            values.iter().fold(event, |mut event, (name, value)| {
                event.0.push((name.to_string().into(), HeaderValue::Long(*value)));
                event
            })
        };
        let event = Event::new().text("name", "limits");
        match owner {
            LimitOwner::User(user) if values.is_empty() => {
                self.event("user.limits.cleared", event.text("username", &**user));
            }
            LimitOwner::User(user) => self.event("user.limits.set", limits(event.text("username", &**user))),
            LimitOwner::Vhost(vhost) => {
                let (event, parameter) = (event.text("vhost", &**vhost), named("limits", vhost));
                let parameter = parameter.text("component", "vhost-limits");
                if values.is_empty() {
                    self.event("parameter.cleared", parameter);
                    self.event("vhost.limits.cleared", event);
                } else {
                    let value = limits(Event::new()).table();
                    self.event("parameter.set", parameter.with("value", HeaderValue::Table(value)));
                    self.event("vhost.limits.set", limits(event));
                }
            }
        }
    }
}

fn named(name: &str, vhost: &str) -> Event {
    Event::new().text("name", name).text("vhost", vhost)
}

fn operator_policy(policy: &Policy) -> Event {
    named(&policy.name, &policy.vhost).text("component", "operator_policy")
}

/// RabbitMQ's name of the module that implements a queue.
fn queue_type(queue: &Queue) -> &'static str {
    match queue.queue_type() {
        QueueType::Classic => "rabbit_classic_queue",
        QueueType::Quorum => "rabbit_quorum_queue",
        QueueType::Stream => "rabbit_stream_queue",
    }
}

/// As in RabbitMQ, each type of queue has its own properties.
fn created(node: &str, queue: &Queue) -> Event {
    let event = named(&queue.name, &queue.vhost)
        .flag("durable", queue.durable)
        .flag("auto_delete", queue.auto_delete)
        .arguments("arguments", &queue.arguments)
        .text("type", queue_type(queue));
    match queue.queue_type() {
        QueueType::Stream => event,
        QueueType::Quorum => event.flag("exclusive", false),
        QueueType::Classic => {
            let owner = queue.exclusive_owner.map(|owner| process(node, owner.counter(), 0));
            event
                .flag("exclusive", queue.exclusive_owner.is_some())
                .text("owner_pid", owner.unwrap_or_default())
                .text("leader", node)
                .texts("members", [node])
        }
    }
}

fn exchange_created(exchange: &Exchange) -> Event {
    named(&exchange.name, &exchange.vhost)
        .text("type", exchange.kind.name())
        .flag("durable", exchange.durable)
        .flag("auto_delete", exchange.auto_delete)
        .flag("internal", exchange.internal)
        .arguments("arguments", &exchange.arguments)
        .text("policy", "")
}

fn bound(binding: &Binding) -> Event {
    let (kind, destination) = match &binding.destination {
        Destination::Queue { name, .. } => ("queue", name),
        Destination::Exchange { name, .. } => ("exchange", name),
    };
    Event::new()
        .text("source_name", &*binding.source)
        .text("source_kind", "exchange")
        .text("destination_name", &**destination)
        .text("destination_kind", kind)
        .text("routing_key", &*binding.routing_key)
        .arguments("arguments", &binding.arguments)
        .text("vhost", &*binding.vhost)
}
