//! `leveret verify` and `leveret log dump` on a directory with an entry log. No node writes one yet, so the log's own code does.

use std::path::Path;

use bytes::Bytes;
use leveret_log::{
    Entry, EntryKind, EntryLog, EntryOptions, Lane, MemoryDisk, Next, PlacementId, Vote, recover_entries,
};
use leveret_tests::broker::is_given;
use leveret_tests::data_directory::{files, put};
use leveret_tests::node::{Node, Options, run};
use serde_json::Value;

const FILE: &str = "raft-0000-0000000000000001";

/// Runs both lanes until nothing is due.
fn settle(log: &mut EntryLog, disk: &MemoryDisk) {
    let mut now = 0;
    let mut is_idle = false;
    while !is_idle {
        now += 60_000_000;
        is_idle = true;
        for lane in [Lane::Commit, Lane::Background] {
            if let Next::Run(id, job) = log.next_job(lane, now) {
                log.complete(id, job.run(disk), now).expect("a sound disk");
                is_idle = false;
            }
        }
    }
}

fn entry(placement: PlacementId, index: u64) -> Entry {
    let body = Bytes::from(vec![0x20 + index as u8; 300]);
    Entry { kind: EntryKind::Commands, placement, index, term: 3, led_by: 7, clock: 99, committed: index, body }
}

/// Gives a stopped node's directory an entry log with two placements, of which the first has purged an entry.
fn add_entry_log(directory: &Path) {
    let store = files(directory);
    let wal = store.iter().find(|(name, _)| name.starts_with("wal-")).expect("a node has a log").1;
    let node_id = u64::from_le_bytes(wal[8..16].try_into().expect("eight bytes"));
    let options = EntryOptions { file_bytes: 64 << 10, disk_reserve: Some(0), node_id, ..EntryOptions::default() };
    let disk = MemoryDisk::new();
    let (mut log, _) = recover_entries(&disk, &options, 0).expect("an empty disk is a new log");
    for placement in [PlacementId(4), PlacementId(9)] {
        log.save_vote(placement, Vote { term: 3, replica: 7, is_leader: true }, 0).expect("it is the first");
        for index in 0..3 {
            log.append(placement, vec![entry(placement, index)], 0).expect("it follows");
            settle(&mut log, &disk);
        }
    }
    log.applied(PlacementId(4), 1).expect("it rises");
    log.purge(PlacementId(4), 1, 3, 0).expect("it is applied");
    log.close(0);
    settle(&mut log, &disk);
    for number in 1..=4 {
        let name = format!("raft-0000-{number:016x}");
        put(directory, &name, &disk.content(&name).expect("a ring has four files"));
    }
    put(directory, "raft-closed-0000", &disk.content("raft-closed-0000").expect("it was closed"));
}

/// The directory of a stopped node, with an entry log.
fn stopped() -> Node {
    let mut node = Node::start(Options::new());
    assert!(node.terminate().success());
    add_entry_log(node.directory());
    node
}

fn verify(directory: &Path) -> (i32, Value, String) {
    let path = directory.to_str().expect("a path of text");
    let (status, report, problem) = run(&["verify", path, "--format", "json"]);
    let report = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report} {problem}"));
    (status, report, run(&["verify", path]).1)
}

#[test]
fn verify_counts_the_entries_of_a_sound_entry_log() {
    if is_given() {
        return;
    }
    let node = stopped();
    let (status, report, text) = verify(node.directory());
    assert_eq!(status, 0, "{report}");
    let entries = &report["entry_log"];
    assert_eq!((entries["placements"].as_u64(), entries["entries"].as_u64()), (Some(2), Some(6)), "{report}");
    assert!(text.contains("the entry log: 4 files, 262144 bytes, 6 entries of 2 placements"), "{text}");
}

#[test]
fn verify_names_the_placement_whose_entry_was_damaged() {
    if is_given() {
        return;
    }
    let node = stopped();
    let mut content = files(node.directory())[FILE].clone();
    let at = content.windows(300).rposition(|window| window == [0x21; 300]).expect("the second entry of placement 9");
    content[at + 100] ^= 4;
    put(node.directory(), FILE, &content);
    let (status, report, text) = verify(node.directory());
    assert_eq!(status, 1, "{report}");
    let text_of_9 = "placement 9: its replica has to be removed, and to join again";
    assert!(text.contains(text_of_9) && !text.contains("placement 4"), "{text}");
}

#[test]
fn a_dump_shows_entries_votes_and_marks_of_placements() {
    if is_given() {
        return;
    }
    let node = stopped();
    let path = node.directory().to_str().expect("a path of text");
    let (status, lines, problem) = run(&["log", "dump", path, FILE, "--format", "json"]);
    assert_eq!(status, 0, "{problem}");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |placement: u64| lines.iter().filter(move |line| line["placement"] == placement).collect::<Vec<_>>();
    assert_eq!((of(4).len(), of(9).len()), (5, 4), "{lines:?}");
    let last = of(9)[3];
    for (key, value) in [("index", 2), ("term", 3), ("led_by", 7), ("committed", 2), ("clock", 99)] {
        assert_eq!(last[key], value, "{key} of {last}");
    }
    let mark = of(4)[4];
    assert_eq!((mark["first"].as_u64(), mark["purged_term"].as_u64()), (Some(1), Some(3)), "{mark}");
    let (status, text, problem) = run(&["log", "dump", path]);
    assert_eq!(status, 0, "{problem}");
    assert!(text.contains(FILE) && text.contains("placement=9"), "{text}");
}
