use std::sync::Arc;

use crate::{
    Binding, BindingsBetween, Exchange, LimitOwner, LimitValues, Permission, Queue, TopicPermission, User,
    VhostSettings,
};

/// One thing that a command changed, in the order in which it happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A vhost exists; its predeclared exchanges follow.
    VhostCreated(Arc<str>),
    /// A vhost is gone; the changes of all that it held came before.
    VhostDeleted(Arc<str>),
    /// A vhost has other settings than before.
    VhostSet(Arc<str>, Arc<VhostSettings>),
    /// A vhost or user has these limits now, and no other.
    LimitsSet(LimitOwner, LimitValues),
    /// A parameter of the cluster has this value now; `None` if it is gone.
    GlobalParameter(Arc<str>, Option<Arc<serde_json::Value>>),
    /// A queue exists.
    QueueDeclared(Arc<Queue>),
    /// A queue is gone; the changes of its bindings came before.
    QueueDeleted(Arc<Queue>),
    /// An exchange exists.
    ExchangeDeclared(Arc<Exchange>),
    /// An exchange is gone; the changes of its bindings came before.
    ExchangeDeleted(Arc<Exchange>),
    /// A binding exists.
    Bound(Arc<Binding>),
    /// Bindings between two ends are gone.
    Unbound(BindingsBetween),
    /// A user was created or changed.
    UserPut(Arc<User>),
    /// A user is gone; the changes of its permissions came before.
    UserDeleted(Arc<User>),
    /// A user may do other things in a vhost than before.
    PermissionsSet(Arc<Permission>),
    /// A user may no longer enter a vhost.
    PermissionsCleared(Arc<Permission>),
    /// A user is limited to other routing keys at a topic exchange than before.
    TopicPermissionSet(Arc<TopicPermission>),
    /// A user isn't limited at a topic exchange any more.
    TopicPermissionCleared(Arc<TopicPermission>),
}

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object is new.
    Created,
    /// The object was there, and equal: nothing changed.
    Exists,
    /// The object was there and has other properties now.
    Updated,
    /// The object is gone.
    Deleted,
    /// There was nothing to delete.
    Absent,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Submitted {
    /// In one word.
    pub outcome: Outcome,
    /// In detail. Empty for `Exists` and `Absent`.
    pub changes: Vec<Change>,
    /// What must be logged before anybody is told of it; `None` if nothing of it survives a restart.
    pub record: Option<Vec<u8>>,
}

impl Submitted {
    /// The queue that a declaration created, if it did.
    pub fn queue_declared(&self) -> Option<&Arc<Queue>> {
        self.changes.iter().find_map(|change| match change {
            Change::QueueDeclared(queue) => Some(queue),
            _ => None,
        })
    }
}
