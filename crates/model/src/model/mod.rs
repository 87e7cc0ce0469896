use std::sync::Arc;

use crate::deduplication;
use crate::exchange::{self, PREDECLARED};
use crate::queue_arguments::{self, Properties};
use crate::record::{self, Effect, RecordError, Recorded, Snapshot};
use crate::{
    AppliedEntry, Arguments, Change, Command, CommandOutcome, DeclareExchange, DeclareQueue, DeleteExchange,
    DeleteQueue, DeprecatedFeatures, Exchange, ExchangeId, ExchangeType, Home, LimitOwner, Limits, MemberNumber,
    Permit, PutUser, Queue, QueueId, QueueOptions, QueueType, Refused, RefusedKind, SetPermissions, Submitted,
    Topology, User,
};
use crate::{Pattern, Permission};

mod adopt;
mod bindings;
mod convert;
mod follow;
mod members;
mod placing;
mod policies;
mod redeclare;
mod settings;
mod topic_permissions;

/// All declared objects of a node, changed by commands.
///
/// A command takes effect on this staged state at once. The caller logs the record, waits until it is durable, and
/// only then publishes [`Model::topology`] and answers.
#[derive(Clone, Debug)]
pub struct Model {
    topology: Arc<Topology>,
    next_queue: u64,
    next_exchange: u64,
    next_member: u16,
    /// The number of the next placement.
    next_placement: u32,
    limits: Limits,
    /// The member at which commands are given: it has the queues that they declare.
    asker: MemberNumber,
    /// The members that can be given new queues; all if there are none here.
    can_have: Arc<[MemberNumber]>,
    applied: Option<Arc<AppliedEntry>>,
}

impl Default for Model {
    fn default() -> Self {
        Model::new()
    }
}

impl Model {
    /// The model of a new node: the vhost `/` with its predeclared exchanges, and no user.
    pub fn new() -> Self {
        let mut model = Model::empty();
        model.create_vhost(Arc::from("/")).expect("there is no vhost that it could collide with");
        model
    }

    fn empty() -> Self {
        Model {
            topology: Arc::default(),
            next_queue: 1,
            next_exchange: 1,
            next_member: 0,
            next_placement: 1,
            limits: Limits::default(),
            asker: MemberNumber::default(),
            can_have: Arc::default(),
            applied: None,
        }
    }

    /// Sets the limits for later declarations.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets the member at which later commands are given: queues that they declare are there.
    pub fn set_asker(&mut self, member: MemberNumber) {
        self.asker = member;
    }

    /// Sets the members that can be given new queues, since they run. Without any, all can.
    pub fn set_members_up(&mut self, can_have: Arc<[MemberNumber]>) {
        self.can_have = can_have;
    }

    /// The entries of placement 0 that are in this state; `None` if the node is alone.
    pub fn applied(&self) -> Option<&Arc<AppliedEntry>> {
        self.applied.as_ref()
    }

    /// Notes the entries of placement 0 that are in this state.
    pub fn set_applied(&mut self, applied: AppliedEntry) {
        self.applied = Some(Arc::new(applied));
    }

    /// Never gives an id that `other` gave: objects that only `other` knows are withdrawn, but traces of them may be left.
    pub fn continue_ids_of(&mut self, other: &Model) {
        self.next_queue = self.next_queue.max(other.next_queue);
        self.next_exchange = self.next_exchange.max(other.next_exchange);
        self.next_member = self.next_member.max(other.next_member);
        self.next_placement = self.next_placement.max(other.next_placement);
    }

    /// Whether this id was given to a queue. If there is no such queue any more, it was deleted, or it wasn't logged and ended with an earlier
    /// process.
    pub fn has_given(&self, id: QueueId) -> bool {
        id.0 < self.next_queue
    }

    /// The state after all commands so far.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The same, shared with snapshots of it.
    pub fn shared_topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// The topology, to be changed. It is copied if a snapshot, or another model, has it too: once for all changes of a command.
    fn topology_mut(&mut self) -> &mut Topology {
        Arc::make_mut(&mut self.topology)
    }

