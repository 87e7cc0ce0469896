//! The bindings of a vhost, by their pair of ends: all bindings between two ends are removed at once, however many
//! there are.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::{Binding, Destination, ExchangeId, QueueId};

/// Number of sources from which on a destination's are searched for exchanges that are gone.
const SOURCES_MIN: usize = 16;

/// The bindings of a vhost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings {
    by_source: OrdMap<Arc<str>, OrdMap<Destination, Few<Arc<Binding>>>>,
    /// The sources of each destination, and some exchanges that were: those aren't looked for when an exchange goes.
    sources: OrdMap<EndId, Few<Arc<str>>>,
    len: u64,
}

/// A destination by its incarnation, which is compared faster than a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EndId {
    Queue(QueueId),
    Exchange(ExchangeId),
}

impl From<&Destination> for EndId {
    fn from(destination: &Destination) -> Self {
        match destination {
            Destination::Queue { id, .. } => EndId::Queue(*id),
            Destination::Exchange { id, .. } => EndId::Exchange(*id),
        }
    }
}

/// All bindings between two ends, at least one. They are deleted together: as many as there are cost no more than one.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingsBetween(Few<Arc<Binding>>);

impl From<Arc<Binding>> for BindingsBetween {
    fn from(binding: Arc<Binding>) -> Self {
        Self(Few::One(binding))
    }
}

impl BindingsBetween {
    /// The first one. Vhost and both ends are the same for all.
    pub fn first(&self) -> &Arc<Binding> {
        match &self.0 {
            Few::One(binding) => binding,
            Few::Many(set) => set.get_min().expect("a set of many isn't empty"),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.0.iter()
    }

    /// Number of bindings.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes and returns one; none when it is the only one left.
    pub fn take_one(&mut self) -> Option<Arc<Binding>> {
        let Few::Many(set) = &mut self.0 else { return None };
        let one = set.remove_min()?;
        if let Some(last) = set.get_min().filter(|_| set.len() == 1).cloned() {
            self.0 = Few::One(last);
        }
        Some(one)
    }
}

/// All bindings of a source exchange, at least one. They are deleted together: as many as there are cost no more than one.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingsOfSource {
    to: OrdMap<Destination, Few<Arc<Binding>>>,
    len: usize,
}

impl BindingsOfSource {
    /// None if there are no bindings.
    fn new(to: OrdMap<Destination, Few<Arc<Binding>>>) -> Option<Self> {
        let len = to.values().map(Few::len).sum();
        (len > 0).then_some(Self { to, len })
    }

    /// All of them, by destination.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.to.values().flat_map(Few::iter)
    }

    /// Number of bindings.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// A non-empty set. Most have one element, and a tree for each would cost half a kilobyte.
#[derive(Clone, Debug, PartialEq)]
enum Few<T: Ord> {
    One(T),
    Many(OrdSet<T>),
}

impl<T: Ord + Clone> Few<T> {
    /// Returns whether the element is new.
    fn insert(&mut self, element: T) -> bool {
        match self {
            Few::One(have) if *have == element => false,
            Few::One(have) => {
                *self = Few::Many(OrdSet::from_iter([have.clone(), element]));
                true
            }
            Few::Many(set) => set.insert(element).is_none(),
        }
    }

    /// Returns whether the element was there, and whether it was the last one. The last one isn't removed: the caller
    /// drops the set.
    fn remove(&mut self, element: &T) -> (bool, bool) {
        match self {
            Few::One(have) => {
                let known = have == element;
                (known, known)
            }
            Few::Many(set) => {
                let known = set.remove(element).is_some();
                if let Some(last) = set.get_min().filter(|_| set.len() == 1).cloned() {
                    *self = Few::One(last);
                }
                (known, false)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Few::One(_) => 1,
            Few::Many(set) => set.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, many) = match self {
            Few::One(have) => (Some(have), None),
            Few::Many(set) => (None, Some(set)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|set| set.iter()))
    }
}

impl Few<Arc<Binding>> {
    /// The binding that is meant; `made` makes one like it.
    fn find(&self, is_meant: impl Fn(&Binding) -> bool, made: impl FnOnce() -> Binding) -> Option<&Arc<Binding>> {
        match self {
            Few::One(have) => Some(have).filter(|have| is_meant(have)),
            Few::Many(set) => set.get(&made()),
        }
    }
}

impl Bindings {
    /// Number of bindings.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// All bindings, by source.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.by_source.values().flat_map(|to| to.values().flat_map(Few::iter))
    }

    /// All, by source.
    pub(crate) fn of_sources(&self) -> impl Iterator<Item = BindingsOfSource> {
        self.by_source.values().cloned().filter_map(BindingsOfSource::new)
    }

