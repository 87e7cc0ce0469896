//! Linearizability of the histories of objects that clients create, replace, delete and look up.
//!
//! The history of an object is linearizable if its operations have an order in which each has the outcome that its client saw, and which
//! keeps those apart that didn't overlap. The search is Wing and Gong's, with the states that were met remembered.

use std::collections::HashSet;

/// The effect of an operation on its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectAction {
    /// It has this value from then on.
    Put(u64),
    /// It has this value from then on, unless it existed.
    Create(u64),
    /// It is gone from then on.
    Delete,
    /// Nothing changes.
    Read,
}

/// The state in which an operation found its object, as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFound {
    /// It existed with this value.
    Value(u64),
    /// It existed, whatever its value.
    Something,
    /// It didn't exist.
    Nothing,
    /// The client wasn't told, but the operation took effect.
    Unsaid,
}

/// An operation of a client on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStep {
    /// The operation.
    pub action: ObjectAction,
    /// The time when it was asked for.
    pub from: u64,
    /// The time of its answer, and the answer. Without one it may take effect at any later time, or never.
    pub end: Option<(u64, ObjectFound)>,
}

/// Most operations in a history.
pub const OBJECT_STEPS_MAX: usize = 128;

/// Whether the history of an object that doesn't exist at first is linearizable.
///
/// # Panics
/// With more than [`OBJECT_STEPS_MAX`] operations.
#[must_use]
pub fn is_linearizable(steps: &[ObjectStep]) -> bool {
    assert!(steps.len() <= OBJECT_STEPS_MAX, "{} operations", steps.len());
    let answered = steps.iter().enumerate().filter(|(_, step)| step.end.is_some());
    let all = answered.fold(0_u128, |all, (at, _)| all | 1 << at);
    let (mut met, mut open) = (HashSet::new(), vec![(0_u128, None::<u64>)]);
    while let Some((done, value)) = open.pop() {
        if done & all == all {
            return true;
        }
        if !met.insert((done, value)) {
            continue;
        }
        let left = || steps.iter().enumerate().filter(|(at, _)| done & 1 << at == 0);
        // An operation that was asked for after another one was answered comes behind it.
        let first_end = left().filter_map(|(_, step)| step.end.map(|(at, _)| at)).min().unwrap_or(u64::MAX);
        for (at, step) in left().filter(|(_, step)| step.from <= first_end) {
            if step.end.is_none_or(|(_, found)| fits(found, value)) {
                open.push((done | 1 << at, after(step.action, value)));
            }
        }
    }
    false
}

fn after(action: ObjectAction, value: Option<u64>) -> Option<u64> {
    match action {
        ObjectAction::Put(value) => Some(value),
        ObjectAction::Create(created) => value.or(Some(created)),
        ObjectAction::Delete => None,
        ObjectAction::Read => value,
    }
}

fn fits(found: ObjectFound, value: Option<u64>) -> bool {
    match found {
        ObjectFound::Value(seen) => value == Some(seen),
        ObjectFound::Something => value.is_some(),
        ObjectFound::Nothing => value.is_none(),
        ObjectFound::Unsaid => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: ObjectAction, from: u64, end: u64, found: ObjectFound) -> ObjectStep {
        ObjectStep { action, from, end: Some((end, found)) }
    }

    #[test]
    fn a_read_behind_an_answered_write_sees_it() {
        let put = step(ObjectAction::Put(1), 0, 10, ObjectFound::Nothing);
        let late = |found| step(ObjectAction::Read, 11, 12, found);
        assert!(is_linearizable(&[put, late(ObjectFound::Value(1))]));
        assert!(!is_linearizable(&[put, late(ObjectFound::Nothing)]));
        let beside = step(ObjectAction::Read, 5, 12, ObjectFound::Nothing);
        assert!(is_linearizable(&[put, beside]), "they overlap");
    }

    #[test]
    fn a_write_without_an_answer_may_take_effect_late_or_never() {
        let lost = ObjectStep { action: ObjectAction::Put(1), from: 0, end: None };
        let read = |from, found| step(ObjectAction::Read, from, from + 1, found);
        assert!(is_linearizable(&[lost, read(10, ObjectFound::Nothing), read(20, ObjectFound::Value(1))]));
        assert!(!is_linearizable(&[lost, read(10, ObjectFound::Value(1)), read(20, ObjectFound::Nothing)]));
        assert!(is_linearizable(&[lost, read(10, ObjectFound::Nothing)]));
    }

    #[test]
    fn no_write_is_carried_out_twice() {
        let puts = [
            step(ObjectAction::Put(1), 0, 10, ObjectFound::Nothing),
            step(ObjectAction::Put(2), 11, 12, ObjectFound::Something),
        ];
        let read = |found| step(ObjectAction::Read, 20, 21, found);
        assert!(is_linearizable(&[puts[0], puts[1], read(ObjectFound::Value(2))]));
        assert!(!is_linearizable(&[puts[0], puts[1], read(ObjectFound::Value(1))]));
        let gone = step(ObjectAction::Delete, 13, 14, ObjectFound::Something);
        let again = step(ObjectAction::Delete, 15, 16, ObjectFound::Something);
        assert!(!is_linearizable(&[puts[0], puts[1], gone, again]));
    }

    #[test]
    fn a_creation_keeps_the_value_that_is_there() {
        let first = step(ObjectAction::Create(1), 0, 10, ObjectFound::Nothing);
        let second = step(ObjectAction::Create(2), 11, 12, ObjectFound::Something);
        let read = |found| step(ObjectAction::Read, 20, 21, found);
        assert!(is_linearizable(&[first, second, read(ObjectFound::Value(1))]));
        assert!(!is_linearizable(&[first, second, read(ObjectFound::Value(2))]));
        let unsaid = step(ObjectAction::Delete, 13, 14, ObjectFound::Unsaid);
        assert!(is_linearizable(&[first, unsaid, read(ObjectFound::Nothing)]));
        assert!(!is_linearizable(&[first, unsaid, read(ObjectFound::Value(1))]));
    }
}