    /// Executes a command.
    ///
    /// # Errors
    /// The command is refused; nothing changed.
    pub fn submit(&mut self, permit: Permit, command: Command) -> Result<Submitted, Refused> {
        let mut mismatch = None;
        let (outcome, changes) = match command {
            Command::CreateVhost { name } => {
                permit.check_administer()?;
                self.create_vhost(name)?
            }
            Command::DeleteVhost { name } => {
                permit.check_administer()?;
                self.delete_vhost(&name)?
            }
            Command::SetVhost { name, settings } => {
                permit.check_administer()?;
                self.set_vhost(&name, settings)?
            }
            Command::SetLimit { owner, name, value } => {
                permit.check_administer()?;
                self.set_limit(owner, name, value)?
            }
            Command::PutGlobalParameter { name, value } => {
                permit.check_parameters()?;
                self.put_global_parameter(name, value)?
            }
            Command::DeleteGlobalParameter { name } => {
                permit.check_parameters()?;
                self.delete_global_parameter(name)
            }
            Command::PutUser(command) => {
                permit.check_administer()?;
                self.put_user(command)?
            }
            Command::DeleteUser { name } => {
                permit.check_administer()?;
                self.delete_user(&name)
            }
            Command::SetPermissions(command) => {
                permit.check_administer()?;
                self.set_permissions(command)?
            }
            Command::ClearPermissions { user, vhost } => {
                permit.check_administer()?;
                self.clear_permissions(&user, &vhost)
            }
            Command::SetTopicPermissions(command) => {
                permit.check_administer()?;
                self.set_topic_permissions(command)?
            }
            Command::ClearTopicPermissions { user, vhost, exchange } => {
                permit.check_administer()?;
                self.clear_topic_permissions(&user, &vhost, exchange.as_deref())
            }
            Command::SetPolicy(command) => {
                permit.check_policies(command.kind, &command.vhost)?;
                self.set_policy(command, permit.is_import())?
            }
            Command::ClearPolicy { kind, vhost, name } => {
                permit.check_policies(kind, &vhost)?;
                self.clear_policy(kind, &vhost, &name)
            }
            Command::DeclareExchange(command) => {
                permit.check_vhost(&command.vhost)?;
                self.declare_exchange(&permit, command)?
            }
            Command::DeleteExchange(command) => {
                permit.check_vhost(&command.vhost)?;
                self.delete_exchange(&command)?
            }
            Command::DeclareQueue(command) => {
                permit.check_vhost(&command.vhost)?;
                self.declare_queue(&permit, command, &mut mismatch)?
            }
            Command::ConvertQueue(command) => {
                permit.check_vhost(&command.vhost)?;
                self.convert_queue(command)?
            }
            Command::DeleteQueue(command) => {
                permit.check_vhost(&command.vhost)?;
                self.delete_queue(&permit, &command)?
            }
            Command::Bind(command) => {
                permit.check_vhost(&command.vhost)?;
                self.bind(command)?
            }
            Command::Unbind(command) => {
                permit.check_vhost(&command.vhost)?;
                self.unbind(command)?
            }
            Command::PutMember(command) => {
                permit.check_system()?;
                self.put_member(command)?
            }
            Command::ForgetMember { name } => {
                permit.check_administer()?;
                self.forget_member(&name)?
            }
            Command::SpreadQueues { queues, with } => {
                permit.check_system()?;
                self.spread_queues(&queues, with)
            }
        };
        if !changes.is_empty() {
            self.topology_mut().generation += 1;
        }
        let record = record::record_of(&changes, Recorded::Logged);
        Ok(Submitted { outcome, changes, record, mismatch })
    }

    /// Replays a record of [`Model::submit`]. Nothing is decided anew.
    ///
    /// # Errors
    /// The record can't be read; nothing changed.
    pub fn replay(&mut self, record: &[u8]) -> Result<(), RecordError> {
        for effect in record::decode::<Vec<Effect>>(record)? {
            self.apply(effect);
        }
        Ok(())
    }

    /// Takes over the limits, and the member at which commands are given.
    pub fn take_settings_of(&mut self, other: &Model) {
        (self.limits, self.asker) = (other.limits.clone(), other.asker);
        self.can_have = other.can_have.clone();
    }

    /// A record that replaces everything before it by this state.
    pub fn record_anew(&self) -> Vec<u8> {
        let Model { next_queue, next_exchange, next_member, next_placement, .. } = *self;
        let mut effects = vec![Effect::Anew { next_queue, next_exchange, next_member, next_placement }];
        effects.extend(self.effects());
        record::encode(&effects)
    }

