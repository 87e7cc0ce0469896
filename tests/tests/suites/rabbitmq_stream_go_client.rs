//! The own suite of RabbitMQ's stream client for Go, without its unit tests of formats. Its fixed ports are replaced by the broker's
//! in the copy.

use std::fs;
use std::path::{Path, PathBuf};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::go_suite::{Module, SuiteRun, replace_number};
use leveret_tests::node::{Node, Options};
use serde_json::Value;

/// Packages of the module, each with the number of its specs in the pinned version.
const PACKAGES: [(&str, usize); 3] = [("stream", 230), ("ha", 16), ("integration_test", 2)];

/// A test that drops the connection of a producer, and expects every message to be confirmed on it. A RabbitMQ lists connections up to
/// five seconds late, when that is so.
const DROPS_EARLY: &str = "pkg/ha/ha_super_stream_publisher_test.go";
const WAITS_FOR_CONFIRMS: &str =
    "Eventually(func() int32 { return atomic.LoadInt32(&confirmed) }, 10*time.Second).Should(Equal(int32(200)))";

/// Specs that wait until a producer has connected again, or has given up. The client waits twice before it asks for the stream, 3 to 11
/// seconds at random each time: in three runs of a hundred that is longer than these specs wait, with any broker.
const WAITS_FOR_RECONNECTIONS: &str = "pkg/ha/ha_publisher_test.go";
const RECONNECTS_WITHIN: &str = ".WithTimeout(20 * time.Second)";

/// Specs whose outcome is left to chance. A consumer stores the offset at which it was told to begin, if it was told before it closes,
/// which is a matter of microseconds; and messages that are sent in several frames are in one chunk if the broker reads them at once.
const OF_CHANCE: [&str; 2] = [
    "offset should not be overwritten by autocommit on consumer close when no messages have been consumed",
    "should record metrics for multiple chunks",
];

#[test]
fn every_spec_of_the_module_passes_or_is_listed() {
    if is_given() {
        return;
    }
    // The suite looks for its connections by this name.
    let node = Node::start(Options::new().set("stream.advertised_host", "localhost"));
    let module = Module::copy("stream-go", "github.com/rabbitmq/rabbitmq-stream-go-client");
    let (stream, http) = (node.ports().stream.to_string(), node.ports().http.to_string());
    let ports = |text: &str| replace_number(&replace_number(text, "15672", &http), "5552", &stream);
    let mut edited = 0;
    for path in go_files(&module.path().join("pkg")) {
        let text = fs::read_to_string(&path).expect("a file of the module");
        let ours = ports(&text);
        if ours != text {
            fs::write(&path, ours).expect("write the copy");
            edited += 1;
        }
    }
    assert!(edited > 10, "the ports stand in {edited} files only: is this another version?");
    module.edit(DROPS_EARLY, |text| {
        let drop = "connectionToDrop := \"\"";
        text.replace(drop, &format!("{WAITS_FOR_CONFIRMS}\n\t\t{drop}"))
    });
    module.edit(WAITS_FOR_RECONNECTIONS, |text| text.replace(RECONNECTS_WITHIN, ".WithTimeout(40 * time.Second)"));

    let folders = PACKAGES.map(|(package, _)| format!("./pkg/{package}"));
    let skip = format!("-ginkgo.skip={}", OF_CHANCE.join("|"));
    let options = ["-ginkgo.seed=1", "-ginkgo.json-report=report.json", &skip];
    let arguments: Vec<&str> = folders.iter().map(String::as_str).chain(options).collect();
    let output = module.test(&arguments, &[]);
    let mut run = SuiteRun::default();
    for (package, _) in PACKAGES {
        let path = module.path().join("pkg").join(package).join("report.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("no report of {package}: {error}\n{}", String::from_utf8_lossy(&output.stdout));
        });
        let of_package = SuiteRun::parse_ginkgo(&without_skipped(&text));
        let named = |name: String| format!("{package} / {name}");
        run.passed.extend(of_package.passed.into_iter().map(named));
        run.failed.extend(of_package.failed.into_iter().map(named));
        run.output.extend(of_package.output.into_iter().map(|(name, text)| (named(name), text)));
    }
    run.rename(&stream, "5552");
    run.judge("rabbitmq-stream-go-client.txt", PACKAGES.iter().map(|(_, specs)| specs).sum(), &output);
    conservation::check(&node.http());
}

/// The report without the specs that are left to chance.
fn without_skipped(report: &str) -> Value {
    let mut report: Value = serde_json::from_str(report).expect("a report");
    for suite in report.as_array_mut().into_iter().flatten() {
        if let Some(specs) = suite["SpecReports"].as_array_mut() {
            specs.retain(|spec| !OF_CHANCE.iter().any(|text| spec["LeafNodeText"] == *text));
        }
    }
    report
}

fn go_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the module's folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(go_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "go") {
            found.push(path);
        }
    }
    found
}
