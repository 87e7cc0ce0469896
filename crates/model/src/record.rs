//! The record of a command: its effects on objects that survive a restart rather than its text, so that a replay
//! decides nothing. The format is described in docs/metadata.md.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    AppliedEntry, Binding, Change, Exchange, ExchangeId, LimitOwner, LimitValues, Member, MemberNumber, Permission,
    Policy, PolicyKind, Queue, QueueId, QueueOptions, QueuePlacement, TopicPermission, Topology, User, VhostSettings,
};

/// The first byte of a record and of a snapshot.
const VERSION: u8 = 1;

/// A record or snapshot that can't be read. The bytes were damaged after they were written, or a newer
/// release wrote them.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It has no bytes.
    #[error("metadata record is empty")]
    Empty,
    /// The version byte is unknown to this release.
    #[error("metadata record has version {0}, this release reads version {VERSION}")]
    Version(u8),
    /// The body doesn't fit the version.
    #[error("metadata record is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// One effect.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effect {
    Vhost(Arc<str>),
    DropVhost(Arc<str>),
    VhostSettings {
        vhost: Arc<str>,
        settings: Arc<VhostSettings>,
    },
    Limits {
        owner: LimitOwner,
        values: LimitValues,
    },
    GlobalParameter {
        name: Arc<str>,
        value: Arc<serde_json::Value>,
    },
    DropGlobalParameter(Arc<str>),
    User(Arc<User>),
    DropUser(Arc<str>),
    Permission(Arc<Permission>),
    DropPermission {
        user: Arc<str>,
        vhost: Arc<str>,
    },
    TopicPermission(Arc<TopicPermission>),
    DropTopicPermission {
        user: Arc<str>,
        vhost: Arc<str>,
        exchange: Arc<str>,
    },
    Policy(Arc<Policy>),
    DropPolicy {
        kind: PolicyKind,
        vhost: Arc<str>,
        name: Arc<str>,
    },
    Exchange(Arc<Exchange>),
    DropExchange {
        vhost: Arc<str>,
        name: Arc<str>,
        id: ExchangeId,
    },
    Queue(Arc<Queue>),
    DropQueue(QueueId),
    Binding(Arc<Binding>),
    DropBinding(Arc<Binding>),
    Member(Arc<Member>),
    DropMember(MemberNumber),
    Placement(Arc<QueuePlacement>),
    /// The entries of placement 0 up to this one are in the metadata.
    Applied(AppliedEntry),
    /// Everything before is replaced by what follows: the state of a cluster that this node joined, or is behind of.
    Anew {
        next_queue: u64,
        next_exchange: u64,
        next_member: u16,
        #[serde(default)]
        next_placement: u32,
    },
}

/// All objects that survive a restart, with the counters.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) next_queue: u64,
    pub(crate) next_exchange: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) next_member: u16,
    #[serde(default, skip_serializing_if = "is_none_made")]
    pub(crate) next_placement: u32,
    pub(crate) effects: Vec<Effect>,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

fn is_none_made(next: &u32) -> bool {
    *next <= 1
}

pub(crate) fn encode<T: Serialize>(body: &T) -> Vec<u8> {
    let mut out = vec![VERSION];
    serde_json::to_writer(&mut out, body).expect("every type of a record has a JSON form");
    out
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, RecordError> {
    match bytes {
        [] => Err(RecordError::Empty),
        [VERSION, body @ ..] => Ok(serde_json::from_slice(body)?),
        [version, ..] => Err(RecordError::Version(*version)),
    }
}

/// Several records joined into one, so that they take effect together or not at all.
#[derive(Debug, Default)]
pub struct JoinedRecords(Vec<u8>);

impl JoinedRecords {
    /// Adds a record of [`Model::submit`](crate::Model::submit).
    ///
    /// # Panics
    /// If `record` isn't one.
    pub fn add(&mut self, record: &[u8]) {
        let [VERSION, b'[', effects @ .., b']'] = record else { panic!("a record is a list of effects") };
        self.0.extend_from_slice(if self.0.is_empty() { &[VERSION, b'['] } else { b"," });
        self.0.extend_from_slice(effects);
    }

    /// The joined record; `None` if nothing was added.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push(b']');
        Some(self.0)
    }
}

/// The objects that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The ones that survive a restart: for the log of a node that is alone.
    Logged,
    /// All of them: for the members of a cluster, which route to each other's.
    All,
}

impl Recorded {
    fn has(self, is_logged: bool) -> bool {
        self == Recorded::All || is_logged
    }
}

/// The record of `changes` for the entry of a cluster, if they change anything: objects that don't survive a restart are in it as well.
#[must_use]
pub fn entry_of(changes: &[Change]) -> Option<Vec<u8>> {
    record_of(changes, Recorded::All)
}

/// The record that the entries of placement 0 up to this one are in the metadata.
#[must_use]
pub fn record_of_applied(applied: &AppliedEntry) -> Vec<u8> {
    encode(&[Effect::Applied(applied.clone())])
}