    /// The encoded state that survives a restart.
    pub fn snapshot(&self) -> Vec<u8> {
        record::encode(&Snapshot {
            next_queue: self.next_queue,
            next_exchange: self.next_exchange,
            next_member: self.next_member,
            next_placement: self.next_placement,
            effects: self.effects(),
        })
    }

    /// Decodes the output of [`Model::snapshot`]; only objects that survive a restart are in it.
    ///
    /// # Errors
    /// The snapshot can't be read.
    pub fn restore(snapshot: &[u8]) -> Result<Self, RecordError> {
        let snapshot: Snapshot = record::decode(snapshot)?;
        let mut model = Model::empty();
        for effect in snapshot.effects {
            model.apply(effect);
        }
        model.next_queue = model.next_queue.max(snapshot.next_queue);
        model.next_exchange = model.next_exchange.max(snapshot.next_exchange);
        model.next_member = model.next_member.max(snapshot.next_member);
        model.next_placement = model.next_placement.max(snapshot.next_placement);
        Ok(model)
    }

    /// All that survives a restart, as effects.
    fn effects(&self) -> Vec<Effect> {
        let mut effects = record::effects_of(&self.topology);
        effects.extend(self.applied.as_ref().map(|applied| Effect::Applied((**applied).clone())));
        effects
    }

    fn apply(&mut self, effect: Effect) {
        match &effect {
            Effect::Queue(queue) => self.next_queue = self.next_queue.max(queue.id.0 + 1),
            Effect::Exchange(exchange) => {
                self.next_exchange = self.next_exchange.max(exchange.id.0 + 1);
            }
            Effect::Member(member) => self.next_member = self.next_member.max(member.number.0 + 1),
            Effect::Placement(placement) => self.next_placement = self.next_placement.max(placement.number.0 + 1),
            Effect::Applied(applied) => self.set_applied(applied.clone()),
            Effect::Anew { next_queue, next_exchange, next_member, next_placement } => {
                let generation = self.topology.generation;
                self.topology = Arc::new(Topology { generation, ..Topology::default() });
                (self.next_queue, self.next_exchange) = (*next_queue, *next_exchange);
                self.next_member = *next_member;
                self.next_placement = (*next_placement).max(1);
            }
            _ => {}
        }
        record::apply(self.topology_mut(), effect);
        self.topology_mut().generation += 1;
    }

    fn create_vhost(&mut self, name: Arc<str>) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        if self.topology.vhost(&name).is_some() {
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        check_name("vhost", &name)?;
        self.limits.check_vhost(&self.topology, &name)?;
        self.topology_mut().insert_vhost(&name);
        let mut changes = vec![Change::VhostCreated(name.clone())];
        for (exchange, kind, internal) in PREDECLARED {
            let exchange = Arc::new(Exchange {
                id: self.exchange_id(),
                vhost: name.clone(),
                name: Arc::from(exchange),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: Arguments::default(),
                declared_by: "".into(),
                delay_queue: None,
                history_queue: None,
                transient_of: None,
            });
            self.topology_mut().insert_exchange(exchange.clone());
            changes.push(Change::ExchangeDeclared(exchange));
        }
        Ok((CommandOutcome::Created, changes))
    }

