//! Where a new queue is: on one member, or in a placement of several.

use std::sync::Arc;

use super::Model;
use crate::{Change, Home, LeaderLocator, MemberNumber, PlacementNumber, Queue, QueuePlacement, QueueType, Value};

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
        self.topology.put_placement(placement.clone());
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
