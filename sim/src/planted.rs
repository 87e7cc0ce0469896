//! Bugs that are put in on purpose, by class, and how long they hide.

use leveret_broker::planted as broker;
use leveret_log as log;
use leveret_queue::planted as queue;

use crate::event_hash::EventHash;
use crate::failure::Failure;
use crate::seed::{Plan, run_seed};
use crate::tally::Tally;
use crate::world::small_log;

/// A bug, in the crate that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Of the log.
    Log(log::Bug),
    /// Of a queue.
    Queue(queue::Bug),
    /// Of the broker.
    Broker(broker::Bug),
}

/// All that seeds are to catch, by class.
pub const BUGS: &[(&str, Bug)] = &[
    ("order of sync and confirm", Bug::Log(log::Bug::SkipSync)),
    ("order of sync and confirm", Bug::Log(log::Bug::ConfirmAtAppend)),
    ("order of sync and confirm", Bug::Broker(broker::Bug::FirstQueueConfirms)),
    ("order of sync and confirm", Bug::Broker(broker::Bug::ConfirmWhenWritten)),
    ("order of sync and confirm", Bug::Broker(broker::Bug::AcceptWhenWritten)),
    ("order of sync and confirm", Bug::Broker(broker::Bug::DischargeEarly)),
    ("recovery", Bug::Log(log::Bug::ReuseSalt)),
    ("recovery", Bug::Log(log::Bug::AcceptTornBatch)),
    ("recovery", Bug::Log(log::Bug::ReplayTwice)),
    ("recovery", Bug::Log(log::Bug::ReuseBatchNumber)),
    ("recovery", Bug::Log(log::Bug::SkipSyncOfRecovered)),
    ("recovery", Bug::Log(log::Bug::TrustLastBatch)),
    ("recovery", Bug::Log(log::Bug::TrustCheckpoint)),
    ("recovery", Bug::Queue(queue::Bug::ReuseNumber)),
    ("numbers", Bug::Log(log::Bug::RetireOneTooFew)),
    ("numbers", Bug::Log(log::Bug::LoseContainerEdge)),
    ("numbers", Bug::Log(log::Bug::FloorOneTooHigh)),
    ("numbers", Bug::Queue(queue::Bug::OmitLastLive)),
    ("files", Bug::Log(log::Bug::SkipDirectorySync)),
    ("files", Bug::Log(log::Bug::SkipSegmentDirectorySync)),
    ("files", Bug::Log(log::Bug::SkipSegmentSync)),
    ("files", Bug::Log(log::Bug::UnlinkBeforeSettleDurable)),
    ("files", Bug::Log(log::Bug::DeleteNamedSegment)),
    ("files", Bug::Log(log::Bug::TakeEarlierUse)),
    ("groups", Bug::Log(log::Bug::IgnoreGroupCommit)),
    ("groups", Bug::Log(log::Bug::WithdrawFirstOnly)),
    ("groups", Bug::Log(log::Bug::CutGroupByCheckpoint)),
    ("groups", Bug::Log(log::Bug::OmitRestart)),
    ("groups", Bug::Log(log::Bug::CommitGroupFirst)),
    ("settles", Bug::Log(log::Bug::ForgetSettlesAfterCheckpoint)),
    ("settles", Bug::Broker(broker::Bug::ForgetSettles)),
    ("settles", Bug::Broker(broker::Bug::LoseRequeued)),
    ("settles", Bug::Queue(queue::Bug::SettleTwice)),
    ("settles", Bug::Log(log::Bug::LoseSettlesAtRetirement)),
    ("settles", Bug::Log(log::Bug::UndoSettlesByRewrite)),
    ("compaction and checkpoints", Bug::Log(log::Bug::SkipCheckpointSync)),
    ("compaction and checkpoints", Bug::Log(log::Bug::RetireBeforeApply)),
    ("compaction and checkpoints", Bug::Log(log::Bug::DropLiveByRewrite)),
    ("compaction and checkpoints", Bug::Queue(queue::Bug::CountSharedShort)),
    ("concurrency", Bug::Broker(broker::Bug::LoseWaiter)),
    ("concurrency", Bug::Broker(broker::Bug::LoseRoom)),
    ("concurrency", Bug::Broker(broker::Bug::ApplyBeforeDurable)),
    ("concurrency", Bug::Queue(queue::Bug::ApplyOutOfOrder)),
    ("limits", Bug::Log(log::Bug::SpendReserve)),
    ("limits", Bug::Queue(queue::Bug::WidenWindow)),
    ("limits", Bug::Queue(queue::Bug::DriftBytes)),
];

/// Plants a bug in this thread, or none.
pub fn plant(bug: Option<Bug>) {
    let (mut of_log, mut of_queue, mut of_broker) = (None, None, None);
    match bug {
        Some(Bug::Log(bug)) => of_log = Some(bug),
        Some(Bug::Queue(bug)) => of_queue = Some(bug),
        Some(Bug::Broker(bug)) => of_broker = Some(bug),
        None => {}
    }
    log::Bug::plant(of_log);
    queue::plant(of_queue);
    broker::plant(of_broker);
}

/// The first of these seeds that sees a bug, and how: by a check, or by an assertion of the shipped code.
pub fn hunt(bug: Bug, seeds: std::ops::Range<u64>) -> Option<(u64, Result<Failure, String>)> {
    plant(Some(bug));
    let found = seeds.into_iter().find_map(|seed| {
        let run = || run_seed(seed, &Plan::default(), &small_log(), &mut Tally::default(), &mut EventHash::default());
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some((seed, Ok(failure))),
            Err(panic) => Some((seed, Err(panic.downcast_ref::<String>().cloned().unwrap_or_default()))),
        }
    });
    plant(None);
    found
}