    fn delete_vhost(&mut self, name: &str) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let shared = self.topology.vhost(name).cloned().ok_or_else(|| Refused::no_vhost(name))?;
        if self.topology.vhost_settings(name).is_some_and(|settings| settings.protected_from_deletion) {
            let text = format!("Refusing to delete virtual host '{name}' because it is protected from deletion");
            return Err(Refused::new(RefusedKind::Protected, text));
        }
        Ok((CommandOutcome::Deleted, self.drop_vhost(&shared)))
    }

    /// Drops a vhost with everything in it. There are no changes if there is no such vhost.
    fn drop_vhost(&mut self, name: &str) -> Vec<Change> {
        let Some(shared) = self.topology.vhost(name).cloned() else { return Vec::new() };
        let mut changes: Vec<Change> = self.topology.bindings_of_sources(name).map(Change::SourceUnbound).collect();
        let queues = self.topology.queues(name).map(|queue| Change::QueueDeleted(queue.clone()));
        changes.extend(queues);
        let exchanges = self.topology.exchanges(name);
        changes.extend(exchanges.map(|exchange| Change::ExchangeDeleted(exchange.clone())));
        let permissions = self.topology.permissions().filter(|permission| permission.vhost == shared);
        changes.extend(permissions.map(|permission| Change::PermissionsCleared(permission.clone())));
        let limits = self.topology.topic_permissions().filter(|permission| permission.vhost == shared);
        changes.extend(limits.map(|permission| Change::TopicPermissionCleared(permission.clone())));
        changes.extend(self.limits_dropped(LimitOwner::Vhost(shared.clone())));
        self.topology_mut().remove_vhost(name);
        changes.push(Change::VhostDeleted(shared));
        changes
    }

    fn put_user(&mut self, command: PutUser) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        check_name("user", &command.name)?;
        let user = User {
            name: command.name,
            password_hash: command.password_hash,
            hashing_algorithm: command.hashing_algorithm,
            tags: command.tags,
        };
        let outcome = match self.topology.user(&user.name) {
            Some(current) if **current == user => return Ok((CommandOutcome::Exists, Vec::new())),
            Some(_) => CommandOutcome::Updated,
            None => CommandOutcome::Created,
        };
        let user = Arc::new(user);
        self.topology_mut().insert_user(user.clone());
        Ok((outcome, vec![Change::UserPut(user)]))
    }

    fn delete_user(&mut self, name: &str) -> (CommandOutcome, Vec<Change>) {
        let Some(user) = self.topology.user(name).cloned() else {
            return (CommandOutcome::Absent, Vec::new());
        };
        let permissions = self.topology.permissions().filter(|permission| permission.user == user.name);
        let mut changes: Vec<Change> =
            permissions.map(|permission| Change::PermissionsCleared(permission.clone())).collect();
        let limits = self.topology.topic_permissions_of(name);
        changes.extend(limits.map(|permission| Change::TopicPermissionCleared(permission.clone())));
        changes.extend(self.limits_dropped(LimitOwner::User(user.name.clone())));
        self.topology_mut().remove_user(name);
        changes.push(Change::UserDeleted(user));
        (CommandOutcome::Deleted, changes)
    }

    fn set_permissions(&mut self, command: SetPermissions) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let SetPermissions { user, vhost, configure, write, read } = command;
        if self.topology.user(&user).is_none() {
            return Err(Refused::not_found(format!("no user '{user}'")));
        }
        if self.topology.vhost(&vhost).is_none() {
            return Err(Refused::no_vhost(&vhost));
        }
        let object = format!("user '{user}' in vhost '{vhost}'");
        let permission = Arc::new(Permission {
            configure: Pattern::new(&configure, &object, "configure")?,
            write: Pattern::new(&write, &object, "write")?,
            read: Pattern::new(&read, &object, "read")?,
            user,
            vhost,
        });
        let outcome = match self.topology.permission(&permission.user, &permission.vhost) {
            Some(current) if *current == permission => return Ok((CommandOutcome::Exists, Vec::new())),
            Some(_) => CommandOutcome::Updated,
            None => CommandOutcome::Created,
        };
        self.topology_mut().insert_permission(permission.clone());
        Ok((outcome, vec![Change::PermissionsSet(permission)]))
    }

    fn clear_permissions(&mut self, user: &str, vhost: &str) -> (CommandOutcome, Vec<Change>) {
        let Some(permission) = self.topology.permission(user, vhost).cloned() else {
            return (CommandOutcome::Absent, Vec::new());
        };
        self.topology_mut().remove_permission(user, vhost);
        (CommandOutcome::Deleted, vec![Change::PermissionsCleared(permission)])
    }

    fn declare_exchange(
        &mut self,
        permit: &Permit,
        command: DeclareExchange,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments } = command;
        if name.is_empty() {
            return Err(Refused::default_exchange());
        }
        let vhost = self.topology.vhost(&vhost).cloned().ok_or_else(|| Refused::no_vhost(&vhost))?;
        let kind = ExchangeType::parse(&kind)?;
        if let Some(current) = self.topology.exchange(&vhost, &name) {
            check_same_exchange(current, kind, [durable, auto_delete, internal], &arguments)?;
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        if name.starts_with("amq.") && !permit.is_system() {
            return Err(Refused::reserved("exchange", &name));
        }
        check_name("exchange", &name)?;
        arguments.check_depth()?;
        if let Some(alternate) = arguments.get("alternate-exchange")
            && alternate.as_str().is_none()
        {
            return Err(Refused::precondition(format!(
                "invalid type '{}' for arg 'alternate-exchange' in exchange '{name}' in vhost '{vhost}'",
                alternate.type_name()
            )));
        }
        let routing_type = exchange::routing_type(kind, &arguments)?;
        self.limits.check_exchange_type(routing_type)?;
        exchange::check_arguments(routing_type, &arguments)?;
        let deduplicates = deduplication::check_exchange(kind, &arguments)?;
        self.limits.check_exchange(&self.topology, &vhost, &name)?;
        let declared_by = permit.user().cloned().unwrap_or_default();
        let queue = match kind {
            ExchangeType::Delayed | ExchangeType::RecentHistory => {
                Some(self.exchange_queue(kind, &vhost, &name, &arguments, &declared_by)?)
            }
            _ if deduplicates => {
                Some(self.exchange_queue(ExchangeType::Deduplication, &vhost, &name, &arguments, &declared_by)?)
            }
            _ => None,
        };
        let id = queue.as_ref().map(|queue| queue.id);
        let (delay_queue, history_queue) = match kind {
            ExchangeType::RecentHistory => (None, id),
            _ => (id, None),
        };
        let exchange = Arc::new(Exchange {
            id: self.exchange_id(),
            vhost,
            name,
            kind,
            durable,
            auto_delete,
            internal,
            arguments,
            declared_by,
            delay_queue,
            history_queue,
            transient_of: (!durable && !self.topology.members.is_empty()).then_some(self.asker),
        });
        self.topology_mut().insert_exchange(exchange.clone());
        let mut changes = vec![Change::ExchangeDeclared(exchange.clone())];
        if exchange.alternate().is_none()
            && let Some(alternate) = self.topology.alternate_of(&exchange)
        {
            changes.push(Change::AlternateChanged(exchange, Some(alternate)));
        }
        if let Some(queue) = queue {
            self.topology_mut().insert_queue(queue.clone());
            changes.push(Change::QueueDeclared(queue));
        }
        Ok((CommandOutcome::Created, changes))
    }

    /// The queue that a new exchange has for its type, or because it drops duplicates (`Deduplication`): messages will wait in it, or
    /// it will have the last ones. It is durable even if the exchange
    /// isn't, because delayed messages aren't held in memory; [`Topology::lost_exchange_queues`] finds it after a restart.
    fn exchange_queue(
        &mut self,
        kind: ExchangeType,
        vhost: &Arc<str>,
        exchange: &Arc<str>,
        arguments: &Arguments,
        user: &Arc<str>,
    ) -> Result<Arc<Queue>, Refused> {
        let (called, prefix) = match kind {
            ExchangeType::RecentHistory => ("recent history", HISTORY_QUEUE_PREFIX),
            ExchangeType::Deduplication => ("deduplicating", DEDUPLICATION_QUEUE_PREFIX),
            _ => ("delayed", DELAY_QUEUE_PREFIX),
        };
        let name: Arc<str> = format!("{prefix}{exchange}").into();
        if name.len() > NAME_BYTES_MAX {
            return Err(Refused::precondition(format!(
                "name of {called} exchange '{exchange}' has {} bytes, at most {} are allowed, because its queue is named \
                 '{prefix}' and so",
                exchange.len(),
                NAME_BYTES_MAX - prefix.len()
            )));
        }
        if self.topology.queue(vhost, &name).is_some() {
            return Err(Refused::precondition(format!("there is a queue '{name}' in vhost '{vhost}' already")));
        }
        self.limits.check_queue(&self.topology, vhost, &name, None)?;
        self.check_queue_limit(vhost, &name)?;
        let arguments_of_queue = queue_arguments::complete(&Arguments::default(), QueueType::Quorum);
        let (id, options) = (self.queue_id(), QueueOptions::default());
        let mut queue = Queue {
            queue_type: QueueType::Quorum,
            declared_by: user.clone(),
            home: Home::Owner(self.asker),
            ..Queue::durable(id, vhost.clone(), name, arguments_of_queue, options)
        };
        match kind {
            ExchangeType::RecentHistory => {
                let length = exchange::history_length(arguments)?;
                let arguments = queue.arguments.with("x-max-length", length.into());
                queue.arguments = arguments.with("x-max-length-bytes", exchange::HISTORY_BYTES_MAX.into());
                queue.options = QueueOptions::remembering(&queue.arguments);
                queue.history_of = Some(exchange.clone());
            }
            _ => {
                if kind == ExchangeType::Deduplication {
                    let rules =
                        deduplication::ARGUMENTS.iter().filter_map(|key| Some((*key, arguments.get(key)?.clone())));
                    let all = rules.fold(queue.arguments.clone(), |all, (key, value)| all.with(key, value));
                    queue.arguments = all.with(deduplication::DEDUPLICATES, true.into());
                }
                queue.options = QueueOptions::delaying(exchange, &queue.arguments);
                queue.delays_for = Some(exchange.clone());
            }
        }
        Ok(Arc::new(queue))
    }

    fn delete_exchange(&mut self, command: &DeleteExchange) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let DeleteExchange { vhost, name, if_unused } = command;
        if name.is_empty() {
            return Err(Refused::default_exchange());
        }
        if name.starts_with("amq.") {
            return Err(Refused::system_exchange(vhost, name));
        }
        let Some(exchange) = self.topology.exchange(vhost, name).cloned() else {
            return Ok((CommandOutcome::Absent, Vec::new()));
        };
        if *if_unused && self.topology.bindings_of_source(vhost, name).next().is_some() {
            return Err(Refused::precondition(format!("exchange '{name}' in vhost '{vhost}' in use")));
        }
        let mut changes = Vec::new();
        self.drop_exchange(exchange, &mut changes);
        Ok((CommandOutcome::Deleted, changes))
    }

    fn declare_queue(
        &mut self,
        permit: &Permit,
        command: DeclareQueue,
        mismatch: &mut Option<Refused>,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let DeclareQueue { vhost, name, server_named, durable, auto_delete, exclusive, connection, arguments } =
            command;
        if name.starts_with("amq.") && !server_named {
            return Err(Refused::reserved("queue", &name));
        }
        let vhost = self.topology.vhost(&vhost).cloned().ok_or_else(|| Refused::no_vhost(&vhost))?;
        let owner = match (exclusive, connection) {
            (true, Some(connection)) => Some(connection),
            (true, None) => {
                return Err(Refused::precondition(format!(
                    "queue '{name}' in vhost '{vhost}' can't be exclusive: no connection would own it"
                )));
            }
            (false, _) => None,
        };
        // Only a queue that fits each type gets the default one of its vhost.
        let default_type = match durable && !auto_delete && !exclusive {
            true => self.topology.default_queue_type(&vhost),
            false => QueueType::Classic,
        };
        let arguments = queue_arguments::complete(&arguments, default_type);
        if let Some(current) = self.topology.queue(&vhost, &name) {
            if current.exclusive_owner != owner && !redeclare::is_relaxed(&self.limits, current, &arguments) {
                return Err(Refused::locked(&vhost, &name));
            }
            *mismatch = redeclare::accepted(&self.topology, &self.limits, current, (durable, auto_delete, &arguments))?;
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        check_name("queue", &name)?;
        let properties = Properties { server_named, durable, auto_delete, exclusive };
        let permitted = self.limits.deprecated;
        let permitted =
            DeprecatedFeatures { master_locator: permitted.master_locator || permit.is_import(), ..permitted };
        queue_arguments::check(&vhost, &name, properties, &arguments, permitted)?;
        if !durable || exclusive {
            queue_arguments::check_durability(&vhost, &name, &arguments)?;
        }
        let options = QueueOptions::effective(&arguments);
        self.limits.queue_types.check(&vhost, &name, options.queue_type)?;
        self.limits.deprecated.check_queue(durable, exclusive)?;
        self.limits.check_queue(&self.topology, &vhost, &name, owner)?;
        self.check_queue_limit(&vhost, &name)?;
        let id = self.queue_id();
        let mut queue = Queue {
            durable,
            auto_delete,
            exclusive_owner: owner,
            declared_by: permit.user().cloned().unwrap_or_default(),
            home: Home::Owner(self.asker),
            ..Queue::durable(id, vhost, name, arguments, options)
        };
        let mut changes = Vec::new();
        queue.home = self.place(&queue, &mut changes);
        let queue = Arc::new(queue);
        self.topology_mut().insert_queue(queue.clone());
        changes.push(Change::QueueDeclared(queue));
        Ok((CommandOutcome::Created, changes))
    }

    fn delete_queue(
        &mut self,
        permit: &Permit,
        command: &DeleteQueue,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let DeleteQueue { vhost, name, connection, id } = command;
        let meant = self.topology.queue(vhost, name).filter(|queue| id.is_none_or(|id| id == queue.id));
        let Some(queue) = meant.cloned() else {
            return Ok((CommandOutcome::Absent, Vec::new()));
        };
        if !permit.is_system() {
            self.topology.usable_queue(vhost, name, *connection)?;
        }
        let removed = self.topology_mut().remove_queue(&queue);
        let sources = bindings::sources_of(&removed);
        let mut changes: Vec<Change> = removed.into_iter().map(Change::Unbound).collect();
        changes.push(Change::QueueDeleted(queue));
        self.auto_delete(sources, &mut changes);
        Ok((CommandOutcome::Deleted, changes))
    }

    fn queue_id(&mut self) -> QueueId {
        QueueId(take(&mut self.next_queue))
    }

    fn exchange_id(&mut self) -> ExchangeId {
        ExchangeId(take(&mut self.next_exchange))
    }
}