/// The record of `changes`, if any of them has to be recorded.
pub(crate) fn record_of(changes: &[Change], recorded: Recorded) -> Option<Vec<u8>> {
    // Deleting a vhost implies deleting everything in it; deleting a queue or exchange, its bindings.
    let vhost_deleted = changes.iter().find_map(|change| match change {
        Change::VhostDeleted(name) => Some(name),
        _ => None,
    });
    let effects: Vec<Effect> = match vhost_deleted {
        Some(name) => vec![Effect::DropVhost(name.clone())],
        None => {
            let drops_object = drops_object(changes, recorded);
            let mut effects = Vec::new();
            for change in changes {
                match change {
                    // With the object that they belonged to.
                    Change::Unbound(_) if drops_object => {}
                    // It goes with its exchange, and is logged only if that is.
                    Change::SourceUnbound(_) => {}
                    // Its ends decide, which are the same for all of them.
                    Change::Unbound(gone) if !recorded.has(gone.first().logged) => {}
                    Change::Unbound(gone) => effects.extend(gone.iter().cloned().map(Effect::DropBinding)),
                    _ => effects.extend(effect_of(change, recorded)),
                }
            }
            effects
        }
    };
    (!effects.is_empty()).then(|| encode(&effects))
}

/// The log record of a change, except for deleted bindings.
fn effect_of(change: &Change, recorded: Recorded) -> Option<Effect> {
    Some(match change {
        Change::VhostCreated(name) => Effect::Vhost(name.clone()),
        Change::VhostDeleted(name) => Effect::DropVhost(name.clone()),
        Change::VhostSet(vhost, settings) => Effect::VhostSettings { vhost: vhost.clone(), settings: settings.clone() },
        Change::LimitsSet(owner, values) => Effect::Limits { owner: owner.clone(), values: values.clone() },
        Change::GlobalParameter(name, Some(value)) => {
            Effect::GlobalParameter { name: name.clone(), value: value.clone() }
        }
        Change::GlobalParameter(name, None) => Effect::DropGlobalParameter(name.clone()),
        Change::QueueDeclared(queue) | Change::QueueConverted(queue) if recorded.has(queue.is_logged()) => {
            Effect::Queue(queue.clone())
        }
        Change::QueueDeleted(queue) if recorded.has(queue.is_logged()) => Effect::DropQueue(queue.id),
        Change::ExchangeDeclared(exchange) if recorded.has(exchange.durable) => Effect::Exchange(exchange.clone()),
        Change::ExchangeDeleted(exchange) if recorded.has(exchange.durable) => {
            Effect::DropExchange { vhost: exchange.vhost.clone(), name: exchange.name.clone(), id: exchange.id }
        }
        Change::Bound(binding) if recorded.has(binding.logged) => Effect::Binding(binding.clone()),
        Change::UserPut(user) => Effect::User(user.clone()),
        Change::UserDeleted(user) => Effect::DropUser(user.name.clone()),
        Change::PermissionsSet(permission) => Effect::Permission(permission.clone()),
        Change::PermissionsCleared(permission) => {
            Effect::DropPermission { user: permission.user.clone(), vhost: permission.vhost.clone() }
        }
        Change::TopicPermissionSet(permission) => Effect::TopicPermission(permission.clone()),
        Change::TopicPermissionCleared(permission) => Effect::DropTopicPermission {
            user: permission.user.clone(),
            vhost: permission.vhost.clone(),
            exchange: permission.exchange.clone(),
        },
        Change::PolicySet(policy) => Effect::Policy(policy.clone()),
        Change::PolicyCleared(policy) => {
            Effect::DropPolicy { kind: policy.kind, vhost: policy.vhost.clone(), name: policy.name.clone() }
        }
        Change::MemberPut(member) => Effect::Member(member.clone()),
        Change::MemberForgotten(member) => Effect::DropMember(member.number),
        Change::PlacementPut(placement) => Effect::Placement(placement.clone()),
        Change::AlternateChanged(..)
        | Change::QueueDeclared(_)
        | Change::QueueConverted(_)
        | Change::QueueDeleted(_)
        | Change::ExchangeDeclared(_)
        | Change::ExchangeDeleted(_)
        | Change::Bound(_)
        | Change::SourceUnbound(_)
        | Change::Unbound(_) => return None,
    })
}

/// Whether the deletion of the object named by the command is logged, so that its bindings needn't be.
fn drops_object(all: &[Change], recorded: Recorded) -> bool {
    let logged_drop = |change: &Change| match change {
        Change::QueueDeleted(queue) => recorded.has(queue.is_logged()),
        Change::ExchangeDeleted(exchange) => recorded.has(exchange.durable),
        _ => false,
    };
    // That object is deleted first, after its bindings.
    all.iter().find(|change| !matches!(change, Change::Unbound(_) | Change::SourceUnbound(_))).is_some_and(logged_drop)
}

