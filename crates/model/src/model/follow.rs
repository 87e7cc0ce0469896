//! The entries of a cluster, as every member carries them out: what was decided elsewhere becomes changes here.

use std::sync::Arc;

use super::Model;
use crate::record::{self, Effect, RecordError};
use crate::{BindingsBetween, Change, QueueId};

impl Model {
    /// Carries out a record of [`entry_of`](crate::entry_of), and returns its changes in order. Nothing is decided anew; what is there
    /// already, or gone already, is no change.
    ///
    /// # Errors
    /// The record can't be read; nothing changed.
    pub fn follow(&mut self, record: &[u8]) -> Result<Vec<Change>, RecordError> {
        let mut changes = Vec::new();
        for effect in record::decode::<Vec<Effect>>(record)? {
            self.follow_effect(effect, &mut changes);
        }
        Ok(changes)
    }

    fn follow_effect(&mut self, effect: Effect, changes: &mut Vec<Change>) {
        match effect {
            Effect::Vhost(name) => {
                if self.topology.vhost(&name).is_none() {
                    self.apply(Effect::Vhost(name.clone()));
                    changes.push(Change::VhostCreated(name));
                }
            }
            Effect::DropVhost(name) => changes.extend(self.drop_vhost(&name)),
            Effect::Policy(policy) => {
                let vhost = policy.vhost.clone();
                changes.push(Change::PolicySet(policy.clone()));
                self.with_alternates(&vhost, changes, |model| model.apply(Effect::Policy(policy)));
            }
            Effect::DropPolicy { kind, vhost, name } => {
                changes.extend(self.clear_policy(kind, &vhost, &name).1);
                self.topology_mut().generation += 1;
            }
            Effect::DropUser(name) => {
                changes.extend(self.delete_user(&name).1);
                self.topology_mut().generation += 1;
            }
            Effect::DropPermission { user, vhost } => {
                changes.extend(self.clear_permissions(&user, &vhost).1);
                self.topology_mut().generation += 1;
            }
            Effect::DropTopicPermission { user, vhost, exchange } => {
                changes.extend(self.clear_topic_permissions(&user, &vhost, Some(&exchange)).1);
                self.topology_mut().generation += 1;
            }
            Effect::Exchange(exchange) => {
                self.apply(Effect::Exchange(exchange.clone()));
                changes.push(Change::ExchangeDeclared(exchange.clone()));
                if exchange.alternate().is_none()
                    && let Some(alternate) = self.topology.alternate_of(&exchange)
                {
                    changes.push(Change::AlternateChanged(exchange, Some(alternate)));
                }
            }
            Effect::DropExchange { vhost, name, id } => {
                let meant = self.topology.exchange(&vhost, &name).filter(|exchange| exchange.id == id);
                if let Some(exchange) = meant.cloned() {
                    // Exchanges that go with it have effects of their own.
                    let _ = self.take_exchange(exchange, changes);
                    self.topology_mut().generation += 1;
                }
            }
            Effect::Queue(queue) => changes.push(self.follow_queue(queue)),
            Effect::DropQueue(id) => self.follow_end_of_queue(id, changes),
            Effect::Binding(binding) => {
                if !self.topology.has_binding(&binding) {
                    self.apply(Effect::Binding(binding.clone()));
                    changes.push(Change::Bound(binding));
                }
            }
            Effect::DropBinding(binding) => {
                if self.topology.has_binding(&binding) {
                    self.apply(Effect::DropBinding(binding.clone()));
                    changes.push(Change::Unbound(BindingsBetween::from(binding)));
                }
            }
            plain => {
                changes.extend(self.plain_change(&plain));
                self.apply(plain);
            }
        }
    }

    /// The change of an effect that stands for exactly one.
    fn plain_change(&self, effect: &Effect) -> Option<Change> {
        Some(match effect {
            Effect::VhostSettings { vhost, settings } => Change::VhostSet(vhost.clone(), settings.clone()),
            Effect::Limits { owner, values } => Change::LimitsSet(owner.clone(), values.clone()),
            Effect::GlobalParameter { name, value } => Change::GlobalParameter(name.clone(), Some(value.clone())),
            Effect::DropGlobalParameter(name) => Change::GlobalParameter(name.clone(), None),
            Effect::User(user) => Change::UserPut(user.clone()),
            Effect::Permission(permission) => Change::PermissionsSet(permission.clone()),
            Effect::TopicPermission(permission) => Change::TopicPermissionSet(permission.clone()),
            Effect::Member(member) => Change::MemberPut(member.clone()),
            Effect::DropMember(number) => Change::MemberForgotten(self.topology.member(*number)?.clone()),
            Effect::Placement(placement) => Change::PlacementPut(placement.clone()),
            _ => return None,
        })
    }

    fn follow_queue(&mut self, queue: Arc<crate::Queue>) -> Change {
        let id = queue.id;
        let is_known = self.topology.queue_by_id(id).is_some();
        self.apply(Effect::Queue(queue));
        let queue = self.topology.queue_by_id(id).expect("it was inserted").clone();
        if is_known { Change::QueueConverted(queue) } else { Change::QueueDeclared(queue) }
    }

    fn follow_end_of_queue(&mut self, id: QueueId, changes: &mut Vec<Change>) {
        let Some(queue) = self.topology.queue_by_id(id).cloned() else { return };
        let removed = self.topology_mut().remove_queue(&queue);
        changes.extend(removed.into_iter().map(Change::Unbound));
        changes.push(Change::QueueDeleted(queue));
        self.topology_mut().generation += 1;
    }
}