    /// The bindings whose source is this exchange.
    pub(crate) fn of_source(&self, exchange: &str) -> impl Iterator<Item = &Arc<Binding>> {
        self.by_source.get(exchange).into_iter().flat_map(|to| to.values().flat_map(Few::iter))
    }

    /// The bindings whose destination is this queue or exchange, by source.
    pub(crate) fn of_destination(&self, destination: &Destination) -> impl Iterator<Item = &Arc<Binding>> {
        let sources = self.sources.get(&EndId::from(destination)).into_iter().flat_map(Few::iter);
        let between = sources.filter_map(|source| self.by_source.get(source)?.get(destination));
        between.flat_map(Few::iter)
    }

    /// The binding between these ends that is meant; `made` makes one like it.
    pub(crate) fn between(
        &self,
        source: &str,
        destination: &Destination,
        is_meant: impl Fn(&Binding) -> bool,
        made: impl FnOnce() -> Binding,
    ) -> Option<&Arc<Binding>> {
        self.by_source.get(source)?.get(destination)?.find(is_meant, made)
    }

    pub(crate) fn contains(&self, binding: &Binding) -> bool {
        let between = self.by_source.get(&binding.source).and_then(|to| to.get(&binding.destination));
        match between {
            None => false,
            Some(Few::One(have)) => **have == *binding,
            Some(Few::Many(set)) => set.contains(binding),
        }
    }

    /// Returns whether the binding is new.
    pub(crate) fn insert(&mut self, binding: &Arc<Binding>) -> bool {
        let to = self.by_source.entry(binding.source.clone()).or_default();
        let is_new = match to.get_mut(&binding.destination) {
            Some(between) => between.insert(binding.clone()),
            None => {
                to.insert(binding.destination.clone(), Few::One(binding.clone()));
                self.add_source(binding);
                true
            }
        };
        self.len += u64::from(is_new);
        is_new
    }

    fn add_source(&mut self, binding: &Binding) {
        let id = EndId::from(&binding.destination);
        match self.sources.get_mut(&id) {
            Some(sources) => {
                let is_new = sources.insert(binding.source.clone());
                if let Few::Many(set) = sources
                    && is_new
                    && set.len() >= SOURCES_MIN
                    && set.len().is_power_of_two()
                {
                    // So that those that are none any more are never more than half of them.
                    let is_left = |source: &&Arc<str>| {
                        self.by_source.get(*source).is_some_and(|to| to.contains_key(&binding.destination))
                    };
                    *set = set.iter().filter(is_left).cloned().collect();
                }
            }
            None => {
                self.sources.insert(id, Few::One(binding.source.clone()));
            }
        }
    }

    /// Returns whether the binding was there.
    pub(crate) fn remove(&mut self, binding: &Arc<Binding>) -> bool {
        let Some(to) = self.by_source.get_mut(&binding.source) else { return false };
        let Some(between) = to.get_mut(&binding.destination) else { return false };
        let (known, was_last) = between.remove(binding);
        self.len -= u64::from(known);
        if was_last {
            to.remove(&binding.destination);
            if to.is_empty() {
                self.by_source.remove(&binding.source);
            }
            self.forget_source(&binding.destination, &binding.source);
        }
        known
    }

    fn forget_source(&mut self, destination: &Destination, source: &Arc<str>) {
        let id = EndId::from(destination);
        if self.sources.get_mut(&id).is_some_and(|sources| sources.remove(source).1) {
            self.sources.remove(&id);
        }
    }

    /// Removes and returns the bindings whose source is this exchange.
    pub(crate) fn remove_source(&mut self, exchange: &Arc<str>) -> Option<BindingsOfSource> {
        let removed = self.by_source.remove(exchange).and_then(BindingsOfSource::new);
        self.len -= removed.as_ref().map_or(0, BindingsOfSource::len) as u64;
        removed
    }

    /// Removes and returns the bindings whose destination is this queue or exchange, by source.
    pub(crate) fn remove_destination(&mut self, destination: &Destination) -> Vec<BindingsBetween> {
        let Some(sources) = self.sources.remove(&EndId::from(destination)) else { return Vec::new() };
        let mut removed = Vec::new();
        for source in sources.iter() {
            let Some(to) = self.by_source.get_mut(source) else { continue };
            removed.extend(to.remove(destination).map(BindingsBetween));
            if to.is_empty() {
                self.by_source.remove(source);
            }
        }
        self.len -= count(&removed);
        removed
    }
}

