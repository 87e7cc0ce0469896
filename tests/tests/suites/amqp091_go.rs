//! amqp091-go's own integration tests. Its tests of recovery drop connections over the HTTP API at a fixed port,
//! which is replaced by the broker's in the copy. One of its tests uses a server of its own and gives the client a
//! millisecond to close six Go channels, which may be too short beside other suites on two cores.

use leveret_tests::broker::Broker;
use leveret_tests::go_suite::{Module, SuiteRun};

/// Number of names in the pinned version.
const NAMES: usize = 384;

#[test]
fn every_test_of_the_module_passes_or_is_listed() {
    let broker = Broker::start();
    let module = Module::copy("go", "github.com/rabbitmq/amqp091-go");
    let http = broker.http();
    let (_, port) = http.authority.rsplit_once(':').expect("a port");
    for file in ["internal/utils/http.go", "recovery_test.go"] {
        module.edit(file, |text| text.replace("15672", port));
    }
    module.edit("client_test.go", |text| text.replace("time.After(time.Millisecond)", "time.After(10 * time.Second)"));

    let uri = format!("amqp://guest:guest@{}/", broker.amqp());
    let output = module.test(&["-tags", "integration", "./..."], &[("AMQP_URL", &uri)]);
    let run = SuiteRun::parse(&String::from_utf8_lossy(&output.stdout));
    run.judge("amqp091-go.txt", NAMES, &output);
    broker.finish("test");
}
