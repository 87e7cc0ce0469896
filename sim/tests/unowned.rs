//! Logs that no queue in the metadata owns stay through checkpoints and restarts, until an operator deletes them.

use std::sync::Arc;

use leveret_broker::authenticate::Anybody;
use leveret_broker::streams::StoreId;
use leveret_broker::{Broker, Now, Settings, Setup, UnownedLog};
use leveret_log::{Lane, LogId, MemoryDisk, Next, Options, Payload, Wait};
use leveret_message::{BatchBuilder, Envelope};
use leveret_model::{Arguments, Command, DeclareQueue};

/// A log that no metadata names.
const LOG: LogId = LogId(1_000_000);

fn options() -> Options {
    Options { file_bytes: 64 << 10, buffer_bytes: 256 << 10, reserve_bytes: 16 << 10, ..Options::default() }
}

struct Node<'a> {
    broker: Arc<Broker>,
    disk: &'a MemoryDisk,
    now: Now,
}

impl Node<'_> {
    fn start(disk: &MemoryDisk) -> Node<'_> {
        let now = Now { monotonic: 1_000_000_000, wall_ms: 0 };
        let counters = vec![Arc::default()];
        let (broker, _) = Broker::recover(
            disk,
            options(),
            Setup { settings: Settings::default(), protocols: Vec::new(), authenticator: Arc::new(Anybody), counters },
            now,
        )
        .expect("it starts");
        Node { broker, disk, now }
    }

    /// Runs both lanes until nothing is due within a moment: some work is always due later.
    fn settle_down(&mut self) {
        let end = self.now.monotonic + 2_000_000_000;
        loop {
            let mut at = u64::MAX;
            let mut ran = false;
            for lane in [Lane::Commit, Lane::Background] {
                match self.broker.next_job(StoreId::FIRST, lane, self.now).expect("it goes on") {
                    Next::Run(id, job) => {
                        let result = job.run(self.disk);
                        drop(job);
                        self.broker.complete(StoreId::FIRST, id, result, self.now).expect("it goes on");
                        ran = true;
                    }
                    Next::At(time) => at = at.min(time),
                    Next::Idle => {}
                }
            }
            match at {
                _ if ran => self.now.monotonic += 10_000,
                at if at > end => return,
                at => self.now.monotonic = at,
            }
        }
    }

    /// Declares queues until the log's files have been retired several times.
    fn retire(&mut self, name: &str) {
        for number in 0..1500 {
            let name = format!("{name} {number} {}", "x".repeat(100));
            let declare = DeclareQueue::durable("/".into(), name.into(), Arguments::default());
            self.broker.bootstrap(vec![Command::DeclareQueue(declare)], self.now).expect("is accepted");
            self.settle_down();
        }
    }
}

#[test]
fn a_log_without_an_owner_stays_until_it_is_deleted() {
    let disk = MemoryDisk::new();
    let node = Node::start(&disk);
    drop(node);
    // Its queue is in no metadata.
    let mut recovered = leveret_broker::recovery::Recovered::default();
    let (mut log, _) = leveret_log::recover(&disk, options(), &mut recovered, 0).expect("it is sound");
    let mut builder = BatchBuilder::default();
    for body in [&b"first"[..], b"second", b"third"] {
        builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", body);
    }
    let batch = builder.finish();
    let payloads: Vec<Vec<u8>> = (0..3).map(|at| batch.message(at).head.to_vec()).collect();
    let messages = payloads.iter().map(|head| Payload { head, body: None });
    log.append_messages(LOG, 1, messages, Wait::Confirm, 0);
    log.close(0);
    while let Next::Run(id, job) = log.next_job(Lane::Commit, 1_000_000_000) {
        let result = job.run(&disk);
        drop(job);
        log.complete(id, result, 1_000_000_000).expect("it goes on");
    }
    drop(log);

    let expected = [UnownedLog { log: LOG.0, messages: 3, bytes: 16 }];
    for round in 0..2 {
        let mut node = Node::start(&disk);
        assert_eq!(node.broker.unowned(), expected, "round {round}");
        node.retire(&format!("round {round}"));
        let told = |log: &leveret_log::Log| (log.statistics().checkpoints, format!("{:?}", log.statistics()));
        let (checkpoints, statistics) = node.broker.log(StoreId::FIRST).inspect(told);
        assert!(checkpoints > 1, "{statistics}");
    }
    let mut node = Node::start(&disk);
    assert_eq!(node.broker.unowned(), expected);
    assert!(!node.broker.delete_unowned(LOG.0 + 1) && node.broker.delete_unowned(LOG.0));
    node.retire("deleted");
    assert!(node.broker.unowned().is_empty());
    drop(node);
    assert!(Node::start(&disk).broker.unowned().is_empty());
}
