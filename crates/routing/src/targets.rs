use std::sync::Arc;

use imbl::OrdMap;
use leveret_model::{Binding, Destination, QueueId};

/// The destination of a binding, as routing needs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RouteTarget {
    Queue(QueueId),
    Exchange(Arc<str>),
}

impl From<&Binding> for RouteTarget {
    fn from(binding: &Binding) -> Self {
        match &binding.destination {
            Destination::Queue { id, .. } => RouteTarget::Queue(*id),
            Destination::Exchange { name, .. } => RouteTarget::Exchange(name.clone()),
        }
    }
}

/// The targets of one key, each with its number of bindings, which may differ in arguments only. Most keys have one
/// target, and a map for each would cost half a kilobyte.
#[derive(Clone, Debug, Default)]
pub(crate) enum Targets {
    #[default]
    None,
    One(RouteTarget, u32),
    Many(OrdMap<RouteTarget, u32>),
}

impl Targets {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Targets::None)
    }

    /// Number of targets.
    pub(crate) fn len(&self) -> usize {
        match self {
            Targets::None => 0,
            Targets::One(..) => 1,
            Targets::Many(map) => map.len(),
        }
    }

    pub(crate) fn add(&mut self, target: RouteTarget) {
        match self {
            Targets::None => *self = Targets::One(target, 1),
            Targets::One(have, count) if *have == target => *count += 1,
            Targets::One(have, count) => {
                *self = Targets::Many(OrdMap::from_iter([(have.clone(), *count), (target, 1)]));
            }
            Targets::Many(map) => *map.entry(target).or_insert(0) += 1,
        }
    }

    pub(crate) fn remove(&mut self, target: &RouteTarget) {
        match self {
            Targets::One(have, count) if have == target => {
                *count -= 1;
                if *count == 0 {
                    *self = Targets::None;
                }
            }
            Targets::None | Targets::One(..) => {}
            Targets::Many(map) => {
                let Some(count) = map.get_mut(target) else {
                    return;
                };
                *count -= 1;
                if *count == 0 {
                    map.remove(target);
                }
                let left = map.iter().next().map(|(target, count)| (target.clone(), *count));
                if let (1, Some((target, count))) = (map.len(), left) {
                    *self = Targets::One(target, count);
                }
            }
        }
    }

    pub(crate) fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a RouteTarget)) {
        match self {
            Targets::None => {}
            Targets::One(target, _) => visit(target),
            Targets::Many(map) => map.keys().for_each(visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stays_until_its_last_binding_goes() {
        let (a, b) = (RouteTarget::Queue(QueueId(1)), RouteTarget::Queue(QueueId(2)));
        let mut targets = Targets::default();
        for target in [&a, &a, &b] {
            targets.add(target.clone());
        }
        let listed = |targets: &Targets| {
            let mut list = Vec::new();
            targets.for_each(&mut |target| list.push(target.clone()));
            list
        };
        targets.remove(&a);
        assert_eq!(listed(&targets), [a.clone(), b.clone()]);
        targets.remove(&a);
        assert_eq!(listed(&targets), std::slice::from_ref(&b));
        targets.remove(&a);
        targets.remove(&b);
        assert!(targets.is_empty());
    }
}