/// How many bindings these are.
pub(crate) fn count(removed: &[BindingsBetween]) -> u64 {
    removed.iter().map(|between| between.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::Arguments;

    fn binding(source: u8, destination: u8, key: u8) -> Arc<Binding> {
        let name: Arc<str> = format!("end-{destination}").into();
        let destination = match destination % 2 {
            0 => Destination::Queue { name, id: QueueId(u64::from(destination)) },
            _ => Destination::Exchange { name, id: ExchangeId(u64::from(destination)) },
        };
        Arc::new(Binding {
            vhost: "/".into(),
            source: format!("source-{source}").into(),
            destination,
            routing_key: [key].into(),
            arguments: Arguments::default(),
            source_id: ExchangeId(u64::from(source)),
            logged: true,
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, u8, u8),
        Remove(u8, u8, u8),
        RemoveSource(u8),
        RemoveDestination(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let three = (0..4_u8, 0..4_u8, 0..3_u8);
        prop_oneof![
            8 => three.clone().prop_map(|(source, to, key)| Step::Insert(source, to, key)),
            4 => three.prop_map(|(source, to, key)| Step::Remove(source, to, key)),
            1 => (0..4_u8).prop_map(Step::RemoveSource),
            1 => (0..4_u8).prop_map(Step::RemoveDestination),
        ]
    }

    fn each(removed: &[BindingsBetween]) -> Vec<Arc<Binding>> {
        for between in removed {
            assert_eq!(between.len(), between.iter().count());
            assert!(between.iter().all(|one| one.destination == between.first().destination));
        }
        removed.iter().flat_map(BindingsBetween::iter).cloned().collect()
    }

    fn out(plain: &mut BTreeSet<Arc<Binding>>, goes: impl Fn(&Binding) -> bool) -> Vec<Arc<Binding>> {
        let gone: Vec<_> = plain.iter().filter(|binding| goes(binding)).cloned().collect();
        plain.retain(|binding| !goes(binding));
        gone
    }

    #[test]
    fn a_destination_forgets_most_exchanges_that_are_gone() {
        let mut bindings = Bindings::default();
        let to = |source: u32| {
            let one = Arc::unwrap_or_clone(binding(0, 0, 0));
            Arc::new(Binding { source: format!("source-{source}").into(), ..one })
        };
        for source in 0..1000 {
            let one = to(source);
            assert!(bindings.insert(&one));
            if source > 0 {
                assert_eq!(bindings.remove_source(&one.source).map(|removed| removed.len()), Some(1));
            }
        }
        let left = bindings.sources.values().map(Few::len).sum::<usize>();
        assert!(left <= 2 * SOURCES_MIN, "{left} sources");
        let removed = bindings.remove_destination(&to(0).destination);
        assert_eq!((each(&removed), bindings.len()), (vec![to(0)], 0));
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_bindings(steps in prop::collection::vec(step(), 0..120)) {
            let (mut bindings, mut plain) = (Bindings::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Insert(source, to, key) => {
                        let one = binding(source, to, key);
                        prop_assert_eq!(bindings.insert(&one), plain.insert(one));
                    }
                    Step::Remove(source, to, key) => {
                        let one = binding(source, to, key);
                        prop_assert_eq!(bindings.remove(&one), plain.remove(&one));
                        prop_assert!(!bindings.contains(&one));
                    }
                    Step::RemoveSource(source) => {
                        let name: Arc<str> = format!("source-{source}").into();
                        let gone = out(&mut plain, |binding| binding.source == name);
                        let removed = bindings.remove_source(&name);
                        prop_assert_eq!(removed.as_ref().map_or(0, BindingsOfSource::len), gone.len());
                        let removed = removed.iter().flat_map(BindingsOfSource::iter);
                        prop_assert!(removed.eq(&gone));
                    }
                    Step::RemoveDestination(to) => {
                        let end = binding(0, to, 0).destination.clone();
                        prop_assert_eq!(
                            each(&bindings.remove_destination(&end)),
                            out(&mut plain, |binding| binding.destination == end)
                        );
                    }
                }
                prop_assert_eq!(bindings.len(), plain.len() as u64);
                prop_assert!(bindings.iter().eq(&plain));
                for at in 0..4_u8 {
                    let end = binding(at, at, 0);
                    let from = plain.iter().filter(|binding| binding.source == end.source);
                    prop_assert!(bindings.of_source(&end.source).eq(from));
                    let to = plain.iter().filter(|binding| binding.destination == end.destination);
                    prop_assert!(bindings.of_destination(&end.destination).eq(to));
                    let all = (0..4).flat_map(|to| (0..3).map(move |key| binding(at, to, key)));
                    prop_assert!(all.into_iter().all(|one| bindings.contains(&one) == plain.contains(&one)));
                }
            }
        }
    }
}
