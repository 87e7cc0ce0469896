//! Bugs that are planted on purpose, by class, and the search for seeds that catch them.

use leveret_broker::planted as broker;
use leveret_log as log;
use leveret_queue::planted as queue;

use crate::cluster::{run_forming_seed, run_metadata_seed};
use crate::event_hash::EventHash;
use crate::seed::{Plan, run_noting};
use crate::tally::Tally;
use crate::world::small_log;

/// A bug, by the crate that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// In the log.
    Log(log::Bug),
    /// In a queue.
    Queue(queue::Bug),
    /// In the broker.
    Broker(broker::Bug),
    /// In the metadata of a cluster.
    Metadata(log::Bug),
    /// In the forming of a cluster.
    Forming(log::Bug),
}

/// All bugs that seeds have to catch, by class.
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
    ("recovery", Bug::Log(log::Bug::OmitUnsynced)),
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
    ("files", Bug::Log(log::Bug::ReuseKeptFile)),
    ("files", Bug::Log(log::Bug::RemoveKeptFile)),
    ("groups", Bug::Log(log::Bug::IgnoreGroupCommit)),
    ("groups", Bug::Log(log::Bug::WithdrawFirstOnly)),
    ("groups", Bug::Log(log::Bug::CutGroupByCheckpoint)),
    ("groups", Bug::Log(log::Bug::OmitRestart)),
    ("groups", Bug::Log(log::Bug::CommitGroupFirst)),
    ("groups", Bug::Broker(broker::Bug::ConfirmBehindGroup)),
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
    ("concurrency", Bug::Broker(broker::Bug::ApplyBeforeDurable)),
    ("concurrency", Bug::Queue(queue::Bug::ApplyOutOfOrder)),
    ("streams", Bug::Broker(broker::Bug::ConfirmChunkEarly)),
    ("streams", Bug::Broker(broker::Bug::StoreRepeats)),
    ("streams", Bug::Broker(broker::Bug::LoseJoined)),
    ("streams", Bug::Queue(queue::Bug::DropTooMuch)),
    ("streams", Bug::Queue(queue::Bug::OffByOne)),
    ("streams", Bug::Queue(queue::Bug::SkipOffset)),
    ("deliveries", Bug::Queue(queue::Bug::ForgetAttempt)),
    ("deliveries", Bug::Queue(queue::Bug::ServeWaiting)),
    ("filters", Bug::Queue(queue::Bug::IgnoreFilter)),
    ("filters", Bug::Queue(queue::Bug::MissComebacks)),
    ("clusters", Bug::Metadata(log::Bug::SkipReadBarrier)),
    ("clusters", Bug::Metadata(log::Bug::KeepStagedModel)),
    ("clusters", Bug::Metadata(log::Bug::GiveNumberAgain)),
    ("clusters", Bug::Forming(log::Bug::SeedWithoutMajority)),
    ("limits", Bug::Log(log::Bug::SpendReserve)),
    ("limits", Bug::Queue(queue::Bug::WidenWindow)),
    ("limits", Bug::Queue(queue::Bug::DriftBytes)),
];

/// Plants a bug in this thread, or none.
pub fn plant(bug: Option<Bug>) {
    let (mut of_log, mut of_queue, mut of_broker) = (None, None, None);
    match bug {
        Some(Bug::Log(bug) | Bug::Metadata(bug) | Bug::Forming(bug)) => of_log = Some(bug),
        Some(Bug::Queue(bug)) => of_queue = Some(bug),
        Some(Bug::Broker(bug)) => of_broker = Some(bug),
        None => {}
    }
    log::Bug::plant(of_log);
    queue::plant(of_queue);
    broker::plant(of_broker);
}

/// The detection of a bug.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The seed that detected it.
    pub seed: u64,
    /// The last event before it; empty if its world has none.
    pub event: String,
    /// The check, or the assertion of the shipped code, that detected it.
    pub verdict: String,
}

/// The first of these seeds that detects a bug.
pub fn hunt(bug: Bug, seeds: std::ops::Range<u64>) -> Option<Catch> {
    plant(Some(bug));
    let found = seeds.into_iter().find_map(|seed| {
        let mut event = String::new();
        let run = || match bug {
            Bug::Metadata(_) => run_metadata_seed(seed).map(drop),
            Bug::Forming(_) => run_forming_seed(seed),
            Bug::Log(_) | Bug::Queue(_) | Bug::Broker(_) => {
                let (tally, hash) = (&mut Tally::default(), &mut EventHash::default());
                run_noting(seed, &Plan::default(), &small_log(), (tally, hash), &mut event)
                    .map_err(|failure| failure.check.text().to_owned())
            }
        };
        let verdict = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => return None,
            Ok(Err(text)) => text,
            Err(panic) => format!("an assertion: {}", text_of(&*panic)),
        };
        let verdict = verdict.lines().next().unwrap_or_default().to_owned();
        Some(Catch { seed, event, verdict })
    });
    plant(None);
    found
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| String::from(*text))).unwrap_or_default()
}
