//! Groups of readers of a stream, of which one at a time is served: single active consumers, by the name that they share.
//!
//! The first reader of a group is the active one. In a partition of a super stream it is another one: members of the same groups come to
//! all partitions in about the same order, so the number of the partition picks the member, and partitions are spread over members.
//!
//! A reader that becomes active is told so, and is served once its client has answered with the offset at which it goes on. One that has to
//! step down is told, gets nothing more, and answers when it has stored its offset; then the next one becomes active. If it doesn't
//! answer in time, that happens all the same. The connection of one that doesn't answer that it is active is closed by its session.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::consumer_id::ConsumerId;
use crate::nanos::Nanos;
use crate::status::{GroupMemberStatus, GroupStatus};
use crate::stream_start::GroupMember;

/// How long a reader may take to step down.
pub(crate) const STEP_DOWN_MAX: Nanos = 500_000_000;

/// Readers that have to be told whether they are active.
pub(crate) type ActivityChanges = Vec<(ConsumerId, bool)>;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// This one is active.
    Of(ConsumerId),
    /// This one steps down until this time at the latest.
    SteppingDown(ConsumerId, Nanos),
}

#[derive(Debug)]
struct Group {
    /// Members in the order in which they came.
    members: Vec<ConsumerId>,
    partition: Option<u32>,
    turn: Turn,
}

impl Group {
    /// The member that is to be active. A group has at least one.
    fn wanted(&self) -> ConsumerId {
        self.members[self.partition.map_or(0, |partition| partition as usize % self.members.len())]
    }

    fn activate(&mut self) -> ActivityChanges {
        let next = self.wanted();
        self.turn = Turn::Of(next);
        vec![(next, true)]
    }

    /// Makes the wanted member active, after the one that is.
    fn rebalance(&mut self, now: Nanos) -> ActivityChanges {
        match self.turn {
            Turn::Of(active) if active != self.wanted() => {
                self.turn = Turn::SteppingDown(active, now + STEP_DOWN_MAX);
                vec![(active, false)]
            }
            Turn::Of(_) | Turn::SteppingDown(..) => Vec::new(),
        }
    }
}

/// All groups of a stream.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_name: BTreeMap<Arc<str>, Group>,
    names: FxHashMap<ConsumerId, Arc<str>>,
}

impl Groups {
    /// Whether a member fits its group: it has come to the same partition, of which its turn depends.
    pub(super) fn takes(&self, member: &GroupMember) -> bool {
        self.by_name.get(&member.name).is_none_or(|group| group.partition == member.partition)
    }

    /// Adds a member.
    pub(super) fn add(&mut self, member: &GroupMember, id: ConsumerId, now: Nanos) -> ActivityChanges {
        self.names.insert(id, member.name.clone());
        match self.by_name.get_mut(&member.name) {
            Some(group) => {
                group.members.push(id);
                group.rebalance(now)
            }
            None => {
                let group = Group { members: vec![id], partition: member.partition, turn: Turn::Of(id) };
                self.by_name.insert(member.name.clone(), group);
                vec![(id, true)]
            }
        }
    }

    /// Removes a reader, if it is a member of a group.
    pub(super) fn remove(&mut self, id: ConsumerId, now: Nanos) -> ActivityChanges {
        let Some(name) = self.names.remove(&id) else { return Vec::new() };
        let Some(group) = self.by_name.get_mut(&name) else { return Vec::new() };
        group.members.retain(|member| *member != id);
        if group.members.is_empty() {
            self.by_name.remove(&name);
            return Vec::new();
        }
        match group.turn {
            Turn::Of(active) | Turn::SteppingDown(active, _) if active == id => group.activate(),
            _ => group.rebalance(now),
        }
    }

    /// Whether a reader may be served: it is active.
    pub(super) fn is_active(&self, id: ConsumerId) -> bool {
        self.group_of(id).is_some_and(|group| group.turn == Turn::Of(id))
    }

    /// All groups, with the names of the tag and the connection of each member.
    pub(super) fn status(&self, of_member: impl Fn(ConsumerId) -> (Arc<str>, Arc<str>)) -> Vec<GroupStatus> {
        let member = |group: &Group, id: ConsumerId| {
            let (tag, connection) = of_member(id);
            GroupMemberStatus { tag, connection, is_active: group.turn == Turn::Of(id) }
        };
        let shown = |(name, group): (&Arc<str>, &Group)| GroupStatus {
            name: name.clone(),
            partition: group.partition,
            members: group.members.iter().map(|id| member(group, *id)).collect(),
        };
        self.by_name.iter().map(shown).collect()
    }

