use imbl::OrdMap;
use leveret_model::{Arguments, HeadersMatch, Value};

use crate::headers::Headers;
use crate::targets::{Target, Targets};

/// Bindings by their arguments; a message is compared with each different set of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadersTable {
    patterns: OrdMap<Arguments, Targets>,
}

impl HeadersTable {
    pub(crate) fn bind(&mut self, arguments: &Arguments, target: Target) {
        self.patterns.entry(arguments.clone()).or_default().add(target);
    }

    pub(crate) fn unbind(&mut self, arguments: &Arguments, target: &Target) {
        let Some(targets) = self.patterns.get_mut(arguments) else {
            return;
        };
        targets.remove(target);
        if targets.is_empty() {
            self.patterns.remove(arguments);
        }
    }

    pub(crate) fn matches<'a>(&'a self, headers: &dyn Headers, visit: &mut dyn FnMut(&'a Target)) {
        for (pattern, targets) in &self.patterns {
            if satisfied(pattern, headers) {
                targets.for_each(visit);
            }
        }
    }
}

fn satisfied(pattern: &Arguments, headers: &dyn Headers) -> bool {
    // The model refused what can't be parsed.
    let how = HeadersMatch::of(pattern).unwrap_or_default();
    let with_x = matches!(how, HeadersMatch::AllWithX | HeadersMatch::AnyWithX);
    let mut compared =
        pattern.iter().filter(|(name, _)| if with_x { *name != "x-match" } else { !name.starts_with("x-") });
    let found = |(name, wanted): (&str, &Value)| headers.lookup(name).is_some_and(|header| header.satisfies(wanted));
    match how {
        HeadersMatch::All | HeadersMatch::AllWithX => compared.all(found),
        HeadersMatch::Any | HeadersMatch::AnyWithX => compared.any(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::Header;

    struct Message(Arguments);

    impl Headers for Message {
        fn lookup(&self, name: &str) -> Option<Header<'_>> {
            self.0.get(name).map(|value| match value {
                Value::String(text) => Header::String(text),
                other => Header::Value(other.clone()),
            })
        }
    }

    fn matches(pattern: &[(&str, Value)], message: &[(&str, Value)]) -> bool {
        let table = |pairs: &[(&str, Value)]| pairs.iter().cloned().collect::<Arguments>();
        satisfied(&table(pattern), &Message(table(message)))
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
}
