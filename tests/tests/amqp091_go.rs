//! amqp091-go's own integration tests, as they come in its Go module.
//!
//! Every name passes or stands in allow/amqp091-go.txt with the feature it needs; an entry that isn't needed fails.
//! The module is copied, because `go test` writes beside it and because its tests of recovery drop connections over
//! the HTTP API at a fixed port: in the copy that port is the broker's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use leveret_tests::broker::Broker;
use leveret_tests::{allow, cell};
use serde_json::Value;

const MODULE: &str = "github.com/rabbitmq/amqp091-go";
const FIXED_PORT: &str = "15672";

/// How many names the pinned version has; fewer means that the suite didn't run to its end.
const NAMES: usize = 384;

#[test]
fn every_test_of_the_module_passes_or_is_listed() {
    let broker = Broker::start();
    let scratch = tempfile::Builder::new().prefix("amqp091-go-").tempdir().expect("a temporary directory");
    copy(&module_folder(), scratch.path());
    let (_, port) = broker.http().authority.rsplit_once(':').map(|(_, port)| ((), port.to_owned())).expect("a port");
    for file in ["internal/utils/http.go", "recovery_test.go"] {
        let path = scratch.path().join(file);
        let text = fs::read_to_string(&path).expect("a file of the module");
        assert!(text.contains(FIXED_PORT), "{file} has no port to replace");
        fs::write(&path, text.replace(FIXED_PORT, &port)).expect("write the copy");
    }

    let output = Command::new("go")
        .args(["test", "-tags", "integration", "-json", "-count=1", "-timeout", "15m", "./..."])
        .current_dir(scratch.path())
        .env("AMQP_URL", format!("amqp://guest:guest@{}/", broker.amqp()))
        .output()
        .expect("go test");
    let run = Run::parse(&String::from_utf8_lossy(&output.stdout));
    let listed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("allow/amqp091-go.txt")).expect("list");
    let mut wrong = allow::judge(&allow::parse(&listed), &run.passed, &run.failed);
    println!("amqp091-go: {} passed, {} didn't", run.passed.len(), run.failed.len());
    if run.passed.len() + run.failed.len() < NAMES {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        wrong.push(format!("only {} of {NAMES} names ran\n{stderr}", run.passed.len() + run.failed.len()));
    }
    for name in run.failed.iter().filter(|name| wrong.iter().any(|line| line.starts_with(&format!("{name} ")))) {
        println!("--- {name}\n{}", run.output.get(name).map_or("", String::as_str));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    broker.finish("test");
}

fn module_folder() -> PathBuf {
    let output = Command::new("go")
        .args(["list", "-m", "-json", MODULE])
        .current_dir(cell::clients().join("go"))
        .output()
        .expect("go list");
    let json: Value = serde_json::from_slice(&output.stdout).expect("the module's description");
    json["Dir"].as_str().expect("the module's folder: run `make -C tests/clients install`").into()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the module's folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            // The module cache is read-only, its copy isn't.
            fs::write(&target, fs::read(entry.path()).expect("a file")).expect("a copy");
        }
    }
}

/// What `go test -json` said.
#[derive(Default)]
struct Run {
    passed: Vec<String>,
    /// Failed, skipped or never ended.
    failed: Vec<String>,
    output: BTreeMap<String, String>,
}

impl Run {
    fn parse(text: &str) -> Self {
        let mut run = Self::default();
        let mut open = BTreeMap::new();
        for line in text.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let Some(name) = event["Test"].as_str() else { continue };
            match event["Action"].as_str() {
                Some("run") => drop(open.insert(name.to_owned(), ())),
                Some("pass") => {
                    open.remove(name);
                    run.passed.push(name.to_owned());
                }
                Some("fail" | "skip") => {
                    open.remove(name);
                    run.failed.push(name.to_owned());
                }
                Some("output") => {
                    run.output.entry(name.to_owned()).or_default().push_str(event["Output"].as_str().unwrap_or(""));
                }
                _ => {}
            }
        }
        run.failed.extend(open.into_keys());
        run
    }
}
