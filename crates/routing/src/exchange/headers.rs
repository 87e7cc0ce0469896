use imbl::OrdMap;
use leveret_model::{Arguments, HeadersMatch, Value};
use smallvec::SmallVec;

use crate::headers::{Header, Headers};
use crate::targets::{RouteTarget, Targets};

/// Bindings by their arguments; a message is compared with each distinct set of arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadersTable {
    patterns: OrdMap<Arguments, Bound>,
}

/// The targets of a set of arguments.
#[derive(Clone, Debug)]
struct Bound {
    pattern: Pattern,
    targets: Targets,
}

/// The conditions in a binding's arguments, parsed once when it is bound rather than for each message.
#[derive(Clone, Debug)]
struct Pattern {
    /// Whether one matching header is enough.
    any: bool,
    headers: Arguments,
}

impl HeadersTable {
    pub(crate) fn bind(&mut self, arguments: &Arguments, target: RouteTarget) {
        let bound = self.patterns.entry(arguments.clone());
        bound.or_insert_with(|| Bound::new(arguments)).targets.add(target);
    }

    pub(crate) fn unbind(&mut self, arguments: &Arguments, target: &RouteTarget) {
        let Some(bound) = self.patterns.get_mut(arguments) else {
            return;
        };
        bound.targets.remove(target);
        if bound.targets.is_empty() {
            self.patterns.remove(arguments);
        }
    }

    pub(crate) fn matches<'a>(&'a self, headers: &dyn Headers, visit: &mut dyn FnMut(&'a RouteTarget)) {
        let mut asked = Asked { headers, found: SmallVec::new() };
        for bound in self.patterns.values() {
            if bound.pattern.is_satisfied(&mut asked) {
                bound.targets.for_each(visit);
            }
        }
    }
}

impl Bound {
    fn new(arguments: &Arguments) -> Self {
        Self { pattern: Pattern::new(arguments), targets: Targets::default() }
    }
}

impl Pattern {
    fn new(arguments: &Arguments) -> Self {
        // The model has refused arguments that can't be parsed.
        let how = HeadersMatch::of(arguments).unwrap_or_default();
        let with_x = matches!(how, HeadersMatch::AllWithX | HeadersMatch::AnyWithX);
        let compared = |name: &str| if with_x { name != "x-match" } else { !name.starts_with("x-") };
        let headers = arguments.iter().filter(|(name, _)| compared(name)).map(|(name, value)| (name, value.clone()));
        Self { any: matches!(how, HeadersMatch::Any | HeadersMatch::AnyWithX), headers: headers.collect() }
    }

    fn is_satisfied<'a>(&'a self, asked: &mut Asked<'a>) -> bool {
        let mut found = |(name, wanted): (&'a str, &Value)| asked.has(name, wanted);
        if self.any { self.headers.iter().any(&mut found) } else { self.headers.iter().all(&mut found) }
    }
}

/// Most header names remembered for a message: searching more of them takes longer than another lookup.
const NAMES_MAX: usize = 8;

/// Cached header lookups of one message. Patterns mostly look up the same names, and each lookup scans the headers.
struct Asked<'a> {
    headers: &'a dyn Headers,
    found: SmallVec<[(&'a str, Option<Header<'a>>); NAMES_MAX]>,
}

