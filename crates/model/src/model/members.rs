//! The nodes of a cluster.

use std::sync::Arc;

use super::Model;
use super::bindings;
use crate::{
    Change, CommandOutcome, Home, Member, MemberNumber, PutMember, Queue, QueuePlacement, Refused, RefusedKind,
};

/// Highest number of a member: ids that members give are below 2^63.
const MEMBER_MAX: u16 = 32_767;

impl Model {
    /// A node joins, or a member has started again.
    pub(super) fn put_member(&mut self, command: PutMember) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let PutMember { name, node_id, boot, nonce, addresses } = command;
        let refused = |text: String| Err(Refused::new(RefusedKind::NotAllowed, text));
        let known = self.topology.members().find(|member| member.node_id == node_id).cloned();
        if let Some(other) = self.topology.member_named(&name).filter(|member| member.node_id != node_id) {
            return refused(format!(
                "the cluster has a member '{name}' already, with another data directory (node id {:#x}, not {node_id:#x}); if its \
                 directory is lost, strike it with 'rabbitmqctl forget_cluster_node {name}' first, otherwise give this node another name",
                other.node_id
            ));
        }
        let (number, outcome) = match &known {
            None if self.next_member > MEMBER_MAX => {
                return refused(format!("the cluster has given {MEMBER_MAX} member numbers, and none is given twice"));
            }
            None => (self.free_number(), CommandOutcome::Created),
            Some(known) if boot < known.boot || boot == known.boot && nonce != known.nonce => {
                return refused(format!(
                    "the data directory of '{name}' is an older copy: it says start number {boot}, and the cluster has seen number {} \
                     (nonce {:#x}, not {nonce:#x}); start the newest directory, or strike the member with 'rabbitmqctl \
                     forget_cluster_node {}' and let it join anew",
                    known.boot, known.nonce, known.name
                ));
            }
            Some(known) => (known.number, CommandOutcome::Updated),
        };
        let member = Arc::new(Member { number, name, node_id, boot, nonce, addresses });
        if known.as_ref() == Some(&member) {
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        let mut changes = Vec::new();
        let is_new = known.is_none();
        if known.is_some_and(|known| known.boot < boot) {
            self.end_objects_of(number, |queue| !queue.is_logged(), &mut changes);
        }
        self.next_member = self.next_member.max(number.0 + 1);
        self.topology_mut().insert_member(member.clone());
        changes.push(Change::MemberPut(member));
        if is_new {
            self.fill_placements(&mut changes);
        }
        Ok((outcome, changes))
    }

    /// The number of the next node: none that was given before.
    fn free_number(&self) -> MemberNumber {
        #[cfg(feature = "planted-bugs")]
        if crate::planted::gives_numbers_again() {
            return MemberNumber(self.topology.members().map(|member| member.number.0 + 1).max().unwrap_or(0));
        }
        MemberNumber(self.next_member)
    }

    /// Whether this number was given to a node, which may have been forgotten since.
    #[must_use]
    pub fn has_numbered(&self, number: MemberNumber) -> bool {
        number.0 < self.next_member
    }

    /// Strikes a member, with the queues that only it has.
    pub(super) fn forget_member(&mut self, name: &str) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let Some(member) = self.topology.member_named(name).cloned() else {
            return Err(Refused::not_found(format!("the cluster has no member '{name}'")));
        };
        let mut changes = Vec::new();
        self.end_objects_of(member.number, |_| true, &mut changes);
        self.leave_placements(member.number, &mut changes);
        self.topology_mut().members.remove(&member.number);
        changes.push(Change::MemberForgotten(member));
        self.fill_placements(&mut changes);
        Ok((CommandOutcome::Deleted, changes))
    }

    /// Takes a member out of its placements. The last one of a placement stays: its queues are lost with it.
    fn leave_placements(&mut self, member: MemberNumber, changes: &mut Vec<Change>) {
        let with = |placement: &&Arc<QueuePlacement>| placement.has(member) && placement.members.len() > 1;
        let left: Vec<_> = self.topology.placements.values().filter(with).cloned().collect();
        for placement in left {
            let members = placement.members.iter().copied().filter(|other| *other != member).collect();
            self.put_placement(placement.with(members), changes);
        }
    }

    /// Deletes the queues of a member that `ends` says, and its exchanges that don't survive a restart.
    fn end_objects_of(&mut self, member: MemberNumber, ends: impl Fn(&Queue) -> bool, changes: &mut Vec<Change>) {
        let is_ending = |queue: &&Arc<Queue>| queue.home == Home::Owner(member) && ends(queue);
        let queues: Vec<_> = self.topology.queues.values().filter(is_ending).cloned().collect();
        for queue in queues {
            // An exchange that went with an earlier one may have taken it along.
            if self.topology.queue_by_id(queue.id).is_some() {
                let removed = self.topology_mut().remove_queue(&queue);
                let sources = bindings::sources_of(&removed);
                changes.extend(removed.into_iter().map(Change::Unbound));
                changes.push(Change::QueueDeleted(queue));
                self.auto_delete(sources, changes);
            }
        }
        let vhosts: Vec<_> = self.topology.vhosts().cloned().collect();
        for vhost in vhosts {
            let transient = |exchange: &&Arc<crate::Exchange>| exchange.transient_of == Some(member);
            let exchanges: Vec<_> = self.topology.exchanges(&vhost).filter(transient).cloned().collect();
            for exchange in exchanges {
                if self.topology.exchange(&vhost, &exchange.name).is_some_and(|now| now.id == exchange.id) {
                    self.drop_exchange(exchange, changes);
                }
            }
        }
    }
}
