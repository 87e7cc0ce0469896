//! A document of definitions: its text, parsed one entry at a time.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::shape::{self, CheckError, DocumentMember, Ignored, IsKnown};
use crate::error::Error;
use crate::json_walk as walk;

/// The target of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// The whole cluster: every object names its vhost.
    Cluster,
    /// This vhost.
    Vhost(String),
}

/// Definitions whose JSON is valid and whose values have the right types. They are kept as text: a tree of all values
/// would take up to thirty times as much memory.
#[derive(Debug)]
pub(super) struct Document<'a> {
    text: &'a [u8],
    /// The top level, so that it is walked only once.
    members: Vec<DocumentMember>,
}

impl<'a> Document<'a> {
    /// Parses a text. An empty text is a document without objects, as in RabbitMQ. Objects of which `is_known` says so by their text
    /// are counted, and not passed on by [`Document::each`].
    ///
    /// # Errors
    /// It isn't a JSON object, or a value in it has the wrong type; the error names the place.
    pub(super) fn parse(text: &'a [u8], scope: &Scope, is_known: &mut IsKnown<'_>) -> Result<(Self, Ignored), Wrong> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if text.trim_ascii().is_empty() {
            return Ok((Document { text: b"{}", members: Vec::new() }, Vec::new()));
        }
        let text = std::str::from_utf8(text).map_err(|error| {
            let (line, column) = walk::place(text, error.valid_up_to());
            Wrong::Json(format!("invalid UTF-8 at line {line} column {column}"))
        })?;
        match shape::check(text, scope, is_known) {
            Ok((members, ignored)) => Ok((Document { text: text.as_bytes(), members }, ignored)),
            Err(error) => Err(Wrong::of(error, text)),
        }
    }

    /// The top-level value with this name.
    pub(super) fn get(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(&self.text[self.find(name)?.value.clone()]).ok()
    }

    /// The top level without its lists of objects; in a document of one vhost it contains the settings.
    pub(super) fn settings(&self) -> Map<String, Value> {
        let named = ["description", "metadata", "tags", "default_queue_type", "limits"];
        named.into_iter().filter_map(|name| Some((name.to_owned(), self.get(name)?))).collect()
    }

    fn find(&self, name: &str) -> Option<&DocumentMember> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Number of objects of one kind that aren't known.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.find(kind).map_or(0, |list| list.items.len())
    }

    /// The distinct vhosts of objects of one kind, each with the number of its first object.
    pub(super) fn vhosts_of(&self, kind: &str) -> Vec<(String, usize)> {
        let Some(list) = self.find(kind) else { return Vec::new() };
        let named = list
            .vhosts
            .iter()
            .filter_map(|(vhost, index)| Some((serde_json::from_slice(&self.text[vhost.clone()]).ok()?, *index)));
        named.collect()
    }

    /// The place of an object, in words.
    pub(super) fn place_of(&self, kind: &str, index: usize) -> String {
        let item = self.find(kind).and_then(|list| list.items.iter().find(|(number, _)| *number == index));
        self.place(kind, index, item.map_or(0, |(_, item)| item.start))
    }

    fn place(&self, kind: &str, index: usize, at: usize) -> String {
        let (line, column) = walk::place(self.text, at);
        format!("{kind}[{index}], line {line}, column {column}")
    }

    /// Passes on each object of one kind that isn't known. Only one of them is in memory at a time.
    ///
    /// # Errors
    /// The first error, with the entry's path and place after the reason.
    pub(super) fn each(
        &self,
        kind: &str,
        mut take: impl FnMut(&Map<String, Value>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(list) = self.find(kind) else { return Ok(()) };
        for (index, item) in &list.items {
            let text = &self.text[item.clone()];
            let place = || self.place(kind, *index, item.start);
            if let Some(taken) = walk::takes_too_much(text, self.text.len()) {
                return Err(Error::BadRequest(format!("{taken} ({})", place())));
            }
            let entry = serde_json::from_slice(text)
                .map_err(|error| Error::BadRequest(format!("failed_to_parse_json: {error} ({})", place())))?;
            take(&entry).map_err(|error| error.at(&place()))?;
        }
        Ok(())
    }
}

/// The reason why a text is not a document of definitions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It isn't a JSON object.
    Json(String),
    /// A value has the wrong type.
    Shape(String),
}

impl Wrong {
    /// JSON that isn't valid is told first, wherever it stands.
    #[cold]
    fn of(error: CheckError, text: &str) -> Self {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            return Wrong::Json(error.to_string());
        }
        match error {
            CheckError::Shape(reason) => Wrong::Shape(reason),
            CheckError::Json => {
                let found = walk::kind(text.as_bytes(), walk::skip_space(text.as_bytes(), 0));
                Wrong::Json(format!("expected an object with lists of objects, got {}", found.name()))
            }
        }
    }
}

impl Scope {
    /// The vhost of an object whose entry names this one.
    pub(super) fn named<'a>(&'a self, vhost: Option<&'a str>) -> Option<&'a str> {
        match self {
            Scope::Vhost(vhost) => Some(vhost),
            Scope::Cluster => vhost,
        }
    }

    /// The vhost of an object.
    pub(super) fn vhost_of<'a>(&'a self, entry: &'a Map<String, Value>) -> &'a str {
        match self {
            Scope::Vhost(vhost) => vhost,
            // Objects without a vhost were refused.
            Scope::Cluster => entry.get("vhost").and_then(Value::as_str).unwrap_or("/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &[u8]) -> Wrong {
        Document::parse(text, &Scope::Cluster, &mut |_, _| false).expect_err("is wrong")
    }

    #[test]
    fn wrong_json_has_its_line_and_column() {
        assert_eq!(wrong(b"{} []"), Wrong::Json("trailing characters at line 1 column 4".to_owned()));
        let first = wrong(b"{\"queues\": 5, \"users\": [}");
        assert!(matches!(first, Wrong::Json(_)), "JSON that isn't valid is told first: {first:?}");
        let Wrong::Json(reason) = wrong(b"{\n \"users\": [\n  {\"name\": \"a\",}\n ]\n}\n") else {
            panic!("is no JSON")
        };
        assert!(reason.ends_with("at line 3 column 16"), "{reason}");
        assert_eq!(wrong(b"{\n\"a\": \"\xff\"}"), Wrong::Json("invalid UTF-8 at line 2 column 7".to_owned()));
        assert_eq!(wrong(b" []"), Wrong::Json("expected an object with lists of objects, got a list".to_owned()));
    }

    #[test]
    fn entries_come_one_at_a_time_with_their_place() {
        let text = b"\xef\xbb\xbf{\"users\": [{\"name\": \"a\"},\n {\"name\": \"b\"}]}";
        let (document, _) = Document::parse(text, &Scope::Cluster, &mut |_, _| false).expect("is right");
        let mut names = Vec::new();
        let refused = document.each("users", |entry| {
            names.push(entry["name"].clone());
            if names.len() == 2 { Err(Error::BadRequest("no".to_owned())) } else { Ok(()) }
        });
        assert_eq!(names, ["a", "b"]);
        assert!(matches!(refused, Err(Error::BadRequest(reason)) if reason == "no (users[1], line 2, column 2)"));
        assert!(Document::parse(b" ", &Scope::Cluster, &mut |_, _| false).expect("nothing").0.get("users").is_none());
    }
}
