use super::tokens::{Token, tokens};

/// A path as segments, without the leading `crate`; the last may be `*`.
pub(super) type ModulePath = Vec<String>;

/// The uses of other modules in the text of a module.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Paths within the crate named by shipped code, from the crate's root.
    pub(super) used: Vec<ModulePath>,
    /// Names imported by `use`, with the path of each as written.
    pub(super) imported: Vec<(String, ModulePath)>,
    /// Modules for tests only that have a file of their own.
    pub(super) tests: Vec<ModulePath>,
    /// Number of lines without tests.
    pub(super) lines: usize,
    /// Types that are defined here.
    pub(super) types: Vec<String>,
    /// Methods that are defined here, by their type.
    pub(super) methods: Vec<Method>,
    /// Methods that methods of the same type call here.
    pub(super) calls: Vec<Method>,
}

/// The names of a type and of a method.
pub(super) type Method = (String, String);

/// The owner of an open brace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Open {
    Module,
    /// The `impl` of a type, or of a trait for one.
    Impl {
        of: String,
        is_of_trait: bool,
    },
    Other,
}

impl Source {
    /// Reads the text of the module with this path.
    pub(super) fn read(module: &[String], text: &str) -> Self {
        let tokens = tokens(text);
        let mut reader = Reader {
            tokens: &tokens,
            at: 0,
            module: module.to_vec(),
            open: Vec::new(),
            next: Open::Other,
            source: Self { lines: text.lines().count(), ..Self::default() },
        };
        while reader.at < reader.tokens.len() {
            reader.step();
        }
        reader.source
    }
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// The module that the current text belongs to.
    module: ModulePath,
    /// The open braces.
    open: Vec<Open>,
    /// The owner of the next one.
    next: Open,
    source: Source,
}

