//! Plain English, as far as a program can check it: comments begin with a noun, names of tests are short sentences, and
//! a name stands for one thing.

use std::collections::{BTreeMap, BTreeSet};

use super::Repository;

/// First words of comments that say something of a thing before they name it.
const FIRST_WORDS: &[&str] = &["What", "Who", "Whoever", "Whatever", "Those"];

/// First words of test names that have the same flaw.
const TEST_PREFIXES: &[&str] = &["what_", "who_"];

/// Longest name of a test, in characters.
const TEST_NAME_MAX: usize = 60;

/// Number of modules with one public type name from which on the name no longer tells its types apart.
const MODULES_WITH_A_NAME: usize = 4;

/// The reason of names that both protocols and RabbitMQ give to these things.
const TERM: &str = "a term of the protocols, told apart by its module";

/// Public type names that many modules may have, each with the reason.
const COMMON_NAMES: &[(&str, &str)] = &[
    ("Body", TERM),
    ("Bug", "each crate has a list of bugs that its tests plant"),
    ("Client", TERM),
    ("Consumer", TERM),
    ("Delivery", TERM),
    ("Frame", TERM),
    ("Link", TERM),
    ("Peer", TERM),
    ("Request", TERM),
    ("Session", TERM),
];

/// Checks comments, names of tests and names of public types.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = check_texts(repository);
    complaints.extend(check_names(repository, COMMON_NAMES));
    complaints
}

/// Checks comments and names of tests.
fn check_texts(repository: &Repository) -> Vec<String> {
    let of_file = |(path, text): (&str, &str)| -> Vec<String> {
        comments(text).chain(tests(text)).map(|(line, complaint)| format!("{path}:{line}: {complaint}")).collect()
    };
    repository.texts(".rs").flat_map(of_file).collect()
}

/// Lines of comments that begin with one of [`FIRST_WORDS`].
fn comments(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_first = true;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let whole = line.trim_start().strip_prefix("//").map(|comment| comment.trim_start_matches(['/', '!']).trim());
        let begins = is_first;
        is_first = whole.is_none_or(str::is_empty);
        let comment = whole.filter(|_| begins).or_else(|| if whole.is_none() { trailing(line) } else { None })?;
        let word = comment.split(|c: char| !c.is_alphanumeric() && c != '\'').next()?;
        FIRST_WORDS.contains(&word).then(|| {
            (index + 1, format!("a comment begins with \"{word}\"; name the thing first, then say something of it"))
        })
    })
}

/// The comment after code on its line. A `//` within a string isn't one.
fn trailing(line: &str) -> Option<&str> {
    let (code, comment) = line.split_once(" // ")?;
    let quotes = code.matches('"').count() - code.matches("\\\"").count();
    (quotes % 2 == 0).then_some(comment)
}

/// Test functions whose name is too long or begins with one of [`TEST_PREFIXES`].
fn tests(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_test = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.contains("::test]") || line.contains("::test(");
            return None;
        }
        let was_test = std::mem::take(&mut is_test);
        let line = line.strip_prefix("async ").unwrap_or(line);
        let name = line.strip_prefix("fn ").filter(|_| was_test)?.split(['(', '<']).next()?;
        let length = name.chars().count();
        let complaint = if length > TEST_NAME_MAX {
            format!("the test name {name} has {length} letters; the limit is {TEST_NAME_MAX}")
        } else {
            let prefix = TEST_PREFIXES.iter().find(|prefix| name.starts_with(**prefix))?;
            format!("the test name {name} begins with {prefix}; begin with its subject")
        };
        Some((index + 1, complaint))
    })
}

