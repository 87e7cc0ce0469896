//! Where a new queue is: on one member, or in a placement of several.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Model;
use crate::{
    Change, CommandOutcome, Home, LeaderLocator, MemberNumber, PlacementNumber, Queue, QueueId, QueuePlacement,
    QueueType, Value,
};

/// Most members of a placement.
const GROUP_SIZE_MAX: usize = 5;

impl Model {
    /// Decides on the home of a new queue. A queue that goes with its connection, or with the node that it is on, is where its client is.
    pub(super) fn place(&mut self, queue: &Queue, changes: &mut Vec<Change>) -> Home {
        if self.topology.members.is_empty() || !queue.durable || queue.exclusive_owner.is_some() {
            return queue.home;
        }
        let locator = self.locator_of(queue);
        let size = self.group_size_of(queue);
        let leader = match locator {
            LeaderLocator::ClientLocal => self.asker,
            LeaderLocator::Balanced => self.emptiest_member(),
        };
        match size.min(self.topology.members.len()) {
            0 | 1 => Home::Owner(leader),
            _ => Home::Placement(self.placement_for(leader, size, changes)),
        }
    }

    fn locator_of(&self, queue: &Queue) -> LeaderLocator {
        let matched = self.topology.effective_queue(queue, &[]).matched.policy;
        let of_policy = matched.as_ref().and_then(|policy| policy.definition.get("queue-leader-locator"));
        let name =
            queue.arguments.get("x-queue-leader-locator").and_then(Value::as_str).or_else(|| of_policy?.as_str());
        name.and_then(LeaderLocator::parse).unwrap_or(self.limits.leader_locator)
    }

    /// Number of members that a new queue is to have.
    fn group_size_of(&self, queue: &Queue) -> usize {
        if queue.queue_type != QueueType::Quorum {
            return 1;
        }
        let asked = queue.arguments.get("x-quorum-initial-group-size").and_then(Value::as_int);
        let size = asked.and_then(|size| usize::try_from(size).ok()).unwrap_or(self.limits.quorum_group_size);
        size.min(GROUP_SIZE_MAX)
    }

    /// The placement with the fewest queues, of those that are to have `size` members and that `leader` is to lead. They are made together at
    /// their first use.
    fn placement_for(&mut self, leader: MemberNumber, size: usize, changes: &mut Vec<Change>) -> PlacementNumber {
        let members = self.neighbours(leader, size);
        let is_of_set = |placement: &&Arc<QueuePlacement>| placement.size == size && placement.is_of(&members);
        if !self.topology.placements.values().any(|placement| is_of_set(&placement)) {
            for _ in 0..self.limits.placements_per_node.max(1) {
                let number = PlacementNumber(self.next_placement);
                self.next_placement += 1;
                self.put_placement(QueuePlacement::new(number, members.clone(), size), changes);
            }
        }
        let of_set = self.topology.placements.values().filter(is_of_set);
        let order = |number: &PlacementNumber| (self.topology.queues_in(*number), *number);
        of_set.map(|placement| placement.number).min_by_key(order).expect("they are made by now")
    }

    pub(super) fn put_placement(&mut self, placement: QueuePlacement, changes: &mut Vec<Change>) {
        let placement = Arc::new(placement);
        self.topology_mut().put_placement(placement.clone());
        changes.push(Change::PlacementPut(placement));
    }

    /// Gives placements that lack members others, those with the fewest replicas first.
    pub(super) fn fill_placements(&mut self, changes: &mut Vec<Change>) {
        let lacks = |placement: &&Arc<QueuePlacement>| placement.members.len() < placement.size;
        let lacking: Vec<_> = self.topology.placements.values().filter(lacks).cloned().collect();
        for placement in lacking {
            let mut members = placement.members.to_vec();
            while members.len() < placement.size {
                let others = self.topology.members.keys().copied().filter(|member| !members.contains(member));
                let order = |member: &MemberNumber| (self.topology.replicas_of(*member), *member);
                let Some(next) = others.min_by_key(order) else { break };
                members.push(next);
            }
            if members.len() > placement.members.len() {
                self.put_placement(placement.with(members.into()), changes);
            }
        }
    }

    /// Members that a queue is to have which has one so far, the asker; `None` if it stays there. An operator may ask for more than its
    /// declaration did.
    fn size_to_be(&self, queue: &Queue, is_asked: bool) -> Option<usize> {
        // A replica knows the priorities of a time, not those that a conversion left behind.
        let is_plain = queue.earlier_priorities.is_empty() && queue.delays_for.is_none() && queue.history_of.is_none();
        let is_alone = queue.durable && queue.exclusive_owner.is_none() && queue.home == Home::Owner(self.asker);
        let least =
            if is_asked && queue.queue_type == QueueType::Quorum { self.limits.quorum_group_size.max(2) } else { 0 };
        let size = self.group_size_of(queue).max(least);
        (is_plain && is_alone && size.min(self.topology.members.len()) > 1).then_some(size)
    }