fn take(counter: &mut u64) -> u64 {
    let number = *counter;
    *counter += 1;
    number
}

/// The name of a delayed exchange's queue is this and the name of the exchange.
const DELAY_QUEUE_PREFIX: &str = "amq.delayed.";

/// The name of a recent history exchange's queue is this and the name of the exchange.
const HISTORY_QUEUE_PREFIX: &str = "amq.history.";

/// The name of the queue of an exchange that drops duplicates is this and the name of the exchange.
const DEDUPLICATION_QUEUE_PREFIX: &str = "amq.unique.";

/// Longest name in bytes: names are short strings of 0-9-1.
const NAME_BYTES_MAX: usize = 255;

fn check_name(kind: &str, name: &str) -> Result<(), Refused> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        0 => Err(Refused::precondition(format!("{kind} name is empty"))),
        length => {
            Err(Refused::precondition(format!("{kind} name has {length} bytes, at most {NAME_BYTES_MAX} are allowed")))
        }
    }
}

/// Checks that an exchange that is declared again is the same: its type, whether it is durable, deleted automatically and internal, and
/// its arguments.
fn check_same_exchange(
    current: &Exchange,
    kind: ExchangeType,
    flags: [bool; 3],
    arguments: &Arguments,
) -> Result<(), Refused> {
    let Exchange { vhost, name, .. } = current;
    let differs = |key, received: &dyn std::fmt::Display, current: &dyn std::fmt::Display| {
        inequivalent("exchange", vhost, name, key, received, current)
    };
    if kind != current.kind {
        return Err(differs("type", &kind.erlang_atom(), &current.kind.erlang_atom()));
    }
    let keys = ["durable", "auto_delete", "internal"];
    let current_flags = [current.durable, current.auto_delete, current.internal];
    for ((key, received), current) in keys.into_iter().zip(flags).zip(current_flags) {
        if received != current {
            return Err(differs(key, &received, &current));
        }
    }
    const ALTERNATE: &str = "alternate-exchange";
    let compared: &[&str] = match kind {
        ExchangeType::Delayed => &[exchange::DELAYED_TYPE],
        _ => &deduplication::ARGUMENTS,
    };
    for key in std::iter::once(&ALTERNATE).chain(compared) {
        let (current, received) = (current.arguments.get(key), arguments.get(key));
        queue_arguments::equivalent("exchange", vhost, name, key, current, received)?;
    }
    Ok(())
}

fn inequivalent(
    kind: &str,
    vhost: &str,
    name: &str,
    key: &str,
    received: &dyn std::fmt::Display,
    current: &dyn std::fmt::Display,
) -> Refused {
    Refused::precondition(format!(
        "inequivalent arg '{key}' for {kind} '{name}' in vhost '{vhost}': received '{received}' but current is '{current}'"
    ))
}
