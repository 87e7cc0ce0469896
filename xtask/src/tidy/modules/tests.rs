use super::*;
use crate::tidy::File;

/// Complaints about a crate `queue` with these files and layers.
fn complaints(layers: &str, files: &[(&str, &str)]) -> Vec<String> {
    complaints_of(&format!("lines_max = 10\nlayers = [{layers}]\n"), files)
}

fn complaints_of(table: &str, files: &[(&str, &str)]) -> Vec<String> {
    let table = format!("[queue]\n{table}").parse().expect("is TOML");
    let layers = Layers::read(&table, "queue").expect("is a table");
    complain("queue", &layers, &Modules::read(&repository(files), "queue"))
}

fn repository(files: &[(&str, &str)]) -> Repository {
    let file =
        |(path, text): &(&str, &str)| (format!("crates/queue/src/{path}"), File { text: Some((*text).to_owned()) });
    Repository { files: files.iter().map(file).collect() }
}

#[test]
fn a_module_may_use_only_modules_below_it() {
    let files = [("a.rs", "use crate::b::C;\n"), ("b.rs", "pub struct C;\n")];
    assert_eq!(complaints("'a', 'b'", &files), [""; 0]);
    let expected = ["crates/queue/src: a may not use b, which isn't below it: C"];
    assert_eq!(complaints("'b', 'a'", &files), expected);
    assert_eq!(complaints("'a b'", &files), expected);
}

#[test]
fn a_re_export_leads_to_the_module_that_defines_the_name() {
    let root = "mod a;\nmod b;\npub use b::{C, d::E as F};\npub type Own = u64;\n";
    let users = ["use crate::C;", "use crate::F;", "fn f(_: super::F) {}"];
    for user in users {
        let found = complaints("'b', 'a'", &[("lib.rs", root), ("a.rs", user), ("b.rs", "")]);
        assert_eq!(found.len(), 1, "{user}: {found:?}");
    }
    assert_eq!(complaints("'b', 'a'", &[("lib.rs", root), ("a.rs", "use crate::Own;"), ("b.rs", "")]), [""; 0]);
}

#[test]
fn files_below_a_module_count_as_that_module() {
    let files = [("a/mod.rs", "mod c;\n"), ("a/c.rs", "use super::super::b;\nuse super::d;\n"), ("b.rs", "")];
    assert_eq!(complaints("'b', 'a'", &files), ["crates/queue/src: a may not use b, which isn't below it: b"]);
}

#[test]
fn a_circle_has_to_be_named() {
    let files = [("a.rs", "use crate::b;\n"), ("b.rs", "use crate::a;\n")];
    let found = complaints("'a', 'b'", &files);
    assert_eq!(found[0], "crates/queue/src: a circle that xtask/modules.toml doesn't name: a b");
    assert_eq!(complaints("{ circle = 'a b', because = 'so' }", &files), [""; 0]);
}

#[test]
fn a_named_circle_that_does_not_exist_is_refused() {
    let files = [("a.rs", "use crate::b;\n"), ("b.rs", "use crate::a;\n"), ("c.rs", "use crate::a;\n")];
    let found = complaints("{ circle = 'a b c', because = 'so' }", &files);
    assert_eq!(found[0], "xtask/modules.toml: [queue] names a circle that isn't one: a b c");
    assert_eq!(found[1], "crates/queue/src: a circle that xtask/modules.toml doesn't name: a b");
}

#[test]
fn a_named_circle_has_a_limit_of_lines_without_tests() {
    let tests = "#[cfg(test)]\nmod tests {\n}\n#[cfg(test)]\nmod more;\n";
    let layer = "{ circle = 'a b', because = 'so' }";
    let a = format!("use crate::b;\n{}{tests}", "\n".repeat(8));
    let more = "\n".repeat(20);
    let files = [("a.rs", a.as_str()), ("a/more.rs", &more), ("b.rs", "use crate::a;\n")];
    assert_eq!(complaints(layer, &files), [""; 0]);
    let files = [("a.rs", a.as_str()), ("b.rs", "use crate::a;\n\n")];
    assert_eq!(complaints(layer, &files), ["crates/queue/src: a circle of 11 lines, over 10: a b"]);
}

#[test]
fn a_call_of_a_method_uses_the_module_that_defines_it() {
    let session = "pub struct S;\nimpl S { fn begin(&mut self) { self.end() } }\n";
    let files = [("session.rs", session), ("end.rs", "use crate::session::S;\nimpl S { fn end(&mut self) {} }\n")];
    let found = complaints("'end', 'session'", &files);
    let expected = [
        "crates/queue/src: a circle that xtask/modules.toml doesn't name: end session",
        "crates/queue/src: session may not use end, which isn't below it: .end",
    ];
    assert_eq!(found, expected);
}

#[test]
fn types_of_one_name_are_told_apart() {
    let one = "struct S;\nimpl S { fn begin(&self) { self.end() } }\n";
    let files = [("one.rs", one), ("other.rs", "struct S;\nimpl S { fn end(&self) {} }\n")];
    assert_eq!(complaints("'one other'", &files), [""; 0]);
    let three = ("three.rs", "use crate::one::S;\nimpl S { fn end(&self) {} }\n");
    let found = complaints("'three', 'one other'", &[files[0], files[1], three]);
    assert_eq!(found[1], "crates/queue/src: one may not use three, which isn't below it: .end");
}

#[test]
fn a_module_is_listed_once_and_exists() {
    let files = [("a.rs", ""), ("b.rs", "")];
    let expected = [
        "xtask/modules.toml: [queue] lists a twice",
        "xtask/modules.toml: [queue] lists c, which doesn't exist",
        "xtask/modules.toml: [queue] doesn't list b",
    ];
    assert_eq!(complaints("'a', 'a c'", &files), expected);
}

#[test]
fn imports_of_tests_do_not_count() {
    let a = "#[cfg(test)]\nmod tests {\n use crate::b;\n}\n#[cfg(test)]\nmod more;\n";
    let files = [("a.rs", a), ("a/more.rs", "use crate::b;\n"), ("b.rs", "")];
    assert_eq!(complaints("'b', 'a'", &files), [""; 0]);
}

#[test]
fn everything_of_the_root_is_no_import() {
    let found = complaints("'a'", &[("a.rs", "use crate::*;\n")]);
    assert_eq!(found, ["crates/queue/src: a imports all of the crate, which hides what it uses"]);
}

#[test]
fn a_crate_without_a_table_is_named() {
    let mut repository = repository(&[]);
    assert_eq!(check(&repository), ["xtask/modules.toml is missing"]);
    repository.files.insert(TABLE.to_owned(), File { text: Some("[broker]\nlayers = []\n[other]\n".to_owned()) });
    let found = check(&repository);
    assert!(found.contains(&"xtask/modules.toml [broker] has no number lines_max".to_owned()), "{found:?}");
    assert_eq!(found[CRATES.len()], "xtask/modules.toml has a table [other], whose modules aren't looked at");
    assert_eq!(found.len(), CRATES.len() + 1);
}

#[test]
fn circles_are_described_with_their_lines() {
    let found = describe(&repository(&[("a.rs", "use crate::b::C;\n"), ("b.rs", "use crate::a::D;\n\n")]));
    assert!(found.contains(&"queue: 2 modules, 3 lines".to_owned()), "{found:?}");
    assert!(found.contains(&"  circle of 2 modules, 3 lines: a 1, b 2".to_owned()), "{found:?}");
    assert!(found.contains(&"    a -> b: C".to_owned()), "{found:?}");
}
