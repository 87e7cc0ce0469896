use std::sync::Arc;

use crate::{Arguments, ConnectionId, LimitOwner, VhostSettings};

/// Something to do to the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Creates a vhost with its predeclared exchanges.
    CreateVhost {
        /// Its name.
        name: Arc<str>,
    },
    /// Deletes a vhost with everything in it.
    DeleteVhost {
        /// Its name.
        name: Arc<str>,
    },
    /// Gives a vhost, which must exist, these settings.
    SetVhost {
        /// Its name.
        name: Arc<str>,
        /// What it is from here on.
        settings: VhostSettings,
    },
    /// Sets a limit of a vhost or user, which must exist.
    SetLimit {
        /// Whose.
        owner: LimitOwner,
        /// See [`LimitOwner::names`].
        name: Arc<str>,
        /// A negative one is no limit; `None` takes it away.
        value: Option<i64>,
    },
    /// Sets a parameter of the whole cluster.
    PutGlobalParameter {
        /// Its name.
        name: Arc<str>,
        /// Its value.
        value: serde_json::Value,
    },
    /// Takes a parameter of the whole cluster away.
    DeleteGlobalParameter {
        /// Its name.
        name: Arc<str>,
    },
    /// Creates or changes a user.
    PutUser(PutUser),
    /// Deletes a user with its permissions.
    DeleteUser {
        /// Its name.
        name: Arc<str>,
    },
    /// Lets a user into a vhost, or changes what it may do there.
    SetPermissions(SetPermissions),
    /// Takes all permissions of a user in a vhost.
    ClearPermissions {
        /// The user.
        user: Arc<str>,
        /// The vhost.
        vhost: Arc<str>,
    },
    /// Limits a user to some routing keys at a topic exchange, or changes to which.
    SetTopicPermissions(SetTopicPermissions),
    /// Takes these limits away.
    ClearTopicPermissions {
        /// The user.
        user: Arc<str>,
        /// The vhost.
        vhost: Arc<str>,
        /// At this exchange; `None` for all.
        exchange: Option<Arc<str>>,
    },
    /// Declares an exchange.
    DeclareExchange(DeclareExchange),
    /// Deletes an exchange with its bindings.
    DeleteExchange(DeleteExchange),
    /// Declares a queue.
    DeclareQueue(DeclareQueue),
    /// Deletes a queue with its bindings.
    DeleteQueue(DeleteQueue),
    /// Binds a queue or an exchange to an exchange.
    Bind(Bind),
    /// Takes a binding away.
    Unbind(Bind),
}

/// See [`Command::PutUser`].
#[derive(Clone, Debug, PartialEq)]
pub struct PutUser {
    /// The name.
    pub name: Arc<str>,
    /// See [`crate::User::password_hash`].
    pub password_hash: Option<Arc<str>>,
    /// See [`crate::User::hashing_algorithm`].
    pub hashing_algorithm: Arc<str>,
    /// See [`crate::User::tags`].
    pub tags: Vec<Arc<str>>,
}

/// See [`Command::SetPermissions`].
#[derive(Clone, Debug, PartialEq)]
pub struct SetPermissions {
    /// The user, which must exist.
    pub user: Arc<str>,
    /// The vhost, which must exist.
    pub vhost: Arc<str>,
    /// The pattern of what may be declared and deleted.
    pub configure: String,
    /// The pattern of what may be published to and bound into.
    pub write: String,
    /// The pattern of what may be consumed from and bound out of.
    pub read: String,
}

/// See [`Command::SetTopicPermissions`].
#[derive(Clone, Debug, PartialEq)]
pub struct SetTopicPermissions {
    /// The user, which must exist.
    pub user: Arc<str>,
    /// The vhost, which must exist.
    pub vhost: Arc<str>,
    /// The exchange, which must exist.
    pub exchange: Arc<str>,
    /// The pattern of routing keys that may be published with.
    pub write: String,
    /// The pattern of routing keys that may be bound with.
    pub read: String,
}

/// See [`Command::DeclareExchange`]. A passive declaration is [`crate::Topology::passive_exchange`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareExchange {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The name of the type.
    pub kind: String,
    /// Whether it shall survive a restart.
    pub durable: bool,
    /// Whether it goes with the last binding that leads out of it.
    pub auto_delete: bool,
    /// Whether clients may not publish to it.
    pub internal: bool,
    /// Its arguments.
    pub arguments: Arguments,
}

/// See [`Command::DeleteExchange`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteExchange {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// Whether to refuse it while bindings lead out of it.
    pub if_unused: bool,
}

/// See [`Command::DeclareQueue`]. A passive declaration is [`crate::Topology::usable_queue`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareQueue {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name, never empty: who serves a declaration without one makes it.
    pub name: Arc<str>,
    /// Whether the broker made the name, so that it may begin with `amq.`.
    pub server_named: bool,
    /// Whether it shall survive a restart.
    pub durable: bool,
    /// Whether it goes with its last consumer.
    pub auto_delete: bool,
    /// Whether it belongs to `connection`.
    pub exclusive: bool,
    /// The connection that asks, if one does.
    pub connection: Option<ConnectionId>,
    /// Its arguments.
    pub arguments: Arguments,
}

/// See [`Command::DeleteQueue`]. Whether it is unused or empty is the broker's to check.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteQueue {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The connection that asks, if one does; the broker itself may delete any queue.
    pub connection: Option<ConnectionId>,
}

/// The end of a binding that isn't the source, by name.
#[derive(Clone, Debug, PartialEq)]
pub enum DestinationName {
    /// A queue.
    Queue(Arc<str>),
    /// An exchange.
    Exchange(Arc<str>),
}

/// See [`Command::Bind`] and [`Command::Unbind`].
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// The vhost of both ends.
    pub vhost: Arc<str>,
    /// The exchange that it leads out of.
    pub source: Arc<str>,
    /// Where it leads.
    pub destination: DestinationName,
    /// The binding key.
    pub routing_key: Arc<[u8]>,
    /// Its arguments.
    pub arguments: Arguments,
    /// The connection that asks, if one does.
    pub connection: Option<ConnectionId>,
}