    /// Ends the wait for a member that steps down, and makes the wanted member active. `None` if there is no such group.
    pub(super) fn activate(&mut self, name: &str, now: Nanos) -> Option<ActivityChanges> {
        let group = self.by_name.get_mut(name)?;
        Some(match group.turn {
            Turn::SteppingDown(..) => group.activate(),
            Turn::Of(_) => group.rebalance(now),
        })
    }

    fn group_of(&self, id: ConsumerId) -> Option<&Group> {
        self.names.get(&id).and_then(|name| self.by_name.get(name))
    }

    /// A reader has stepped down.
    pub(super) fn stepped_down(&mut self, id: ConsumerId) -> ActivityChanges {
        let Some(group) = self.names.get(&id).and_then(|name| self.by_name.get_mut(name)) else { return Vec::new() };
        match group.turn {
            Turn::SteppingDown(active, _) if active == id => group.activate(),
            _ => Vec::new(),
        }
    }

    /// Time is up for readers that step down.
    pub(super) fn expire(&mut self, now: Nanos) -> ActivityChanges {
        let is_late = |group: &Group| matches!(group.turn, Turn::SteppingDown(_, until) if until <= now);
        self.by_name.values_mut().filter(|group| is_late(group)).flat_map(Group::activate).collect()
    }

