//! Parts of definitions of earlier versions of RabbitMQ that have no effect any more. They are named, kept and exported again.

use std::fmt::Write;

use leveret_model::{Arguments, OBSOLETE_KEYS, PolicyKind};
use serde_json::{Map, Value};

/// Arguments of queues that RabbitMQ 4.3 refuses as deprecated.
const ARGUMENTS: &[&str] = &["x-queue-master-locator"];

/// Most objects that are named for a part; the others are counted.
const NAMED_MAX: usize = 100;

/// Obsolete parts, each with the objects that have it.
#[derive(Debug, Default)]
pub(super) struct Obsolete(Vec<Part>);

#[derive(Debug)]
struct Part {
    /// Such as "key 'ha-mode' of policies".
    what: String,
    named: Vec<String>,
    others: usize,
}

impl Obsolete {
    /// Notes the keys of a policy.
    pub(super) fn policy(&mut self, kind: PolicyKind, vhost: &str, name: &str, definition: &Map<String, Value>) {
        let kinds = match kind {
            PolicyKind::User => "policies",
            PolicyKind::Operator => "operator policies",
        };
        for key in OBSOLETE_KEYS.iter().filter(|key| definition.contains_key(**key)) {
            self.note(format!("key '{key}' of {kinds}"), vhost, name);
        }
    }

    /// Notes the arguments of a queue.
    pub(super) fn queue(&mut self, vhost: &str, name: &str, arguments: &Arguments) {
        for argument in ARGUMENTS.iter().filter(|argument| arguments.get(argument).is_some()) {
            self.note(format!("argument '{argument}' of queues"), vhost, name);
        }
    }

    fn note(&mut self, what: String, vhost: &str, name: &str) {
        let at = self.0.iter().position(|part| part.what == what).unwrap_or_else(|| {
            self.0.push(Part { what, named: Vec::new(), others: 0 });
            self.0.len() - 1
        });
        let part = &mut self.0[at];
        match part.named.len() < NAMED_MAX {
            true => part.named.push(format!("'{name}' in vhost '{vhost}'")),
            false => part.others += 1,
        }
    }

    /// A line for each part.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |part: &Part| {
            let mut line = format!("{}: {}", part.what, part.named.join(", "));
            if part.others > 0 {
                let _ = write!(line, " and {} others", part.others);
            }
            line
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_is_named_once_with_its_objects() {
        let mut obsolete = Obsolete::default();
        let definition = json!({"ha-mode": "all", "message-ttl": 5});
        let definition = definition.as_object().expect("an object");
        obsolete.policy(PolicyKind::User, "/", "a", definition);
        obsolete.policy(PolicyKind::User, "v", "b", definition);
        let arguments = Arguments::from_iter([("x-queue-master-locator", "min-masters".into())]);
        (0..102).for_each(|at| obsolete.queue("/", &at.to_string(), &arguments));
        let lines = obsolete.lines();
        assert_eq!(lines[0], "key 'ha-mode' of policies: 'a' in vhost '/', 'b' in vhost 'v'");
        assert!(lines[1].starts_with("argument 'x-queue-master-locator' of queues: '0' in vhost '/', "));
        assert!(lines[1].ends_with("'99' in vhost '/' and 2 others"), "{}", lines[1]);
        assert_eq!(lines.len(), 2);
    }
}