impl Reader<'_> {
    fn step(&mut self) {
        match self.text(0) {
            "#" if self.is_test_attribute() => self.skip_item(),
            "use" if self.text(1) != "<" => {
                self.at += 1;
                self.use_tree(&[]);
            }
            "mod" if self.text(2) == "{" => {
                self.module.push(self.text(1).to_owned());
                self.open.push(Open::Module);
                self.at += 3;
            }
            "impl" if self.begins_item() => {
                self.next = self.implemented();
                self.at += 1;
            }
            "fn" => {
                if let Some(Open::Impl { of, is_of_trait: false }) = self.open.last() {
                    self.source.methods.push((of.clone(), self.text(1).to_owned()));
                }
                self.at += 1;
            }
            "struct" | "enum" => {
                self.source.types.push(self.text(1).to_owned());
                self.at += 1;
            }
            "self" if self.text(1) == "." && matches!(self.text(3), "(" | "::") => self.call(2),
            "Self" if self.text(1) == "::" => self.call(2),
            "{" => {
                let next = std::mem::replace(&mut self.next, Open::Other);
                self.open.push(next);
                self.at += 1;
            }
            "}" => {
                if self.open.pop() == Some(Open::Module) {
                    self.module.pop();
                }
                self.at += 1;
            }
            "crate" | "super" | "self" if self.text(1) == "::" => {
                let path = self.path();
                self.note(&path);
            }
            _ => self.at += 1,
        }
    }

    /// Whether an item may begin here, not a type.
    fn begins_item(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or("", |token| token.text);
        matches!(before, "" | "}" | ";" | "]" | "{" | "unsafe")
    }

    /// The type of the `impl` that begins here.
    fn implemented(&self) -> Open {
        let (mut of, mut is_of_trait, mut depth) = (String::new(), false, 0_usize);
        for ahead in 1.. {
            match self.text(ahead) {
                "" | "{" | "where" => break,
                "<" => depth += 1,
                ">" => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                "for" => is_of_trait = true,
                text if text.starts_with(|c: char| c.is_alphabetic() || c == '_') => text.clone_into(&mut of),
                _ => {}
            }
        }
        Open::Impl { of, is_of_trait }
    }

    /// Notes a call of the method that is named `ahead` of here.
    fn call(&mut self, ahead: usize) {
        let of = self.open.iter().rev().find_map(|open| match open {
            Open::Impl { of, .. } => Some(of.clone()),
            _ => None,
        });
        if let Some(of) = of {
            self.source.calls.push((of, self.text(ahead).to_owned()));
        }
        self.at += ahead + 1;
    }

    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    /// Whether an attribute for test code begins here.
    fn is_test_attribute(&self) -> bool {
        if self.text(1) != "[" || self.text(2) != "cfg" {
            return false;
        }
        let words = self.tokens[self.at..].iter().map(|token| token.text).take_while(|text| *text != "]");
        let words: Vec<&str> = words.collect();
        words.contains(&"test") && !words.contains(&"not") && !words.contains(&"any")
    }

    /// Skips the item that begins here, including its attributes.
    fn skip_item(&mut self) {
        let first_line = self.tokens[self.at].line;
        while self.text(0) == "#" {
            self.at += 1;
            self.skip_group();
        }
        if self.text(0) == "pub" {
            self.at += 1;
            if self.text(0) == "(" {
                self.skip_group();
            }
        }
        if self.text(0) == "mod" && self.text(2) == ";" {
            let mut module = self.module.clone();
            module.push(self.text(1).to_owned());
            self.source.tests.push(module);
        }
        let is_import = self.text(0) == "use";
        // A field, or a variant without fields, ends at its comma.
        let is_part = self.text(1) == ":" || self.text(1) == ",";
        loop {
            match self.text(0) {
                "" | "}" => break,
                ";" => {
                    self.at += 1;
                    break;
                }
                "," if is_part => {
                    self.at += 1;
                    break;
                }
                "{" => {
                    self.skip_group();
                    if !is_import && !is_part {
                        break;
                    }
                }
                "(" | "[" => self.skip_group(),
                _ => self.at += 1,
            }
        }
        let last_line = self.tokens.get(self.at.saturating_sub(1)).map_or(first_line, |token| token.line);
        self.source.lines -= (last_line + 1 - first_line).min(self.source.lines);
    }

    /// Skips the brackets that open here.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads the path that begins here.
    fn path(&mut self) -> ModulePath {
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" && self.text(1).starts_with(|c: char| c.is_alphabetic() || c == '_') {
            path.push(self.text(1).to_owned());
            self.at += 2;
        }
        path
    }

    /// Reads the tree of a `use` from here, below the path `above`, to its end.
    fn use_tree(&mut self, above: &[String]) {
        let mut path = above.to_vec();
        loop {
            match self.text(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while self.text(0) != "}" && self.at < self.tokens.len() {
                        self.use_tree(&path);
                        if self.text(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    let name = self.text(1).to_owned();
                    self.at += 2;
                    self.import(name, &path);
                    return;
                }
                ";" | "," | "}" | "" => {
                    if path.len() > above.len() {
                        let name = path.last().cloned().unwrap_or_default();
                        self.import(name, &path);
                    }
                    return;
                }
                text => {
                    path.push(text.to_owned());
                    self.at += 1;
                }
            }
        }
    }

    fn import(&mut self, name: String, path: &[String]) {
        self.note(path);
        self.source.imported.push((name, path.to_vec()));
    }

    /// Notes a path that begins within the crate.
    fn note(&mut self, path: &[String]) {
        let mut from = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => {
                from.clear();
                rest = &rest[1..];
            }
            Some("self") => rest = &rest[1..],
            Some("super") => {}
            _ => return,
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            from.pop();
            rest = &rest[1..];
        }
        from.extend_from_slice(rest);
        self.source.used.push(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(module: &str, text: &str) -> Source {
        Source::read(&module.split("::").map(str::to_owned).collect::<Vec<_>>(), text)
    }

    fn used(module: &str, text: &str) -> Vec<String> {
        read(module, text).used.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn imports_and_paths_in_code_are_found() {
        let text = "use crate::a::{B, c::{self, D as E}};\nfn f(x: crate::g::H) { super::i::j::<crate::K>(x) }";
        let expected = ["a::B", "a::c::self", "a::c::D", "g::H", "i::j", "K"];
        assert_eq!(used("m", text), expected);
    }

    #[test]
    fn super_leads_out_of_modules_within_a_file_too() {
        let text = "mod n { use super::a; mod o { use super::super::super::b; } }\nfn f() { self::c(); super::d() }";
        assert_eq!(used("m", text), ["m::a", "b", "m::c", "d"]);
        assert_eq!(used("m::n", "use super::super::{a, b::*};"), ["a", "b::*"]);
    }

    #[test]
    fn other_crates_and_precise_captures_are_no_imports() {
        assert_eq!(used("m", "use std::io;\nfn f() -> impl Fn() + use<'_> { crate::a }"), ["a"]);
    }

    #[test]
    fn code_of_tests_counts_neither_as_import_nor_as_lines() {
        let text = "fn a() {}\n#[cfg(test)]\nuse crate::{b, c};\n#[cfg(test)]\n#[allow(x)]\nfn d(e: crate::f::G) {\n}\n\
                    struct S {\n#[cfg(test)]\npub(crate) h: crate::i::J,\nk: crate::l::M,\n}\n\
                    #[cfg(test)]\nmod tests {\nuse crate::n;\n}\n";
        assert_eq!(used("m", text), ["l::M"]);
        assert_eq!(read("m", text).lines, 4);
        let conditional = "#[cfg(all(test, unix))]\nfn a() { crate::b() }\n#[cfg(any(test, c))]\nfn d() { crate::e() }";
        assert_eq!(used("m", conditional), ["e"]);
    }

    #[test]
    fn a_file_of_tests_is_named() {
        let found = read("m", "#[cfg(test)]\npub(crate) mod tests;\nmod n { #[cfg(test)]\nmod tests; }");
        assert_eq!(
            found.tests,
            [["m", "tests"].map(str::to_owned).to_vec(), ["m", "n", "tests"].map(str::to_owned).to_vec()]
        );
    }

    #[test]
    fn methods_and_their_calls_are_found_with_their_type() {
        let text = "impl<T: A> B<T> where T: C { fn d(&self, e: impl Fn()) { self.f(); self.g.h(); self.i::<u8>() } }\n\
                    impl J for crate::k::B { fn l(&self) { if m { self.n(Self::o) } } }\nfn p(q: &B) { q.d() }";
        let found = read("m", text);
        let of_b = |names: &[&str]| names.iter().map(|name| ("B".to_owned(), (*name).to_owned())).collect::<Vec<_>>();
        assert_eq!(found.methods, of_b(&["d"]));
        assert_eq!(found.calls, of_b(&["f", "i", "n", "o"]));
        assert!(found.types.is_empty(), "it is of another module");
    }

    #[test]
    fn types_are_found_where_they_are_defined() {
        let found = read("m", "pub struct A;\n#[cfg(test)]\nstruct B;\nenum C { D }\ntrait E {}\nimpl A {}");
        assert_eq!(found.types, ["A", "C"]);
    }

    #[test]
    fn an_import_makes_the_name_it_is_given() {
        let found = read("m", "pub use a::{B, c::D as E};");
        let names: Vec<&str> = found.imported.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["B", "E"]);
    }
}
