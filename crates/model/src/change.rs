use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Binding, BindingsBetween, BindingsOfSource, Exchange, LimitOwner, LimitValues, Member, Permission, Policy, Queue,
    QueuePlacement, Refused, TopicPermission, User, VhostSettings,
};

/// One change that a command made; the changes of a command come in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A vhost was created; its predeclared exchanges follow.
    VhostCreated(Arc<str>),
    /// A vhost was deleted; the changes of everything in it came before.
    VhostDeleted(Arc<str>),
    /// A vhost got other settings.
    VhostSet(Arc<str>, Arc<VhostSettings>),
    /// A vhost or user got these limits, which replace all earlier ones.
    LimitsSet(LimitOwner, LimitValues),
    /// A global parameter of the cluster got this value; `None` if it was deleted.
    GlobalParameter(Arc<str>, Option<Arc<serde_json::Value>>),
    /// A queue was created.
    QueueDeclared(Arc<Queue>),
    /// A queue got another type or other arguments.
    QueueConverted(Arc<Queue>),
    /// A queue was deleted; the changes of its bindings came before.
    QueueDeleted(Arc<Queue>),
    /// An exchange was created.
    ExchangeDeclared(Arc<Exchange>),
    /// An exchange was deleted; the changes of its bindings came before.
    ExchangeDeleted(Arc<Exchange>),
    /// A binding was created.
    Bound(Arc<Binding>),
    /// All bindings whose source is a deleted exchange were deleted.
    SourceUnbound(BindingsOfSource),
    /// Bindings between two ends were deleted.
    Unbound(BindingsBetween),
    /// A user was created or changed.
    UserPut(Arc<User>),
    /// A user was deleted; the changes of its permissions came before.
    UserDeleted(Arc<User>),
    /// A user got other permissions in a vhost.
    PermissionsSet(Arc<Permission>),
    /// A user lost access to a vhost.
    PermissionsCleared(Arc<Permission>),
    /// A user is now limited to these routing keys at a topic exchange.
    TopicPermissionSet(Arc<TopicPermission>),
    /// A user is no longer limited at a topic exchange.
    TopicPermissionCleared(Arc<TopicPermission>),
    /// A policy was set or changed.
    PolicySet(Arc<Policy>),
    /// A policy was cleared.
    PolicyCleared(Arc<Policy>),
    /// A node joined the cluster, or a member has started again.
    MemberPut(Arc<Member>),
    /// A member was struck.
    MemberForgotten(Arc<Member>),
    /// A placement was made, or has other members.
    PlacementPut(Arc<QueuePlacement>),
    /// Policies give an exchange another alternate exchange, or none any more. Follows from the change before, and is never logged.
    AlternateChanged(Arc<Exchange>, Option<Arc<str>>),
}

/// The result of a command, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandOutcome {
    /// The object was created.
    Created,
    /// The object already existed and was equal: nothing changed.
    Exists,
    /// The object already existed, and its properties changed.
    Updated,
    /// The object was deleted.
    Deleted,
    /// There was nothing to delete.
    Absent,
}

/// The effects of a command.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Submitted {
    /// The result in one word.
    pub outcome: CommandOutcome,
    /// The changes, in order. Empty for `Exists` and `Absent`.
    pub changes: Vec<Change>,
    /// The record to log before the result is reported; `None` if nothing survives a restart.
    pub record: Option<Vec<u8>>,
    /// The difference between a declaration and the queue that exists, if the vhost accepts it with a warning.
    pub mismatch: Option<Refused>,
}

impl Submitted {
    /// The queue that the command created, if it did.
    pub fn queue_declared(&self) -> Option<&Arc<Queue>> {
        self.changes.iter().find_map(|change| match change {
            Change::QueueDeclared(queue) => Some(queue),
            _ => None,
        })
    }
}
