use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::text;
use crate::{
    Arguments, ConnectionId, EarlierPriorities, LimitOwner, MemberNumber, PolicyKind, PutMember, QueueId, QueueType,
    SetPolicy, VhostSettings,
};

/// A command to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Changes the settings of a vhost, which must exist.
    SetVhost {
        /// Its name.
        name: Arc<str>,
        /// The new settings.
        settings: VhostSettings,
    },
    /// Sets a limit of a vhost or user, which must exist.
    SetLimit {
        /// The owner of the limit.
        owner: LimitOwner,
        /// The name of the limit, one of [`LimitOwner::names`].
        name: Arc<str>,
        /// The value. A negative one means no limit; `None` removes the limit.
        value: Option<i64>,
    },
    /// Sets a global parameter of the cluster.
    PutGlobalParameter {
        /// Its name.
        name: Arc<str>,
        /// Its value.
        value: serde_json::Value,
    },
    /// Deletes a global parameter of the cluster.
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
    /// Gives a user access to a vhost, or changes its permissions there.
    SetPermissions(SetPermissions),
    /// Removes all permissions of a user in a vhost.
    ClearPermissions {
        /// The user.
        user: Arc<str>,
        /// The vhost.
        vhost: Arc<str>,
    },
    /// Limits the routing keys of a user at a topic exchange, or changes such a limit.
    SetTopicPermissions(SetTopicPermissions),
    /// Removes topic permissions.
    ClearTopicPermissions {
        /// The user.
        user: Arc<str>,
        /// The vhost.
        vhost: Arc<str>,
        /// The exchange; `None` for all.
        exchange: Option<Arc<str>>,
    },
    /// Sets a policy, or changes it.
    SetPolicy(SetPolicy),
    /// Clears a policy.
    ClearPolicy {
        /// The kind.
        kind: PolicyKind,
        /// The vhost.
        vhost: Arc<str>,
        /// The name.
        name: Arc<str>,
    },
    /// Declares an exchange.
    DeclareExchange(DeclareExchange),
    /// Deletes an exchange with its bindings.
    DeleteExchange(DeleteExchange),
    /// Declares a queue.
    DeclareQueue(DeclareQueue),
    /// Gives a queue another type or other arguments.
    ConvertQueue(ConvertQueue),
    /// Deletes a queue with its bindings.
    DeleteQueue(DeleteQueue),
    /// Binds a queue or an exchange to an exchange.
    Bind(Bind),
    /// Deletes a binding.
    Unbind(Bind),
    /// Makes a node a member of the cluster, or notes that a member has started again: its objects that don't survive a restart go.
    PutMember(PutMember),
    /// Strikes a member, with the queues whose messages only it has.
    ForgetMember {
        /// Its name.
        name: Arc<str>,
    },
    /// Gives queues whose messages only the asking member has the other members that they are to have.
    SpreadQueues {
        /// Their ids. Those that aren't such queues any more are left as they are.
        queues: Vec<QueueId>,
        /// A member that is to be among them.
        with: Option<MemberNumber>,
    },
}

/// Arguments of [`Command::PutUser`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutUser {
    /// The name.
    pub name: Arc<str>,
    /// The password hash, as in [`crate::User::password_hash`].
    pub password_hash: Option<Arc<str>>,
    /// The hash function, as in [`crate::User::hashing_algorithm`].
    pub hashing_algorithm: Arc<str>,
    /// The tags, as in [`crate::User::tags`].
    pub tags: Vec<Arc<str>>,
}

/// Arguments of [`Command::SetPermissions`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetPermissions {
    /// The user, which must exist.
    pub user: Arc<str>,
    /// The vhost, which must exist.
    pub vhost: Arc<str>,
    /// The pattern of objects that the user may declare and delete.
    pub configure: String,
    /// The pattern of objects that the user may publish to and bind as destinations.
    pub write: String,
    /// The pattern of objects that the user may consume from and bind as sources.
    pub read: String,
}

/// Arguments of [`Command::SetTopicPermissions`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetTopicPermissions {
    /// The user, which must exist.
    pub user: Arc<str>,
    /// The vhost, which must exist.
    pub vhost: Arc<str>,
    /// The exchange, which must exist.
    pub exchange: Arc<str>,
    /// The pattern of routing keys that the user may publish with.
    pub write: String,
    /// The pattern of routing keys that the user may bind with.
    pub read: String,
}

/// Arguments of [`Command::DeclareExchange`]. A passive declaration is [`crate::Topology::passive_exchange`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeclareExchange {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The name of the type.
    pub kind: String,
    /// Whether it survives a restart.
    pub durable: bool,
    /// Whether it is deleted with the last binding that it is the source of.
    pub auto_delete: bool,
    /// Whether clients may not publish to it.
    pub internal: bool,
    /// Its arguments.
    pub arguments: Arguments,
}

/// Arguments of [`Command::DeleteExchange`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteExchange {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// Whether to refuse the deletion while it is the source of bindings.
    pub if_unused: bool,
}

/// Arguments of [`Command::DeclareQueue`]. A passive declaration is [`crate::Topology::usable_queue`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeclareQueue {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name, never empty: the caller generates one if the client gave none.
    pub name: Arc<str>,
    /// Whether the broker generated the name, which may then begin with `amq.`.
    pub server_named: bool,
    /// Whether it survives a restart.
    pub durable: bool,
    /// Whether it is deleted with its last consumer.
    pub auto_delete: bool,
    /// Whether it belongs to `connection`.
    pub exclusive: bool,
    /// The declaring connection, if there is one.
    pub connection: Option<ConnectionId>,
    /// Its arguments.
    pub arguments: Arguments,
}

impl DeclareQueue {
    /// A durable queue for every connection, which stays.
    pub fn durable(vhost: Arc<str>, name: Arc<str>, arguments: Arguments) -> Self {
        Self {
            vhost,
            name,
            server_named: false,
            durable: true,
            auto_delete: false,
            exclusive: false,
            connection: None,
            arguments,
        }
    }
}

/// Arguments of [`Command::ConvertQueue`]. The broker checks whether the queue's messages fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvertQueue {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// Its new type; `None` for that of the arguments, or else its own.
    pub queue_type: Option<QueueType>,
    /// Its new arguments, which replace all that it has; `None` to keep these.
    pub arguments: Option<Arguments>,
    /// The priorities of its messages so far, if they are other ones from now on.
    pub earlier: Option<EarlierPriorities>,
}

/// Arguments of [`Command::DeleteQueue`]. The broker checks whether the queue is unused or empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteQueue {
    /// The vhost.
    pub vhost: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The connection that asks, if there is one; the broker itself may delete any queue.
    pub connection: Option<ConnectionId>,
    /// The queue that is meant, if it is known: another one may have its name by now, and that one stays.
    pub id: Option<QueueId>,
}

/// The name of a binding's destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DestinationName {
    /// A queue.
    Queue(Arc<str>),
    /// An exchange.
    Exchange(Arc<str>),
}

/// Arguments of [`Command::Bind`] and [`Command::Unbind`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bind {
    /// The vhost of both ends.
    pub vhost: Arc<str>,
    /// The source exchange.
    pub source: Arc<str>,
    /// The destination.
    pub destination: DestinationName,
    /// The binding key.
    #[serde(with = "text")]
    pub routing_key: Arc<[u8]>,
    /// Its arguments.
    pub arguments: Arguments,
    /// The connection that asks, if there is one.
    pub connection: Option<ConnectionId>,
}