/// Checks that a public type name is in few modules, apart from the `common` ones, which have to need their entries.
fn check_names(repository: &Repository, common: &[(&str, &str)]) -> Vec<String> {
    let mut modules: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in repository.texts(".rs") {
        for name in text.lines().filter_map(public_type) {
            modules.entry(name).or_default().insert(module(path));
        }
    }
    modules.retain(|_, modules| modules.len() >= MODULES_WITH_A_NAME);
    let is_common = |name: &str| common.iter().any(|(known, _)| *known == name);
    let mut complaints: Vec<String> = modules
        .iter()
        .filter(|(name, _)| !is_common(name))
        .map(|(name, modules)| {
            let list = modules.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("{} modules have a public type {name}; give each a name of its own: {list}", modules.len())
        })
        .collect();
    let unneeded = common.iter().filter(|(name, _)| !modules.contains_key(name));
    complaints.extend(unneeded.map(|(name, _)| format!("the type name {name} needs no exception any more")));
    complaints
}

/// The name of the type that a line declares with any `pub`.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(restricted) => restricted.split_once(')')?.1,
        None => rest,
    };
    let (kind, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| is_type && !name.is_empty())
}

/// The module of a file. Modules that do the same for both protocols count as one: their types are twins on purpose.
fn module(path: &str) -> String {
    let path = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs")).unwrap_or(path);
    let parts = path.split('/').map(|part| if part == "amqp091" || part == "amqp10" { "amqp" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        check_texts(&Repository::from([("a.rs", text)]))
    }

    #[test]
    fn a_comment_names_the_thing_first() {
        let found = texts("/// What it is.\nfn a() {} // Who calls it.\n\n//! Text.\n//!\n//! Those of others.\n");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: a comment begins with \"What\""), "{}", found[0]);
        assert!(found[1].contains(":2: ") && found[2].contains(":6: "), "{found:?}");
    }

    #[test]
    fn later_lines_and_other_words_are_no_beginning() {
        let text = "/// A word,\n/// What follows.\nfn a() {}\n// Whole.\nlet url = \"x // What\";\n// What's\n";
        assert_eq!(texts(text), [""; 0]);
    }

    #[test]
    fn a_test_name_is_short_and_begins_with_its_subject() {
        let long = format!("#[test]\n#[ignore]\nfn {}() {{}}\n", "a".repeat(TEST_NAME_MAX + 1));
        assert!(texts(&long)[0].starts_with("a.rs:3: the test name"), "{:?}", texts(&long));
        assert!(texts("#[tokio::test]\nasync fn what_is_sent() {}\n")[0].ends_with("begin with its subject"));
        assert_eq!(texts(&long.replacen('a', "", 1)), [""; 0]);
        assert_eq!(texts("fn what_is_sent() {}\n#[test]\nfn somewhat_is_sent() {}\n"), [""; 0]);
    }

    fn names(files: &[(&str, &str)], common: &[(&str, &str)]) -> Vec<String> {
        let file = |text: &str| super::super::File { text: Some(text.to_owned()) };
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect();
        check_names(&Repository { files }, common)
    }

    #[test]
    fn a_public_type_name_is_in_three_modules_at_most() {
        let mut files = vec![
            ("a.rs", "pub struct Run;\npub(crate) enum Other {}\n"),
            ("b/mod.rs", "    pub(crate) enum Run {\n"),
            ("c.rs", "pub(in crate::c) trait Run<T> {\n"),
            ("d.rs", "struct Run;\nlet x = pub_struct(Run);\n"),
        ];
        assert_eq!(names(&files, &[]), [""; 0]);
        files.push(("e.rs", "pub type Run<'a> = u8;\n"));
        let complaints = names(&files, &[]);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].ends_with("give each a name of its own: a, b, c, e"), "{}", complaints[0]);
        assert_eq!(names(&files, &[("Run", "a reason")]), [""; 0]);
        let complaints = names(&files[..3], &[("Run", "a reason")]);
        assert_eq!(complaints, ["the type name Run needs no exception any more"]);
    }

    #[test]
    fn twins_of_both_protocols_count_as_one_module() {
        let files = ["x/amqp091/a.rs", "x/amqp10/a.rs", "y/amqp091/mod.rs", "y/amqp10.rs", "z.rs"];
        assert_eq!(names(&files.map(|path| (path, "pub struct Link;\n")), &[]), [""; 0]);
    }
}