    /// The next time at which one of them is late.
    pub(super) fn due(&self) -> Option<Nanos> {
        let due = |group: &Group| match group.turn {
            Turn::SteppingDown(_, until) => Some(until),
            Turn::Of(_) => None,
        };
        self.by_name.values().filter_map(due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn member(partition: Option<u32>) -> GroupMember {
        GroupMember { name: "group".into(), partition }
    }

    #[test]
    fn the_first_is_active_and_the_next_follows_it() {
        let mut groups = Groups::default();
        let [a, b, c] = [1, 2, 3].map(ConsumerId);
        assert_eq!(groups.add(&member(None), a, 0), [(a, true)]);
        assert_eq!((groups.add(&member(None), b, 0), groups.add(&member(None), c, 0)), (vec![], vec![]));
        assert_eq!(groups.remove(b, 0), []);
        assert_eq!(groups.remove(a, 0), [(c, true)]);
        assert!(groups.is_active(c) && !groups.is_active(b));
        assert_eq!((groups.remove(c, 0), groups.by_name.len(), groups.names.len()), (vec![], 0, 0));
    }

    #[test]
    fn a_member_comes_to_the_partition_of_its_group() {
        let mut groups = Groups::default();
        assert!(groups.takes(&member(None)) && groups.takes(&member(Some(1))));
        groups.add(&member(Some(1)), ConsumerId(1), 0);
        assert_eq!([None, Some(0), Some(1)].map(|partition| groups.takes(&member(partition))), [false, false, true]);
        groups.remove(ConsumerId(1), 0);
        assert!(groups.takes(&member(None)));
    }

    #[test]
    fn partitions_are_spread_over_the_members() {
        let mut groups = Groups::default();
        let [a, b] = [1, 2].map(ConsumerId);
        assert_eq!(groups.add(&member(Some(1)), a, 0), [(a, true)]);
        assert_eq!(groups.add(&member(Some(1)), b, 0), [(a, false)]);
        assert!(!groups.is_active(a) && !groups.is_active(b));
        assert_eq!(groups.stepped_down(b), [], "it isn't its turn");
        assert_eq!(groups.stepped_down(a), [(b, true)]);
        assert_eq!(groups.remove(b, 0), [(a, true)]);
    }

    #[test]
    fn a_silent_member_holds_up_its_group_only_for_a_while() {
        let mut groups = Groups::default();
        let [a, b] = [1, 2].map(ConsumerId);
        groups.add(&member(Some(1)), a, 0);
        groups.add(&member(Some(1)), b, 0);
        assert_eq!((groups.due(), groups.expire(499 * MS)), (Some(500 * MS), vec![]));
        assert_eq!(groups.expire(500 * MS), [(b, true)]);
        assert_eq!((groups.due(), groups.stepped_down(a)), (None, vec![]));
    }

    #[test]
    fn an_operator_ends_the_wait_for_one_that_steps_down() {
        let mut groups = Groups::default();
        let [a, b] = [1, 2].map(ConsumerId);
        groups.add(&member(Some(1)), a, 0);
        groups.add(&member(Some(1)), b, 0);
        let active = |groups: &Groups| {
            let shown = groups.status(|id| (id.0.to_string().into(), "connection".into()));
            assert_eq!((shown.len(), &*shown[0].name, shown[0].partition), (1, "group", Some(1)));
            shown[0].members.iter().map(|member| (member.tag.to_string(), member.is_active)).collect::<Vec<_>>()
        };
        let members = |of_a, of_b| vec![("1".to_owned(), of_a), ("2".to_owned(), of_b)];
        assert_eq!(active(&groups), members(false, false));
        assert_eq!(groups.activate("group", 0), Some(vec![(b, true)]));
        assert_eq!(active(&groups), members(false, true));
        assert_eq!((groups.activate("group", 0), groups.activate("other", 0)), (Some(vec![]), None));
    }

    #[test]
    fn one_that_leaves_while_it_steps_down_makes_way_at_once() {
        let mut groups = Groups::default();
        let [a, b] = [1, 2].map(ConsumerId);
        groups.add(&member(Some(1)), a, 0);
        groups.add(&member(Some(1)), b, 0);
        assert_eq!(groups.remove(a, 0), [(b, true)]);
        groups.add(&member(Some(1)), a, 0);
        assert!(!groups.is_active(b), "the second of two is wanted");
        assert_eq!(groups.remove(a, 0), [], "the one that steps down answers first");
        assert_eq!(groups.stepped_down(b), [(b, true)], "it is wanted again");
    }

    /// A thousand members on a hundred partitions, each of which comes, leaves and answers when it likes, or never, for an hour.
    #[test]
    fn no_partition_rests_without_an_active_member() {
        const MEMBERS: u64 = 1_000;
        const PARTITIONS: u64 = 100;
        const HOUR: Nanos = 3_600_000 * MS;
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut partitions: Vec<Groups> = (0..PARTITIONS).map(|_| Groups::default()).collect();
        // Since when nobody is active in a partition that has members.
        let mut idle_since: Vec<Option<Nanos>> = vec![None; PARTITIONS as usize];
        let mut events: BTreeMap<(Nanos, u64), u64> = BTreeMap::new();
        let mut serial = 0;
        let mut plan = |events: &mut BTreeMap<(Nanos, u64), u64>, at: Nanos, event: u64| {
            serial += 1;
            events.insert((at, serial), event);
        };
        (0..MEMBERS).for_each(|member| plan(&mut events, member * MS, member));
        let (mut changes, mut late, mut longest) = (0, 0, 0);
        while let Some(((now, _), event)) = events.pop_first().filter(|((now, _), _)| *now < HOUR) {
            // Events below the number of members are comings and goings, those behind it answers, and then there are timers.
            let (kind, of) = (event / MEMBERS, event % MEMBERS);
            let at = of % PARTITIONS;
            let (groups, id) = (&mut partitions[at as usize], ConsumerId(of));
            let told = match kind {
                0 => {
                    plan(&mut events, now + (100 + random(20_000)) * MS, of);
                    changes += 1;
                    match groups.names.contains_key(&id) {
                        true => groups.remove(id, now),
                        false => groups.add(&member(Some(at as u32)), id, now),
                    }
                }
                1 => groups.stepped_down(id),
                _ => {
                    let told = groups.expire(now);
                    late += u64::from(!told.is_empty());
                    told
                }
            };
            for (told, active) in told {
                assert!(groups.names.contains_key(&told), "{told:?} is told, and isn't there");
                if !active && random(4) > 0 {
                    plan(&mut events, now + random(2_000) * MS, MEMBERS + told.0);
                }
            }
            if let Some(due) = groups.due() {
                plan(&mut events, due.max(now), 2 * MEMBERS + of);
            }
            let has_active = groups.by_name.values().all(|group| matches!(group.turn, Turn::Of(_)));
            let since = &mut idle_since[at as usize];
            match has_active {
                true => longest = longest.max(since.take().map_or(0, |since| now - since)),
                false => assert!(now - *since.get_or_insert(now) <= STEP_DOWN_MAX, "partition {at} rests"),
            }
        }
        assert!(changes > 100_000 && late > 1_000 && longest <= STEP_DOWN_MAX, "{changes} {late} {longest}");
    }
}
