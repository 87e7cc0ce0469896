//! The own suite of RabbitMQ's AMQP 1.0 client for Go. Its fixed ports are replaced by the broker's in the copy.

use std::fs;
use std::path::{Path, PathBuf};

use leveret_tests::broker::Broker;
use leveret_tests::go_suite::{Module, SuiteRun, replace_number};
use serde_json::Value;

/// Number of specs in the pinned version.
const NAMES: usize = 211;

/// The folder of the module's tests.
const PACKAGE: &str = "pkg/rabbitmqamqp";

/// Tests of the URI grammar, and the default that they test: the ports are data in these files.
const KEPT: [&str; 4] = ["uri.go", "uri_test.go", "entities.go", "entities_test.go"];

#[test]
fn every_spec_of_the_module_passes_or_is_listed() {
    let broker = Broker::start();
    let module = Module::copy("rabbitmq-go", "github.com/rabbitmq/rabbitmq-amqp-go-client");
    let http = broker.http();
    let (_, http_port) = http.authority.rsplit_once(':').expect("a port");
    let amqp_port = broker.amqp().port().to_string();
    let own = format!("\"amqp://guest:guest@localhost:{amqp_port}/\"");
    let ports = |text: &str| replace_number(&replace_number(text, "15672", http_port), "5672", &amqp_port);
    module.edit("pkg/test-helper/http_utils.go", |text| ports(text));
    let mut edited = 0;
    for path in go_files(&module.path().join(PACKAGE)) {
        let text = fs::read_to_string(&path).expect("a file of the module");
        let ours = ports(&text).replace("\"amqp://\"", &own).replace("\"amqp://guest:guest@localhost\"", &own);
        if ours != text {
            fs::write(&path, ours).expect("write the copy");
            edited += 1;
        }
    }
    assert!(edited > 10, "the ports stand in {edited} files only: is this another version?");

    let report = module.path().join("report.json");
    let argument = format!("-ginkgo.json-report={}", report.display());
    let output = module.test(&[&format!("./{PACKAGE}"), "-ginkgo.seed=1", &argument], &[]);
    let text = fs::read_to_string(&report).unwrap_or_else(|error| {
        panic!("no report: {error}\n{}", String::from_utf8_lossy(&output.stdout));
    });
    let run = SuiteRun::parse_ginkgo(&serde_json::from_str::<Value>(&text).expect("the report"));
    run.judge("rabbitmq-amqp-go-client.txt", NAMES, &output);
    // Its queues' names have no common prefix, so they can't be removed from a given broker.
    if !matches!(broker, Broker::Given { .. }) {
        broker.finish("");
    }
}

fn go_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the package");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "go"))
        .filter(|path| !path.file_name().is_some_and(|name| KEPT.iter().any(|kept| name == *kept)))
        .collect()
}