    /// The queues whose messages only this member has, and which [`Command::SpreadQueues`](crate::Command::SpreadQueues) gives others: those
    /// that are to have some by their declaration, or if an operator has asked, any quorum queue.
    pub fn queues_to_spread(&self, is_asked: bool) -> Vec<Arc<Queue>> {
        if self.topology.members.len() < 2 || self.topology.queue_counts.of(Home::Owner(self.asker)) == 0 {
            return Vec::new();
        }
        self.topology.queues.values().filter(|queue| self.size_to_be(queue, is_asked).is_some()).cloned().collect()
    }

    /// Whether the cluster has the size at which this happens without being asked.
    pub fn has_its_size(&self) -> bool {
        self.limits.cluster_size > 1 && self.topology.members.len() >= self.limits.cluster_size
    }

    /// Gives queues of the asker other members. Their placements are new: the asker makes them with what it has of the queues, and the
    /// others get that as a state, which no entry of a placement that exists would bring them.
    pub(super) fn spread_queues(
        &mut self,
        queues: &[QueueId],
        with: Option<MemberNumber>,
    ) -> (CommandOutcome, Vec<Change>) {
        let most = self.limits.placements_per_node.max(1) as usize;
        let (mut made, mut changes) = (BTreeMap::<usize, Vec<PlacementNumber>>::new(), Vec::new());
        let queues: Vec<_> = queues.iter().filter_map(|id| self.topology.queue_by_id(*id).cloned()).collect();
        for (at, queue) in queues.into_iter().enumerate() {
            let Some(size) = self.size_to_be(&queue, with.is_some()) else { continue };
            let of_size = made.entry(size).or_default();
            let number = match of_size.get(at % most).copied() {
                Some(number) => number,
                None => {
                    let number = PlacementNumber(self.next_placement);
                    self.next_placement += 1;
                    let members = self.neighbours_with(size, with);
                    self.put_placement(QueuePlacement::of_one(number, members, size), &mut changes);
                    of_size.push(number);
                    number
                }
            };
            let queue = Arc::new(Queue { home: Home::Placement(number), ..Queue::clone(&queue) });
            self.topology_mut().insert_queue(queue.clone());
            changes.push(Change::QueueConverted(queue));
        }
        let outcome = if changes.is_empty() { CommandOutcome::Exists } else { CommandOutcome::Updated };
        (outcome, changes)
    }

    /// The asker and the next ones in the ring of all, among them the one that is to be.
    fn neighbours_with(&self, size: usize, with: Option<MemberNumber>) -> Arc<[MemberNumber]> {
        let members = self.neighbours(self.asker, size);
        match with.filter(|with| !members.contains(with) && self.topology.members.contains_key(with)) {
            None => members,
            Some(with) => {
                let others = members.iter().copied().skip(1).take(members.len() - 2);
                std::iter::once(self.asker).chain([with]).chain(others).collect()
            }
        }
    }

    /// A member and the next ones in the ring of all.
    fn neighbours(&self, first: MemberNumber, size: usize) -> Arc<[MemberNumber]> {
        let members: Vec<_> = self.topology.members.keys().copied().collect();
        let at = members.iter().position(|member| *member == first).unwrap_or(0);
        members.iter().cycle().skip(at).take(size.min(members.len())).copied().collect()
    }

