//! Groups whose commit record the replay hasn't reached.
//!
//! Their messages and chunks are replayed in place, since numbers only grow, and withdrawn if no commit record comes; their
//! settles wait for it, since nothing depends on when a message is settled.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Damage, Hit, Replay, Report};
use crate::options::Options;
use crate::types::{JointRecord, LogId, Position, SettleRange, SettleReason};

/// Messages that were replayed: numbers and payload.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A message, with its number.
    Message(u64, Bytes),
    /// A chunk, with the number of its first message and the number of messages.
    Chunk(u64, u16, Bytes),
}

type Settle = (LogId, SettleReason, Vec<SettleRange>);

#[derive(Debug, Default)]
struct OpenGroup {
    arrivals: Vec<(Position, (LogId, Arrival))>,
    settles: Vec<(Position, Settle)>,
    /// Number of damages when its first record came.
    damaged: usize,
}

/// The open groups, by slot.
#[derive(Debug, Default)]
pub(super) struct OpenGroups {
    groups: BTreeMap<u16, OpenGroup>,
    /// Number of damages before the batch being replayed, if that batch is damaged.
    pub damaged_before: Option<usize>,
    #[cfg(feature = "planted-bugs")]
    ignore_commit: bool,
}

impl OpenGroups {
    #[cfg_attr(not(feature = "planted-bugs"), expect(unused_variables))]
    pub(super) fn new(options: &Options) -> OpenGroups {
        OpenGroups {
            groups: BTreeMap::new(),
            damaged_before: None,
            #[cfg(feature = "planted-bugs")]
            ignore_commit: options.has_bug(crate::options::Bug::IgnoreGroupCommit),
        }
    }

    fn open(&mut self, slot: u16, report: &Report) -> &mut OpenGroup {
        let damaged = self.damaged_before.unwrap_or(report.damaged.len());
        self.groups.entry(slot).or_insert_with(|| OpenGroup { damaged, ..OpenGroup::default() })
    }

    /// Notes a replayed message or chunk of the group.
    pub(super) fn arrived(&mut self, slot: u16, position: Position, arrival: (LogId, Arrival), report: &Report) {
        self.open(slot, report).arrivals.push((position, arrival));
    }

    /// Notes settles, which take effect if the group is committed.
    pub(super) fn settle(&mut self, slot: u16, position: Position, settle: Settle, report: &Report) {
        self.open(slot, report).settles.push((position, settle));
    }

    /// Replays a commit record: everything of the slot from this position on takes effect. Older records belong to a
    /// group that was never committed, or whose commit record is damaged.
    pub(super) fn commit(&mut self, slot: u16, first: Position, report: &mut Report, replay: &mut dyn Replay) {
        let Some(mut group) = self.groups.remove(&slot) else {
            // The states of the checkpoint reflect everything.
            return;
        };
        let committed = group.settles.extract_if(.., |(position, _)| *position >= first);
        for (_, (log, reason, ranges)) in committed {
            replay.settle(log, reason, &ranges);
        }
        group.arrivals.retain(|(position, _)| *position < first);
        withdraw(group, report.damaged.len(), report, replay);
    }

    /// Withdraws all open groups: no commit record will come.
    pub(super) fn withdraw_all(&mut self, report: &mut Report, replay: &mut dyn Replay) {
        #[cfg(feature = "planted-bugs")]
        if self.ignore_commit {
            for slot in self.groups.keys().copied().collect::<Vec<_>>() {
                self.commit(slot, 0, report, replay);
            }
            return;
        }
        let damaged_now = report.damaged.len();
        for group in std::mem::take(&mut self.groups).into_values() {
            withdraw(group, damaged_now, report, replay);
        }
    }
}

