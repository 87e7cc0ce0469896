//! Crates whose own tests run against the broker.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::cell;
use crate::go_suite::{Module, SuiteRun};

/// Copies the crate `name` in the version pinned by the client in the folder `clients/CLIENT`.
///
/// # Panics
/// Without the package registry, if it isn't there yet.
pub fn copy(client: &str, name: &str) -> Module {
    let manifest = cell::clients().join(client).join("Cargo.toml");
    let output = Command::new("cargo")
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(&manifest)
        .output()
        .expect("cargo metadata");
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("cargo metadata: {error}\n{}", String::from_utf8_lossy(&output.stderr)));
    let package = json["packages"].as_array().into_iter().flatten().find(|package| package["name"] == name);
    let path: PathBuf = package.expect("the crate is pinned")["manifest_path"].as_str().expect("a path").into();
    Module::of(name, path.parent().expect("a folder"))
}

/// Runs the tests of a copy with the versions that its package pins, compiled as cheaply as can be, in the folder `target`.
pub fn test(copy: &Module, target: &Path, arguments: &[&str]) -> Output {
    Command::new("cargo")
        .args(["test", "--locked", "--no-fail-fast"])
        .args(arguments)
        .current_dir(copy.path())
        .env("CARGO_TARGET_DIR", target)
        .envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_TERM_COLOR", "never")])
        .output()
        .expect("cargo test")
}

/// The results in the output of cargo's test program. The name of a test is that of its file, and its own.
pub fn results(output: &Output) -> SuiteRun {
    parse(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr))
}

/// Cargo tells on one stream which files it runs, and the files tell on another one which tests.
fn parse(tests: &str, files: &str) -> SuiteRun {
    let files = files.lines().filter_map(|line| line.trim().strip_prefix("Running "));
    let mut files = files.map(|file| file.split([' ', '.']).next().unwrap_or(file).rsplit('/').next().unwrap_or(file));
    let (mut run, mut file, mut shown) = (SuiteRun::default(), "", None);
    for line in tests.lines() {
        if line.starts_with("running ") {
            file = files.next().unwrap_or("");
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            let name = format!("{file} / {name}");
            if outcome == "ok" { &mut run.passed } else { &mut run.failed }.push(name);
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            shown = Some(format!("{file} / {name}"));
        } else if let Some(name) = &shown {
            run.output.entry(name.clone()).or_default().extend([line, "\n"]);
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_several_files_are_told_apart() {
        let files = "   Compiling x v1\n     Running unittests src/lib.rs (a)\n     Running tests/one_test.rs (b)\n";
        let tests = "\nrunning 1 test\ntest a::b ... ok\n\ntest result: ok. 1 passed\n\nrunning 3 tests\ntest a ... ok\n\
            test b ... FAILED\ntest c ... ignored\n\nfailures:\n\n---- b stdout ----\nwhy\n";
        let run = parse(tests, files);
        assert_eq!(run.passed, ["unittests / a::b", "one_test / a"]);
        assert_eq!(run.failed, ["one_test / b", "one_test / c"]);
        assert_eq!(run.output["one_test / b"], "why\n");
    }
}
