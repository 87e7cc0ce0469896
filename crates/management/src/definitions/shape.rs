//! The one table of the contents of definitions, and the check of a document against it. A value of the wrong type is
//! reported with its path and place before anything is created, and ignored parts are named.

use std::ops::Range;

use super::document::Scope;
use super::raw_entry::RawEntry;
use crate::json_scan::{JsonScan, ScannedValue};
use crate::json_walk::{self as walk, JsonKind};

/// The type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    /// A text, or null if unset.
    MaybeText,
    /// A boolean, possibly as text.
    Flag,
    Number,
    Object,
    /// An object; clients written in PHP send an empty one as an empty list.
    Table,
    /// The same, or null if unset.
    MaybeTable,
    /// A text separated by commas, or a list of texts.
    Tags,
    /// An object, or RabbitMQ 3's list of objects with name and value.
    Limits,
    Any,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Text | Type::MaybeText => "a text",
            Type::Flag => "true or false",
            Type::Number => "a number",
            Type::Object | Type::Table | Type::MaybeTable => "an object",
            Type::Tags => "a text or a list of texts",
            Type::Limits => "an object of limits",
            Type::Any => "a value",
        }
    }

    #[inline]
    fn fits(self, text: &[u8], at: usize) -> bool {
        matches!((self, text[at]), (Type::Text, b'"') | (Type::Flag, b't' | b'f')) || self.fits_closely(text, at)
    }

    fn fits_closely(self, text: &[u8], at: usize) -> bool {
        let all = |wanted| walk::items(text, at).all(|item| walk::kind(text, item.start) == wanted);
        match (self, walk::kind(text, at)) {
            (Type::Any, _) => true,
            (Type::Text | Type::MaybeText, JsonKind::Text) | (Type::MaybeText, JsonKind::Null) => true,
            (Type::Flag, JsonKind::Flag) => true,
            (Type::Flag, JsonKind::Text) => matches!(&text[at..walk::end(text, at)], b"\"true\"" | b"\"false\""),
            (Type::Number, JsonKind::Number) => true,
            (Type::Object | Type::Table | Type::MaybeTable | Type::Limits, JsonKind::Object) => true,
            (Type::MaybeTable, JsonKind::Null) => true,
            (Type::Table | Type::MaybeTable, JsonKind::List) => walk::items(text, at).next().is_none(),
            (Type::Tags, JsonKind::Text) => true,
            (Type::Tags, JsonKind::List) => all(JsonKind::Text),
            (Type::Limits, JsonKind::List) => all(JsonKind::Object),
            _ => false,
        }
    }
}

/// Whether a field is mandatory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Always,
    /// If the objects name their vhosts.
    InClusters,
    Never,
}

