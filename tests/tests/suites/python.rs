//! The integration tests of py-amqp and kombu, which Celery is based on.

use leveret_tests::broker::Broker;
use leveret_tests::python_suite;

/// Number of names in the pinned versions.
const PY_AMQP: usize = 63;
const KOMBU: usize = 50;

/// It cancels its consumer after the first delivery, and expects three others that came back to be on their way by then. Those are
/// read from the disk. Kombu marks it to be repeated up to five times.
const OF_CHANCE: &str = "t/integration/test_py_amqp.py::test_PyAMQPPriority::test_publish_requeue_consume";

#[test]
fn every_test_of_py_amqp_passes_or_is_listed() {
    let broker = Broker::start();
    let (run, output) = python_suite::run("amqp-5.4.2", "t/integration", &[], broker.amqp());
    run.judge("py-amqp.txt", PY_AMQP, &output);
    broker.finish("py-amqp");
}

#[test]
fn every_test_of_kombu_passes_or_is_listed() {
    let broker = Broker::start();
    let (run, output) = python_suite::run("kombu-5.7.0", "t/integration/test_py_amqp.py", &[OF_CHANCE], broker.amqp());
    run.judge("kombu.txt", KOMBU, &output);
    broker.finish("");
}
