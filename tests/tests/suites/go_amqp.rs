//! Azure/go-amqp's own integration tests, those of integration_test.go: the module's other tests need no broker. They
//! use addresses of version 1: bare queue names that the broker declares on attach.

use std::fs;

use leveret_tests::broker::Broker;
use leveret_tests::go_suite::{Module, SuiteRun};
use leveret_tests::node::Options;

/// Number of names in the pinned version.
const NAMES: usize = 332;

/// Number of sessions that 'TestConcurrentSessionsOpenClose' opens concurrently; the default is RabbitMQ's 64.
const SESSIONS: usize = 100;

#[test]
fn every_test_of_the_module_passes_or_is_listed() {
    let options = Options::new()
        .set("deprecated_features.permit.amqp_address_v1", true)
        .set("session_max_per_connection", SESSIONS);
    let broker = Broker::start_with(options);
    let module = Module::copy("go-amqp", "github.com/Azure/go-amqp");
    let text = fs::read_to_string(module.path().join("integration_test.go")).expect("integration_test.go");
    let functions: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("func ").and_then(|rest| rest.split_once('(')))
        .filter(|(name, _)| name.starts_with("Test"))
        .map(|(name, _)| name)
        .collect();

    let address = format!("amqp://guest:guest@{}", broker.amqp());
    let only = format!("^({})$", functions.join("|"));
    let output = module.test(&["-run", &only, "."], &[("AMQP_BROKER_ADDR", &address)]);
    let run = SuiteRun::parse(&String::from_utf8_lossy(&output.stdout));
    run.judge("go-amqp.txt", NAMES, &output);
    broker.finish("Test");
}