    /// The member with the fewest queues, of those that can be given one. Of several with as few, the asker spares a link.
    fn emptiest_member(&self) -> MemberNumber {
        let can_have = |member: &MemberNumber| self.can_have.is_empty() || self.can_have.contains(member);
        let members = self.topology.members.keys().copied().filter(can_have);
        let order = |member: &MemberNumber| (self.topology.queues_of_member(*member), *member != self.asker, *member);
        members.min_by_key(order).unwrap_or(self.asker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arguments, Command, DeclareQueue, DeleteQueue, Limits, Permit, PutMember};

    fn submit(model: &mut Model, command: Command) -> Vec<Change> {
        model.submit(Permit::system(), command).expect("it is allowed").changes
    }

    fn cluster(members: u64) -> Model {
        let mut model = Model::new();
        for number in 0..members {
            let (name, addresses) = (format!("node-{number}").into(), Vec::new());
            let put = PutMember { name, node_id: number + 1, boot: 1, nonce: 1, addresses };
            submit(&mut model, Command::PutMember(put));
        }
        model.set_asker(MemberNumber(1));
        model
    }

    fn declare(model: &mut Model, name: &str, arguments: &[(&str, Value)]) -> Home {
        let quorum = Arguments::default().with("x-queue-type", "quorum".into());
        let arguments = arguments.iter().fold(quorum, |all, (key, value)| all.with(key, value.clone()));
        submit(model, Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), arguments)));
        model.topology().queue("/", name).expect("it is declared").home
    }

    fn placement(model: &Model, home: Home) -> Arc<QueuePlacement> {
        let number = home.placement().expect("it is replicated");
        model.topology().placement(number).expect("it was made").clone()
    }

    #[test]
    fn a_quorum_queue_of_a_cluster_has_a_placement() {
        let mut model = cluster(3);
        let home = declare(&mut model, "orders", &[]);
        let first = placement(&model, home);
        assert_eq!(*first.members, [1, 2, 0].map(MemberNumber), "its client's node is to lead it");
        assert_eq!(model.topology().placements().count(), 8, "they are made together");
        let homes: Vec<_> = (0..8).map(|number| declare(&mut model, &number.to_string(), &[])).collect();
        let used: std::collections::BTreeSet<_> = homes.iter().filter_map(|home| home.placement()).collect();
        assert_eq!((used.len(), model.topology().placements().count()), (8, 8), "the emptiest one is taken");
        assert_eq!(model.topology().queues_in(first.number), 2);
        let command = DeleteQueue { vhost: "/".into(), name: "orders".into(), connection: None, id: None };
        submit(&mut model, Command::DeleteQueue(command));
        assert_eq!(model.topology().queues_in(first.number), 1);
    }

    #[test]
    fn the_size_of_a_group_is_asked_for() {
        let mut model = cluster(5);
        let mut members = |name: &str, size: i64| {
            let home = declare(&mut model, name, &[("x-quorum-initial-group-size", size.into())]);
            home.placement().map(|_| placement(&model, home).members.len())
        };
        assert_eq!((members("one", 1), members("three", 3)), (None, Some(3)));
        assert_eq!((members("five", 5), members("nine", 9)), (Some(5), Some(5)));
        let mut model = cluster(5);
        model.set_limits(Limits { quorum_group_size: 5, ..Limits::default() });
        let home = declare(&mut model, "all", &[]);
        assert_eq!(placement(&model, home).members.len(), 5);
    }

    #[test]
    fn balanced_queues_are_led_by_all_members() {
        let mut model = cluster(3);
        let balanced = [("x-queue-leader-locator", Value::from("balanced"))];
        let homes: Vec<_> = (0..6).map(|number| declare(&mut model, &number.to_string(), &balanced)).collect();
        let leaders: Vec<_> = homes.iter().map(|home| placement(&model, *home).preferred().0).collect();
        assert_eq!(leaders, [1, 0, 2, 1, 0, 2]);
    }

    #[test]
    fn a_member_that_is_forgotten_leaves_its_placements() {
        let mut model = cluster(3);
        let home = declare(&mut model, "orders", &[]);
        let changes = submit(&mut model, Command::ForgetMember { name: "node-1".into() });
        assert_eq!(changes.iter().filter(|change| matches!(change, Change::PlacementPut(_))).count(), 8);
        assert_eq!(*placement(&model, home).members, [2, 0].map(MemberNumber));
        let queues = [0, 1, 2].map(|number| model.topology().queues_of_member(MemberNumber(number)));
        assert_eq!(queues, [0, 0, 1], "another one is to lead its queues");
        let again = Model::restore(&model.snapshot()).expect("it is its own");
        assert_eq!(again.topology().queues_of_member(MemberNumber(2)), 1);
    }

    #[test]
    fn a_member_that_joins_gets_replicas_where_one_is_missing() {
        let mut model = cluster(2);
        let home = declare(&mut model, "orders", &[]);
        assert_eq!(*placement(&model, home).members, [1, 0].map(MemberNumber));
        let join = |model: &mut Model, number: u64| {
            let (name, addresses) = (format!("node-{number}").into(), Vec::new());
            submit(model, Command::PutMember(PutMember { name, node_id: number + 1, boot: 1, nonce: 1, addresses }))
        };
        let changes = join(&mut model, 2);
        assert_eq!(changes.iter().filter(|change| matches!(change, Change::PlacementPut(_))).count(), 8);
        assert_eq!(*placement(&model, home).members, [1, 0, 2].map(MemberNumber));
        assert_eq!(*placement(&model, home).founders, [1, 0].map(MemberNumber));
        assert_eq!(declare(&mut model, "more", &[]).placement().map(|number| number.0 <= 8), Some(true));
        // One is replaced.
        submit(&mut model, Command::ForgetMember { name: "node-0".into() });
        assert_eq!(*placement(&model, home).members, [1, 2].map(MemberNumber));
        join(&mut model, 3);
        assert_eq!(*placement(&model, home).members, [1, 2, 3].map(MemberNumber));
        // A member that is there takes the place at once.
        join(&mut model, 4);
        submit(&mut model, Command::ForgetMember { name: "node-2".into() });
        assert_eq!(*placement(&model, home).members, [1, 3, 4].map(MemberNumber));
    }

    #[test]
    fn queues_from_before_others_joined_are_given_members() {
        let mut model = cluster(1);
        model.set_asker(MemberNumber(0));
        model.set_limits(Limits { cluster_size: 3, ..Limits::default() });
        let homes = ["a", "b"].map(|name| declare(&mut model, name, &[]));
        let alone = declare(&mut model, "alone", &[("x-quorum-initial-group-size", 1.into())]);
        assert_eq!((homes, alone), ([Home::Owner(MemberNumber(0)); 2], Home::Owner(MemberNumber(0))));
        for number in 1..3 {
            assert!(!model.has_its_size());
            let (name, addresses) = (format!("node-{number}").into(), Vec::new());
            submit(
                &mut model,
                Command::PutMember(PutMember { name, node_id: number + 1, boot: 1, nonce: 1, addresses }),
            );
        }
        assert!(model.has_its_size());
        let queues: Vec<_> = model.queues_to_spread(false).iter().map(|queue| queue.id).collect();
        assert_eq!(queues.len(), 2, "one asked for a group of one");
        // Another member's queues are left as they are.
        model.set_asker(MemberNumber(2));
        assert_eq!(submit(&mut model, Command::SpreadQueues { queues: queues.clone(), with: None }), []);
        model.set_asker(MemberNumber(0));
        let mut follower = model.clone();
        let changes = submit(&mut model, Command::SpreadQueues { queues: queues.clone(), with: None });
        let made: Vec<_> = ["a", "b"].iter().map(|name| model.topology().queue("/", name).unwrap().home).collect();
        for home in &made {
            let placement = placement(&model, *home);
            assert_eq!(*placement.members, [0, 1, 2].map(MemberNumber));
            assert_eq!(*placement.founders, [MemberNumber(0)]);
        }
        assert_ne!(made[0], made[1], "several placements share them");
        assert_eq!(model.queues_to_spread(false), []);
        assert_eq!(model.queues_to_spread(true).len(), 1, "an operator may ask for more");
        assert_eq!(submit(&mut model, Command::SpreadQueues { queues, with: None }), []);
        let followed = follower.follow(&crate::entry_of(&changes).expect("a change")).expect("it is readable");
        assert_eq!(followed.iter().filter(|change| matches!(change, Change::QueueConverted(_))).count(), 2);
        assert_eq!(follower.topology().queue("/", "a"), model.topology().queue("/", "a"));
        assert_eq!(model.topology().queues_of_member(MemberNumber(0)), 3);
        let members = |size, with| model.neighbours_with(size, Some(MemberNumber(with))).to_vec();
        assert_eq!(members(3, 1), [0, 1, 2].map(MemberNumber));
        assert_eq!(members(2, 2), [0, 2].map(MemberNumber), "the one that was asked for is among them");
        assert_eq!(members(2, 0), [0, 1].map(MemberNumber));
    }

    #[test]
    fn placements_are_followed_and_outlive_a_restart() {
        let mut model = cluster(3);
        let mut follower = model.clone();
        let home = declare(&mut model, "orders", &[]);
        let again = Model::restore(&model.snapshot()).expect("it is its own");
        assert_eq!(again.topology().placements().count(), 8);
        assert_eq!(again.topology().queues_in(home.placement().unwrap()), 1);
        let declare = DeclareQueue::durable(
            "/".into(),
            "more".into(),
            Arguments::default().with("x-queue-type", "quorum".into()),
        );
        let mut leader = follower.clone();
        let changes = submit(&mut leader, Command::DeclareQueue(declare));
        let entry = crate::entry_of(&changes).expect("it changes something");
        let followed = follower.follow(&entry).expect("it is readable");
        assert_eq!(followed.iter().filter(|change| matches!(change, Change::PlacementPut(_))).count(), 8);
        assert_eq!(follower.topology().queue("/", "more"), leader.topology().queue("/", "more"));
        let mut later = again;
        later.set_asker(MemberNumber(2));
        let other = self::declare(&mut later, "other", &[]);
        assert_eq!(placement(&later, other).number, PlacementNumber(9), "no number is given twice");
    }
}