struct Field(&'static str, Type, Need);

struct List {
    name: &'static str,
    /// Ignored in definitions of one vhost.
    is_of_clusters: bool,
    fields: &'static [Field],
}

const NAME: Field = Field("name", Type::Text, Need::Always);
const VHOST: Field = Field("vhost", Type::Text, Need::InClusters);
const ARGUMENTS: Field = Field("arguments", Type::Table, Need::Never);
const LIMITS: Field = Field("limits", Type::Limits, Need::Never);

const fn needed(name: &'static str) -> Field {
    Field(name, Type::Text, Need::Always)
}

const fn maybe(name: &'static str, kind: Type) -> Field {
    Field(name, kind, Need::Never)
}

const POLICY: &[Field] = &[
    NAME,
    VHOST,
    needed("pattern"),
    Field("definition", Type::Object, Need::Always),
    maybe("apply-to", Type::Text),
    maybe("priority", Type::Number),
];

const LISTS: &[List] = &[
    List {
        name: "users",
        is_of_clusters: true,
        fields: &[
            NAME,
            maybe("tags", Type::Tags),
            maybe("administrator", Type::Flag),
            maybe("password", Type::MaybeText),
            maybe("password_hash", Type::MaybeText),
            maybe("hashing_algorithm", Type::MaybeText),
            LIMITS,
        ],
    },
    List {
        name: "vhosts",
        is_of_clusters: true,
        fields: &[
            NAME,
            maybe("description", Type::MaybeText),
            maybe("tags", Type::Tags),
            maybe("default_queue_type", Type::MaybeText),
            maybe("metadata", Type::MaybeTable),
            maybe("tracing", Type::Flag),
            maybe("protected_from_deletion", Type::Flag),
            LIMITS,
        ],
    },
    List {
        name: "permissions",
        is_of_clusters: true,
        fields: &[needed("user"), VHOST, needed("configure"), needed("write"), needed("read")],
    },
    List {
        name: "topic_permissions",
        is_of_clusters: true,
        fields: &[needed("user"), VHOST, maybe("exchange", Type::Text), needed("write"), needed("read")],
    },
    List {
        name: "parameters",
        is_of_clusters: false,
        fields: &[needed("component"), maybe("name", Type::Text), VHOST, maybe("value", Type::Any)],
    },
    List { name: "global_parameters", is_of_clusters: true, fields: &[NAME, maybe("value", Type::Any)] },
    List { name: "policies", is_of_clusters: false, fields: POLICY },
    List { name: "operator_policies", is_of_clusters: false, fields: POLICY },
    List {
        name: "queues",
        is_of_clusters: false,
        fields: &[
            NAME,
            VHOST,
            maybe("type", Type::Text),
            maybe("durable", Type::Flag),
            maybe("auto_delete", Type::Flag),
            ARGUMENTS,
        ],
    },
    List {
        name: "exchanges",
        is_of_clusters: false,
        fields: &[
            NAME,
            VHOST,
            maybe("type", Type::Text),
            maybe("durable", Type::Flag),
            maybe("auto_delete", Type::Flag),
            maybe("internal", Type::Flag),
            ARGUMENTS,
        ],
    },
    List {
        name: "bindings",
        is_of_clusters: false,
        fields: &[
            needed("source"),
            VHOST,
            needed("destination"),
            maybe("destination_type", Type::Text),
            maybe("routing_key", Type::Text),
            ARGUMENTS,
            maybe("properties_key", Type::Text),
        ],
    },
];

/// Top-level fields of a document, apart from its lists of objects.
const TOP: &[Field] = &[
    maybe("rabbit_version", Type::Text),
    maybe("rabbitmq_version", Type::Text),
    maybe("product_name", Type::Text),
    maybe("product_version", Type::Text),
    maybe("rabbitmq_definition_format", Type::Text),
    maybe("original_cluster_name", Type::Text),
    maybe("original_vhost_name", Type::Text),
    maybe("explanation", Type::Text),
    maybe("description", Type::MaybeText),
    maybe("default_queue_type", Type::MaybeText),
    maybe("metadata", Type::MaybeTable),
    LIMITS,
];

/// Ignored paths in a document. A path that occurs in many entries is listed once.
pub(super) type Ignored = Vec<String>;

/// A value at the top level of a document.
#[derive(Debug)]
pub(super) struct DocumentMember {
    pub(super) name: String,
    pub(super) value: Range<usize>,
    /// If it is a list of objects: how many it has.
    pub(super) count: usize,
    /// Objects that aren't known, each with its index.
    pub(super) items: Vec<(usize, Range<usize>)>,
    /// Their distinct vhosts, quoted, each with the index of its first object.
    pub(super) vhosts: Vec<(Range<usize>, usize)>,
}

/// Whether an object of the list with this name is one of which nothing more has to be looked at.
pub(super) type IsKnown<'a> = dyn FnMut(&str, &RawEntry<'_>) -> bool + 'a;

/// The numbers of these fields in the objects of a list.
///
/// # Panics
/// There is no such list or field.
pub(super) fn numbers<const N: usize>(list: &str, names: [&str; N]) -> [usize; N] {
    let list = LISTS.iter().find(|known| known.name == list).expect("a list of the table");
    names.map(|name| list.fields.iter().position(|field| field.0 == name).expect("a field of the table"))
}

/// The reason why a text can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckError {
    /// It isn't valid JSON.
    Json,
    /// The first value that has the wrong type or is missing, with its path, line and column. What follows wasn't read.
    Shape(String),
}

impl From<String> for CheckError {
    fn from(reason: String) -> Self {
        CheckError::Shape(reason)
    }
}

