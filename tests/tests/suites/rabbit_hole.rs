//! The own suite of rabbit-hole, the Go client of the HTTP API used by RabbitMQ's operators. Its fixed ports are
//! replaced by the broker's in the copy.

use std::fs;

use leveret_tests::broker::{Broker, is_given};
use leveret_tests::go_suite::{Module, SuiteRun, replace_number};
use serde_json::json;

/// Number of specs in the pinned version.
const NAMES: usize = 178;

/// The files with ports; elsewhere the same numbers are data.
const FILES: [&str; 2] = ["rabbithole_test.go", "health_checks_test.go"];

#[test]
fn every_spec_of_the_module_passes_or_is_listed() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let http = broker.http();
    // The same objects as created by the module's own bin/ci/before_build.sh.
    let everything = json!({"configure": ".*", "write": ".*", "read": ".*"});
    for (path, body) in [
        ("users/policymaker", json!({"password": "policymaker", "tags": "policymaker"})),
        ("permissions/%2F/policymaker", everything.clone()),
        ("vhosts/rabbit%2Fhole", json!({})),
        ("permissions/rabbit%2Fhole/guest", everything),
        ("cluster-name", json!({"name": "rabbitmq@localhost"})),
    ] {
        let answer = http.put(&format!("/api/{path}"), &body).expect("an answer");
        assert!(matches!(answer.status, 201 | 204), "{path}: {answer:?}");
    }

    let module = Module::copy("rabbit-hole", "github.com/michaelklishin/rabbit-hole/v3");
    let (_, http_port) = http.authority.rsplit_once(':').expect("a port");
    let amqp_port = broker.amqp().port().to_string();
    for file in FILES {
        module.edit(file, |text| replace_number(&replace_number(text, "15672", http_port), "5672", &amqp_port));
    }
    let report = module.path().join("report.json");
    let argument = format!("-ginkgo.json-report={}", report.display());
    let environment = [("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT", "5s")];
    let output = module.test(&["-mod=mod", ".", "-ginkgo.seed=1", &argument], &environment);
    let text = fs::read_to_string(&report).unwrap_or_else(|error| {
        panic!("no report: {error}\n{}", String::from_utf8_lossy(&output.stdout));
    });
    let mut run = SuiteRun::parse_ginkgo(&serde_json::from_str(&text).expect("the report"));
    run.rename(&amqp_port, "5672");
    run.judge("rabbit-hole.txt", NAMES, &output);
    broker.finish("");
}