impl<'a> Asked<'a> {
    fn has(&mut self, name: &'a str, wanted: &Value) -> bool {
        let satisfies = |header: &Option<Header<'_>>| header.as_ref().is_some_and(|header| header.satisfies(wanted));
        if let Some((_, header)) = self.found.iter().find(|(known, _)| *known == name) {
            return satisfies(header);
        }
        let header = self.headers.lookup(name);
        let is_satisfied = satisfies(&header);
        if self.found.len() < NAMES_MAX {
            self.found.push((name, header));
        }
        is_satisfied
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use leveret_model::{HashProperty, QueueId};

    use super::*;

    struct Message(Arguments);

    impl Headers for Message {
        fn lookup(&self, name: &str) -> Option<Header<'_>> {
            self.0.get(name).map(|value| match value {
                Value::String(text) => Header::String(text),
                other => Header::Value(other.clone()),
            })
        }

        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        fn property(&self, _: HashProperty) -> Option<Header<'_>> {
            None
        }
    }

    fn matches(pattern: &[(&str, Value)], message: &[(&str, Value)]) -> bool {
        let table = |pairs: &[(&str, Value)]| pairs.iter().cloned().collect::<Arguments>();
        let message = Message(table(message));
        Pattern::new(&table(pattern)).is_satisfied(&mut Asked { headers: &message, found: SmallVec::new() })
    }

    #[test]
    fn all_any_and_their_forms_with_x() {
        let (a, b, x) = (("a", Value::Int(1)), ("b", Value::from("t")), ("x-c", Value::Int(3)));
        let how = |text: &str| ("x-match", Value::from(text));
        let message = [a.clone(), x.clone()];
        assert!(!matches(&[a.clone(), b.clone()], &message));
        assert!(matches(&[a.clone(), ("x-other", Value::Int(1))], &message));
        assert!(matches(&[how("any"), a.clone(), b.clone()], &message));
        assert!(!matches(&[how("any"), b.clone(), x.clone()], &message));
        assert!(matches(&[how("any-with-x"), b.clone(), x.clone()], &message));
        assert!(matches(&[how("all-with-x"), a.clone(), x.clone()], &message));
        assert!(!matches(&[how("all-with-x"), a.clone(), ("x-d", Value::Int(1))], &message));
    }

    #[test]
    fn no_headers_in_the_binding_match_all_but_not_any() {
        assert!(matches(&[], &[("a", Value::Int(1))]));
        assert!(!matches(&[("x-match", Value::from("any"))], &[("a", Value::Int(1))]));
    }

    #[test]
    fn a_void_asks_for_presence_and_numbers_compare_by_value() {
        assert!(matches(&[("a", Value::Void)], &[("a", Value::from("anything"))]));
        assert!(!matches(&[("a", Value::Void)], &[]));
        assert!(matches(&[("a", Value::Int(1))], &[("a", Value::UInt(1))]));
        assert!(!matches(&[("a", Value::Int(1))], &[("a", Value::from("1"))]));
    }

    #[test]
    fn each_name_is_looked_up_once_for_all_patterns() {
        struct Counted(Message, Cell<usize>);
        impl Headers for Counted {
            fn lookup(&self, name: &str) -> Option<Header<'_>> {
                self.1.set(self.1.get() + 1);
                self.0.lookup(name)
            }

            fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            fn property(&self, property: HashProperty) -> Option<Header<'_>> {
                self.0.property(property)
            }
        }
        let mut table = HeadersTable::default();
        let pattern = |pairs: &[(&str, i64)]| -> Arguments {
            pairs.iter().map(|(name, value)| (*name, Value::Int(*value))).collect()
        };
        for queue in 0..10 {
            table.bind(&pattern(&[("a", queue), ("b", 1)]), RouteTarget::Queue(QueueId(queue as u64)));
        }
        let message = Counted(Message(pattern(&[("a", 7), ("b", 1)])), Cell::new(0));
        let mut found = Vec::new();
        table.matches(&message, &mut |target| found.push(target.clone()));
        assert_eq!((found, message.1.get()), (vec![RouteTarget::Queue(QueueId(7))], 2));
        // More names than are remembered.
        for number in 0..20 {
            table.bind(&pattern(&[(&format!("name-{number}"), 1)]), RouteTarget::Queue(QueueId(100 + number)));
        }
        let message = Counted(Message(pattern(&[("name-3", 1), ("name-19", 1)])), Cell::new(0));
        let mut found = Vec::new();
        table.matches(&message, &mut |target| found.push(target.clone()));
        found.sort();
        assert_eq!(found, [103, 119].map(|id| RouteTarget::Queue(QueueId(id))));
    }
}