/// Checks a document, which is an object if it is valid. Returns its top level, and what is ignored of it. Each object whose shape is
/// right is shown to `is_known` while its parts are at hand.
pub(super) fn check(
    text: &str,
    scope: &Scope,
    is_known: &mut IsKnown<'_>,
) -> Result<(Vec<DocumentMember>, Ignored), CheckError> {
    let mut checking = Checking { text, scope, scan: JsonScan::new(text) };
    let mut ignored = Vec::new();
    let mut found: Vec<DocumentMember> = Vec::new();
    let mut goes_on = checking.begins(b'{', b'}')?;
    while goes_on {
        let (name, at) = checking.name()?;
        let name = checking.decoded(name, "")?;
        if found.iter().any(|seen| seen.name == name) {
            return Err(checking.wrong(&name, at, "stands here for the second time"));
        }
        let mut member = DocumentMember { name, value: at..at, count: 0, items: Vec::new(), vhosts: Vec::new() };
        let name = &member.name;
        match LISTS.iter().find(|list| list.name == name) {
            Some(list) if !list.is_of_clusters || *scope == Scope::Cluster => {
                checking.list(list, &mut member, &mut ignored, is_known)?;
            }
            Some(_) => {
                ignored.push(name.clone());
                checking.value()?;
            }
            None => {
                let value = checking.value()?;
                match TOP.iter().find(|Field(known, ..)| known == name) {
                    Some(field) => checking.field(field, value.start, name)?,
                    None => ignored.push(name.clone()),
                }
            }
        }
        member.value.end = checking.scan.at();
        found.push(member);
        goes_on = checking.goes_on(b'}')?;
    }
    match checking.scan.peek() {
        None => Ok((found, ignored)),
        Some(_) => Err(CheckError::Json),
    }
}

struct Checking<'a> {
    text: &'a str,
    scope: &'a Scope,
    scan: JsonScan<'a>,
}

/// The parts of one object of a list, and what was learnt from those before it.
struct Entry {
    /// The values by the number of their field. Those of fields that aren't there are of an earlier object.
    values: Vec<ScannedValue>,
    /// One bit for each field that is there.
    there: u32,
    /// One bit for each field that has to be there.
    needed: u32,
    /// The members of the object before: most objects of a list have the same ones, in the same order.
    members: Vec<EntryMember>,
}

/// A member of an object of a list.
struct EntryMember {
    /// The place of everything between the value before it, or the beginning of the object, and its own value. The same bytes at the same
    /// place in another object are the same member.
    before: (usize, usize),
    /// The number of its field; `None` if that is ignored.
    number: Option<usize>,
}

impl Entry {
    fn of(list: &List, scope: &Scope) -> Self {
        let is_needed = |need: &Need| match need {
            Need::Always => true,
            Need::InClusters => *scope == Scope::Cluster,
            Need::Never => false,
        };
        let bits = list.fields.iter().enumerate().map(|(number, field)| u32::from(is_needed(&field.2)) << number);
        let values = vec![ScannedValue::default(); list.fields.len()];
        Entry { values, there: 0, needed: bits.sum(), members: Vec::new() }
    }

    fn raw<'a>(&'a self, text: &'a str) -> RawEntry<'a> {
        RawEntry { text, values: &self.values, there: self.there }
    }
}

