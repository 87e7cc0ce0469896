//! Topic permissions: the routing keys that a user may use at a topic exchange.

use std::sync::Arc;

use super::Model;
use crate::{Change, CommandOutcome, Refused, SetTopicPermissions, TopicPermission};

impl Model {
    pub(super) fn set_topic_permissions(
        &mut self,
        command: SetTopicPermissions,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let SetTopicPermissions { user, vhost, exchange, write, read } = command;
        if self.topology.user(&user).is_none() {
            return Err(Refused::not_found(format!("no user '{user}'")));
        }
        if self.topology.vhost(&vhost).is_none() {
            return Err(Refused::no_vhost(&vhost));
        }
        if self.topology.exchange(&vhost, &exchange).is_none() {
            return Err(Refused::no_exchange(&vhost, &exchange));
        }
        let permission = Arc::new(TopicPermission::new(user, vhost, exchange, &write, &read)?);
        let current = self.topology.topic_permission(&permission.user, &permission.vhost, &permission.exchange);
        let outcome = match current {
            Some(current) if *current == permission => return Ok((CommandOutcome::Exists, Vec::new())),
            Some(_) => CommandOutcome::Updated,
            None => CommandOutcome::Created,
        };
        self.topology_mut().insert_topic_permission(permission.clone());
        Ok((outcome, vec![Change::TopicPermissionSet(permission)]))
    }

    pub(super) fn clear_topic_permissions(
        &mut self,
        user: &str,
        vhost: &str,
        exchange: Option<&str>,
    ) -> (CommandOutcome, Vec<Change>) {
        let meant = |permission: &&Arc<TopicPermission>| {
            *permission.vhost == *vhost && exchange.is_none_or(|exchange| *permission.exchange == *exchange)
        };
        let cleared: Vec<_> = self.topology.topic_permissions_of(user).filter(meant).cloned().collect();
        if cleared.is_empty() {
            return (CommandOutcome::Absent, Vec::new());
        }
        for permission in &cleared {
            self.topology_mut().remove_topic_permission(user, vhost, &permission.exchange);
        }
        (CommandOutcome::Deleted, cleared.into_iter().map(Change::TopicPermissionCleared).collect())
    }
}