fn withdraw(group: OpenGroup, damaged_now: usize, report: &mut Report, replay: &mut dyn Replay) {
    let OpenGroup { arrivals, settles, damaged } = group;
    if arrivals.is_empty() && settles.is_empty() {
        return;
    }
    if damaged_now > damaged {
        let logs = arrivals.iter().map(|(_, (log, ..))| *log).chain(settles.iter().map(|(_, (log, ..))| *log));
        let mut logs: Vec<LogId> = logs.collect();
        logs.sort_unstable();
        logs.dedup();
        let reason = "the commit record of a group may be among the damaged bytes";
        report.damaged.push(Damage::new("", 0..0, Hit::Logs(logs), reason));
    }
    report.withdrawn += (arrivals.len() + settles.len()) as u64;
    let most = if planted!(WithdrawFirstOnly) { 1 } else { usize::MAX };
    for (_, (log, arrival)) in arrivals.into_iter().take(most) {
        match arrival {
            Arrival::Message(number, payload) => replay.withdraw(log, number, &payload),
            Arrival::Chunk(first, messages, payload) => {
                replay.withdraw_chunk(JointRecord { log, first, messages, payload: &payload })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_state::LiveState;

    #[derive(Debug, Default)]
    struct Seen(Vec<String>);

    impl Replay for Seen {
        fn restore(&mut self, _: LiveState) {}
        fn message(&mut self, _: LogId, _: u64, _: &[u8]) {}
        fn references(&mut self, _: JointRecord<'_>) {}
        fn chunk(&mut self, _: JointRecord<'_>) {}
        fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
            self.0.push(format!("withdraw {log}/{number} {}", payload.len()));
        }
        fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
            let JointRecord { log, first, messages, payload } = record;
            self.0.push(format!("withdraw {log}/{first}+{messages} {}", payload.len()));
        }
        fn settle(&mut self, log: LogId, _: SettleReason, ranges: &[SettleRange]) {
            self.0.push(format!("settle {log}/{}", ranges[0].first));
        }
        fn control(&mut self, _: LogId, _: u8, _: &[u8]) {}
    }

    fn settle(log: u64, number: u64) -> Settle {
        (LogId(log), SettleReason::DeadLettered, vec![SettleRange { first: number, last: number, bytes: 0 }])
    }

    fn message(log: u64, number: u64) -> (LogId, Arrival) {
        (LogId(log), Arrival::Message(number, Bytes::from_static(b"12345")))
    }

    #[test]
    fn a_chunk_without_its_commit_record_is_withdrawn_whole() {
        let (mut groups, mut report, mut seen) = (OpenGroups::default(), Report::default(), Seen::default());
        let chunk = |first, messages| (LogId(2), Arrival::Chunk(first, messages, Bytes::from_static(b"1234567")));
        groups.arrived(0, 1, chunk(0, 300), &report);
        groups.arrived(1, 2, chunk(300, 5), &report);
        groups.arrived(1, 3, message(3, 1), &report);
        groups.commit(1, 2, &mut report, &mut seen);
        assert!(seen.0.is_empty());
        groups.withdraw_all(&mut report, &mut seen);
        assert_eq!(seen.0, ["withdraw 2/0+300 7"]);
        assert_eq!(report.withdrawn, 1);
    }

    #[test]
    fn a_commit_holds_for_its_own_group_only() {
        let (mut groups, mut report, mut seen) = (OpenGroups::default(), Report::default(), Seen::default());
        groups.settle(0, 1, settle(1, 10), &report);
        groups.arrived(0, 2, message(2, 20), &report);
        // The commit record of that group is lost; the slot was reused.
        groups.settle(0, 5, settle(1, 11), &report);
        groups.arrived(0, 6, message(2, 21), &report);
        groups.settle(1, 7, settle(3, 30), &report);
        groups.commit(0, 5, &mut report, &mut seen);
        assert_eq!(seen.0, ["settle 1/11", "withdraw 2/20 5"]);
        assert_eq!(report.withdrawn, 2);
        seen.0.clear();
        groups.commit(1, 7, &mut report, &mut seen);
        groups.commit(1, 9, &mut report, &mut seen);
        groups.withdraw_all(&mut report, &mut seen);
        assert_eq!(seen.0, ["settle 3/30"]);
        assert_eq!((report.withdrawn, report.damaged.len()), (2, 0));
    }

    #[test]
    fn damage_to_a_possible_commit_record_names_the_groups_logs() {
        let (mut groups, mut report, mut seen) = (OpenGroups::default(), Report::default(), Seen::default());
        groups.settle(4, 1, settle(1, 10), &report);
        groups.arrived(4, 2, message(2, 20), &report);
        report.damaged.push(Damage::new("w", 0..1, Hit::Logs(vec![]), "a record's checksum is wrong"));
        groups.settle(5, 3, settle(3, 10), &report);
        groups.withdraw_all(&mut report, &mut seen);
        assert_eq!(seen.0, ["withdraw 2/20 5"]);
        assert_eq!(report.damaged.len(), 2);
        assert_eq!(report.damaged[1].logs, Hit::Logs(vec![LogId(1), LogId(2)]));
    }
}