/// All objects in `topology` that survive a restart, ordered so that each effect finds the objects it refers to. In a cluster these are all
/// objects: those that don't survive go when their member says that it has started again.
pub(crate) fn effects_of(topology: &Topology) -> Vec<Effect> {
    let recorded = if topology.members.is_empty() { Recorded::Logged } else { Recorded::All };
    let mut effects: Vec<Effect> = topology.members().map(|member| Effect::Member(member.clone())).collect();
    effects.extend(topology.placements().map(|placement| Effect::Placement(placement.clone())));
    effects.extend(topology.users().map(|user| Effect::User(user.clone())));
    for vhost in topology.vhosts() {
        effects.push(Effect::Vhost(vhost.clone()));
        let settings = topology.vhost_settings(vhost).filter(|settings| ***settings != VhostSettings::default());
        effects.extend(
            settings.map(|settings| Effect::VhostSettings { vhost: vhost.clone(), settings: settings.clone() }),
        );
        for kind in PolicyKind::ALL {
            effects.extend(topology.policies(kind, vhost).map(|policy| Effect::Policy(policy.clone())));
        }
        let exchanges = topology.exchanges(vhost).filter(|exchange| recorded.has(exchange.durable));
        effects.extend(exchanges.map(|exchange| Effect::Exchange(exchange.clone())));
        let queues = topology.queues(vhost).filter(|queue| recorded.has(queue.is_logged()));
        effects.extend(queues.map(|queue| Effect::Queue(queue.clone())));
        let bindings = topology.bindings(vhost).filter(|binding| recorded.has(binding.logged));
        effects.extend(bindings.map(|binding| Effect::Binding(binding.clone())));
    }
    effects.extend(topology.permissions().map(|permission| Effect::Permission(permission.clone())));
    effects.extend(topology.topic_permissions().map(|permission| Effect::TopicPermission(permission.clone())));
    let limits = topology.all_limits();
    effects.extend(limits.map(|(owner, values)| Effect::Limits { owner, values: values.clone() }));
    let parameters = topology.global_parameters();
    effects
        .extend(parameters.map(|(name, value)| Effect::GlobalParameter { name: name.clone(), value: value.clone() }));
    effects
}

/// Applies `effect` and nothing else. Objects that it removes may already be gone.
pub(crate) fn apply(topology: &mut Topology, effect: Effect) {
    match effect {
        Effect::Vhost(name) => topology.insert_vhost(&name),
        Effect::DropVhost(name) => topology.remove_vhost(&name),
        Effect::VhostSettings { vhost, settings } => topology.set_vhost(&vhost, settings),
        Effect::Limits { owner, values } => topology.set_limits(&owner, values),
        Effect::GlobalParameter { name, value } => topology.set_global_parameter(&name, Some(value)),
        Effect::DropGlobalParameter(name) => topology.set_global_parameter(&name, None),
        Effect::User(user) => topology.insert_user(user),
        Effect::DropUser(name) => topology.remove_user(&name),
        Effect::Permission(permission) => topology.insert_permission(permission),
        Effect::DropPermission { user, vhost } => topology.remove_permission(&user, &vhost),
        Effect::TopicPermission(permission) => topology.insert_topic_permission(permission),
        Effect::DropTopicPermission { user, vhost, exchange } => {
            topology.remove_topic_permission(&user, &vhost, &exchange);
        }
        Effect::Policy(policy) => topology.insert_policy(policy),
        Effect::DropPolicy { kind, vhost, name } => topology.remove_policy(kind, &vhost, &name),
        Effect::Exchange(exchange) => topology.insert_exchange(exchange),
        Effect::DropExchange { vhost, name, id } => {
            let exchange = topology.exchange(&vhost, &name).filter(|exchange| exchange.id == id);
            if let Some(exchange) = exchange.cloned() {
                topology.remove_exchange(&exchange);
            }
        }
        Effect::Queue(queue) => {
            let queue = read_queue(topology, queue);
            topology.insert_queue(queue);
        }
        Effect::DropQueue(id) => {
            if let Some(queue) = topology.queue_by_id(id).cloned() {
                topology.remove_queue(&queue);
            }
        }
        Effect::Binding(binding) => topology.insert_binding(binding),
        Effect::DropBinding(binding) => topology.remove_binding(&binding),
        Effect::Member(member) => topology.insert_member(member),
        Effect::DropMember(number) => _ = topology.members.remove(&number),
        Effect::Placement(placement) => topology.put_placement(placement),
        // The model has these.
        Effect::Applied(_) | Effect::Anew { .. } => {}
    }
}

/// The queue of a record, with what records leave out.
pub(crate) fn read_queue(topology: &Topology, queue: Arc<Queue>) -> Arc<Queue> {
    let mut queue = Arc::unwrap_or_clone(queue);
    queue.options = match &queue.delays_for {
        Some(exchange) => QueueOptions::delaying(exchange, &queue.arguments),
        None if queue.history_of.is_some() => QueueOptions::remembering(&queue.arguments),
        None => QueueOptions { queue_type: queue.queue_type, ..QueueOptions::effective(&queue.arguments) },
    };
    // Each record has its own copies of the names; thousands of queues share one.
    if let Some(vhost) = topology.vhost(&queue.vhost) {
        queue.vhost = vhost.clone();
    }
    if let Some(user) = topology.user(&queue.declared_by) {
        queue.declared_by = user.name.clone();
    }
    Arc::new(queue)
}