impl Checking<'_> {
    #[cold]
    fn wrong(&self, path: &str, at: usize, what: &str) -> CheckError {
        let (line, column) = walk::place(self.text.as_bytes(), at);
        CheckError::Shape(format!("{path} (line {line}, column {column}) {what}"))
    }

    /// Begins an object or a list. Returns whether it has anything.
    fn begins(&mut self, open: u8, close: u8) -> Result<bool, CheckError> {
        if !self.scan.takes(open) {
            return Err(CheckError::Json);
        }
        Ok(!self.scan.takes(close))
    }

    fn goes_on(&mut self, close: u8) -> Result<bool, CheckError> {
        self.scan.goes_on(close).ok_or(CheckError::Json)
    }

    /// A name, and the offset of its value.
    fn name(&mut self) -> Result<(ScannedValue, usize), CheckError> {
        let name = self.scan.name().ok_or(CheckError::Json)?;
        self.scan.peek().ok_or(CheckError::Json)?;
        Ok((name, self.scan.at()))
    }

    fn value(&mut self) -> Result<ScannedValue, CheckError> {
        self.scan.value().ok_or(CheckError::Json)
    }

    /// The name between quotation marks.
    fn decoded(&self, name: ScannedValue, path: &str) -> Result<String, CheckError> {
        let decoded = serde_json::from_str(&self.text[name.start..name.end]);
        decoded.map_err(|_| self.wrong(path, name.start, "has a name that is no text"))
    }

    /// Checks a list of objects.
    fn list(
        &mut self,
        list: &List,
        member: &mut DocumentMember,
        ignored: &mut Ignored,
        is_known: &mut IsKnown<'_>,
    ) -> Result<(), CheckError> {
        let at = member.value.start;
        let found = walk::kind(self.text.as_bytes(), at);
        if found != JsonKind::List {
            return Err(self.wrong(list.name, at, &format!("has to be a list, and is {}", found.name())));
        }
        let vhost = list.fields.iter().position(|field| field.0 == VHOST.0);
        let mut entry = Entry::of(list, self.scope);
        let mut goes_on = self.begins(b'[', b']')?;
        while goes_on {
            let index = member.count;
            let begin = self.entry(list, index, &mut entry, ignored)?;
            let raw = entry.raw(self.text);
            if let Some(vhost) = vhost.and_then(|number| raw.value(number)) {
                let vhost = vhost.range();
                let is_same = |(known, _): &(Range<usize>, usize)| self.text[known.clone()] == self.text[vhost.clone()];
                if !member.vhosts.iter().rev().any(is_same) {
                    member.vhosts.push((vhost, index));
                }
            }
            member.count += 1;
            if !is_known(list.name, &raw) {
                member.items.push((index, begin..self.scan.at()));
            }
            goes_on = self.goes_on(b']')?;
        }
        Ok(())
    }

    /// Checks the next object of a list, and leaves its parts in `found`. Returns where it begins.
    fn entry(
        &mut self,
        list: &List,
        index: usize,
        found: &mut Entry,
        ignored: &mut Ignored,
    ) -> Result<usize, CheckError> {
        let path = || format!("{}[{index}]", list.name);
        let kind = self.scan.peek().ok_or(CheckError::Json)?;
        let at = self.scan.at();
        if kind != b'{' {
            let kind = walk::kind(self.text.as_bytes(), at);
            return Err(self.wrong(&path(), at, &format!("has to be an object, and is {}", kind.name())));
        }
        found.there = 0;
        let (mut seen, mut from) = (0, at);
        loop {
            let number = match found.members.get(seen) {
                Some(member) if self.scan.takes_same(member.before) => member.number,
                _ => {
                    let goes_on = if seen == 0 { self.begins(b'{', b'}')? } else { self.goes_on(b'}')? };
                    if !goes_on {
                        break;
                    }
                    let number = self.entry_name(list, index, ignored)?;
                    found.members.truncate(seen);
                    found.members.push(EntryMember { before: (from, self.scan.at()), number });
                    number
                }
            };
            seen += 1;
            let at = self.scan.at();
            if let Some(number) = number.filter(|number| found.there & (1 << number) != 0) {
                let path = format!("{}.{}", path(), list.fields[number].0);
                return Err(self.wrong(&path, at, "stands here for the second time"));
            }
            let value = self.value()?;
            from = self.scan.at();
            let Some(number) = number else { continue };
            let field = &list.fields[number];
            if !field.1.fits(self.text.as_bytes(), value.start) {
                self.field(field, value.start, &format!("{}.{}", path(), field.0))?;
            }
            found.there |= 1 << number;
            found.values[number] = value;
        }
        let missing = found.needed & !found.there;
        if missing != 0 {
            let name = list.fields[missing.trailing_zeros() as usize].0;
            let hint = match name {
                "vhost" => "; what was exported of one vhost goes to POST /api/definitions/VHOST",
                _ => "",
            };
            let (line, column) = walk::place(self.text.as_bytes(), at);
            let reason = format!("{}.{name} is missing (line {line}, column {column}){hint}", path());
            return Err(CheckError::Shape(reason));
        }
        Ok(at)
    }

    /// Reads the name of a member of an object. Returns the number of its field; `None` if it is ignored.
    fn entry_name(&mut self, list: &List, index: usize, ignored: &mut Ignored) -> Result<Option<usize>, CheckError> {
        let (name, _) = self.name()?;
        let number = list.fields.iter().position(|Field(known, ..)| self.is_named(name, known));
        if number.is_none() {
            let name = self.decoded(name, &format!("{}[{index}]", list.name))?;
            let path = format!("{}[].{name}", list.name);
            if !ignored.contains(&path) {
                ignored.push(path);
            }
        }
        Ok(number)
    }

    /// Compares a name without decoding it: names hardly ever contain escapes.
    fn is_named(&self, name: ScannedValue, known: &str) -> bool {
        match name.is_plain_text {
            true => name.bare(self.text) == known,
            false => self.decoded(name, "").is_ok_and(|name| name == known),
        }
    }

    fn field(&self, Field(_, wanted, _): &Field, at: usize, path: &str) -> Result<(), CheckError> {
        if wanted.fits(self.text.as_bytes(), at) {
            return Ok(());
        }
        let found = walk::kind(self.text.as_bytes(), at);
        let what = match (wanted, found) {
            (Type::Flag, JsonKind::Text) => format!("has to be {}, and is another text", wanted.name()),
            (Type::Table | Type::MaybeTable, JsonKind::List) => format!("has to be {}, and is a list", wanted.name()),
            (Type::Tags | Type::Limits, JsonKind::List) => {
                format!("has to be {}, and holds something else", wanted.name())
            }
            _ => format!("has to be {}, and is {}", wanted.name(), found.name()),
        };
        Err(self.wrong(path, at, &what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(text: &str, scope: &Scope) -> Ignored {
        check(text, scope, &mut |_, _| false).expect("is right").1
    }

    fn refused(text: &str) -> String {
        match check(text, &Scope::Cluster, &mut |_, _| false).expect_err(text) {
            CheckError::Shape(reason) => reason,
            CheckError::Json => panic!("{text} is valid"),
        }
    }

    #[test]
    fn a_wrong_type_is_named_with_its_place() {
        for (text, expected) in [
            (r#"{"queues":{"name":"x"}}"#, "queues (line 1, column 11) has to be a list, and is an object"),
            (r#"{"queues":null}"#, "queues (line 1, column 11) has to be a list, and is null"),
            (r#"{"users":"u"}"#, "users (line 1, column 10) has to be a list, and is a text"),
            (r#"{"bindings":[[]]}"#, "bindings[0] (line 1, column 14) has to be an object, and is a list"),
            ("{\"vhosts\":[\n \"a\"]}", "vhosts[0] (line 2, column 2) has to be an object, and is a text"),
            (
                r#"{"queues":[{"name":"q","vhost":5}]}"#,
                "queues[0].vhost (line 1, column 32) has to be a text, and is a number",
            ),
            (
                r#"{"queues":[{"name":"q","vhost":"/","arguments":"x"}]}"#,
                "queues[0].arguments (line 1, column 48) has to be an object, and is a text",
            ),
            (
                r#"{"queues":[{"name":"q","vhost":"/","durable":"yes"}]}"#,
                "queues[0].durable (line 1, column 46) has to be true or false, and is another text",
            ),
            (
                r#"{"users":[{"name":"u","tags":["a",5]}]}"#,
                "users[0].tags (line 1, column 30) has to be a text or a list of texts, and holds something else",
            ),
            (r#"{"rabbit_version":5}"#, "rabbit_version (line 1, column 19) has to be a text, and is a number"),
            (r#"{"queues":[],"queues":[]}"#, "queues (line 1, column 23) stands here for the second time"),
            (
                r#"{"queues":[{"name":"q","vhost":"/","name":"r"}]}"#,
                "queues[0].name (line 1, column 43) stands here for the second time",
            ),
        ] {
            assert_eq!(refused(text), expected);
        }
    }

    #[test]
    fn an_object_of_a_cluster_names_its_vhost() {
        let text = r#"{"queues":[{"name":"a","vhost":"/"},{"name":"q"}]}"#;
        let expected = "queues[1].vhost is missing (line 1, column 37); what was exported of one vhost goes to POST \
                        /api/definitions/VHOST";
        assert_eq!(refused(text), expected);
        assert_eq!(ignored(text, &Scope::Vhost("v".to_owned())), [""; 0]);
        assert!(refused(r#"{"queues":[{"vhost":"/"}]}"#).starts_with("queues[0].name is missing"));
    }

    #[test]
    fn each_ignored_path_is_named_once() {
        let text = r#"{"gadgets":[1,{}],"queues":[{"name":"a","vhost":"/","x":1},{"name":"b","vhost":"/","x":{}}],"users":[]}"#;
        assert_eq!(ignored(text, &Scope::Cluster), ["gadgets", "queues[].x"]);
        assert_eq!(ignored(text, &Scope::Vhost("v".to_owned())), ["gadgets", "queues[].x", "users"]);
    }

    #[test]
    fn objects_and_their_vhosts_are_found_where_they_stand() {
        let text = r#"{ "queues" : [ {"name":"a","vhost":"/"} , {"vhost":"v\"","name":"]}"},{"name":"c","vhost":"/"}],"bindings":[] }"#;
        let (members, _) = check(text, &Scope::Cluster, &mut |_, _| false).expect("is right");
        let items: Vec<&str> = members[0].items.iter().map(|(_, item)| &text[item.clone()]).collect();
        assert_eq!(
            items,
            [r#"{"name":"a","vhost":"/"}"#, r#"{"vhost":"v\"","name":"]}"}"#, r#"{"name":"c","vhost":"/"}"#]
        );
        let vhosts: Vec<_> = members[0].vhosts.iter().map(|(vhost, at)| (&text[vhost.clone()], *at)).collect();
        assert_eq!(vhosts, [("\"/\"", 0), (r#""v\"""#, 1)]);
        assert_eq!((members.len(), members[1].items.len()), (2, 0));
    }

    #[test]
    fn members_are_told_by_name_whatever_the_object_before_has() {
        let text = r#"{"queues":[{"name":"a","vhost":"/"},{"name":"b","vhost":"/"},{"vhost":"/","name":"c"},{"vhost":"/" ,"name":"d"},
            {"name":"e","x":1,"vhost":"/"},{"name":"f","x":{"name":2},"vhost":"/"},{"name":"g","y":1,"vhost":"/"}]}"#;
        let [name, vhost] = numbers("queues", ["name", "vhost"]);
        let mut names = Vec::new();
        let mut see = |_: &str, entry: &RawEntry<'_>| {
            assert_eq!(entry.plain_text(vhost), Some("/"));
            names.push(entry.plain_text(name).expect("a name").to_owned());
            false
        };
        let (_, ignored) = check(text, &Scope::Cluster, &mut see).expect("is right");
        assert_eq!(
            (names.concat(), ignored),
            ("abcdefg".to_owned(), vec!["queues[].x".to_owned(), "queues[].y".to_owned()])
        );
        let first = r#"{"queues":[{"name":"a","vhost":"/"},"#;
        for (second, expected) in [
            (r#"{"name":"b","name":"/"}"#, "queues[1].name (line 1, column 56) stands here for the second time"),
            (r#"{"name":"b"}"#, "queues[1].vhost is missing (line 1, column 37)"),
            (r#"{"name":"b","vhost":5}"#, "queues[1].vhost (line 1, column 57) has to be a text, and is a number"),
        ] {
            let told = refused(&format!("{first}{second}]}}"));
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn known_objects_are_counted_and_left_out() {
        let text = r#"{"queues":[{"name":"a","vhost":"/"},{"vhost":"/","n\u0061me":"b"},{"name":"c","vhost":"/"}]}"#;
        let mut is_known = |list: &str, entry: &RawEntry<'_>| {
            let [name] = numbers("queues", ["name"]);
            list == "queues" && entry.plain_text(name) == Some("b")
        };
        let (members, _) = check(text, &Scope::Cluster, &mut is_known).expect("is right");
        let left: Vec<usize> = members[0].items.iter().map(|(index, _)| *index).collect();
        assert_eq!((members[0].count, left), (3, vec![0, 2]));
    }
}
