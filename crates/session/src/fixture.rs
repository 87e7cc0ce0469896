//! Queues for tests of publishing.

use std::sync::Arc;

use leveret_broker::asked::NowOrLater;
use leveret_broker::authenticate::Anybody;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::{Broker, Now, Settings, Setup};
use leveret_log::{MemoryDisk, Options};
use leveret_model::{Command, DeclareQueue, Permit};

/// A durable queue in a broker of its own, on an in-memory disk.
pub(crate) fn queue() -> QueueRef {
    let now = Now { monotonic: 0, wall_ms: 0 };
    let (disk, counters) = (MemoryDisk::new(), vec![Arc::default()]);
    let (broker, _) = Broker::recover(
        &disk,
        Options::default(),
        Setup { settings: Settings::default(), protocols: Vec::new(), authenticator: Arc::new(Anybody), counters },
        now,
    )
    .expect("an empty disk");
    let declare = DeclareQueue::durable("/".into(), "work".into(), leveret_model::Arguments::default());
    broker.bootstrap(vec![Command::CreateVhost { name: "/".into() }], now).expect("is accepted");
    let declare = ChangeRequest::new(Permit::system(), Command::DeclareQueue(declare));
    match broker.registry.change(declare, now.monotonic) {
        NowOrLater::Now(changed) => changed.expect("is accepted").declared.expect("is declared"),
        NowOrLater::Later(_) => panic!("nothing here answers later"),
    }
}
