use std::collections::BTreeSet;

use super::*;

fn outcomes(disk: &SimDisk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..200).map(|seed| disk.crash(seed).content(name)).collect()
}

#[test]
fn synced_bytes_survive_a_power_cut() {
    let disk = SimDisk::new();
    disk.create("a", 0).unwrap();
    disk.write_at("a", 0, &[b"kept"]).unwrap();
    disk.sync("a").unwrap();
    disk.sync_directory().unwrap();
    assert_eq!(outcomes(&disk, "a"), [Some(b"kept".to_vec())].into());
}

#[test]
fn a_name_needs_its_directory_synced() {
    let disk = SimDisk::new();
    disk.create("a", 0).unwrap();
    disk.write_at("a", 0, &[b"kept"]).unwrap();
    disk.sync("a").unwrap();
    assert_eq!(outcomes(&disk, "a"), [None, Some(b"kept".to_vec())].into());
    disk.sync_directory().unwrap();
    disk.rename("a", "b").unwrap();
    assert_eq!(outcomes(&disk, "a"), [None, Some(b"kept".to_vec())].into());
    disk.sync_directory().unwrap();
    disk.remove("b").unwrap();
    assert_eq!(outcomes(&disk, "b").len(), 2);
}

#[test]
fn unsynced_writes_are_kept_lost_or_torn_at_sectors_or_pages() {
    let disk = SimDisk::new();
    disk.create("a", 16_384).unwrap();
    disk.sync("a").unwrap();
    disk.sync_directory().unwrap();
    disk.write_at("a", 256, &[&[1; 1024]]).unwrap();
    let found = outcomes(&disk, "a");
    assert_eq!(found.len(), 8, "three sectors were touched");
    assert!(found.iter().flatten().all(|content| content[..256] == [0; 256]));
    disk.write_at("a", 0, &[&[1; 12_288]]).unwrap();
    let is_torn_at_pages = |content: &Vec<u8>| {
        let mut pages = content.chunks(PAGE).take(3).map(|page| page.iter().all(|byte| *byte == page[0]));
        pages.all(|whole| whole) && content[0] != content[PAGE]
    };
    assert!(outcomes(&disk, "a").iter().flatten().any(is_torn_at_pages));
}

#[test]
fn a_seed_repeats_itself() {
    let disk = SimDisk::new();
    disk.create("a", 0).unwrap();
    disk.sync_directory().unwrap();
    disk.write_at("a", 0, &[&[1; 9000]]).unwrap();
    for seed in 0..20 {
        assert_eq!(disk.crash(seed).content("a"), disk.crash(seed).content("a"));
    }
}

#[test]
fn moments_are_the_disk_after_each_change() {
    let disk = SimDisk::new();
    disk.create("a", 1).unwrap();
    disk.write_at("a", 0, &[b"x"]).unwrap();
    disk.remove("a").unwrap();
    let contents: Vec<_> = disk.moments().map(|disk| disk.content("a")).collect();
    assert_eq!(contents, [None, Some(vec![0]), Some(vec![b'x']), None]);
    let single: Vec<_> = (0..4).map(|at| disk.moment(at).content("a")).collect();
    assert_eq!(single, contents);
}

#[test]
fn a_failing_disk_keeps_failing() {
    let disk = SimDisk::new();
    disk.fail_from(1, 5);
    disk.create("a", 1).unwrap();
    assert_eq!(disk.sync("a").unwrap_err().raw_os_error(), Some(5));
    assert_eq!(disk.sync("a").unwrap_err().raw_os_error(), Some(5));
    assert_eq!(disk.count(), 1);
}

fn fault(on: Operation, after: u64, wrong: Wrong, sticky: bool) -> Fault {
    Fault { user: User::Start, on, after, wrong, sticky }
}

#[test]
fn a_fault_hits_its_users_operation_once_or_forever() {
    let disk = SimDisk::new();
    disk.create("a", 4).unwrap();
    for (sticky, expected) in [(false, [true, false, true]), (true, [true, false, false])] {
        disk.arm(Some(fault(Operation::Sync, 1, Wrong::Refused, sticky)));
        disk.act_as(User::Commit);
        disk.sync("a").unwrap();
        disk.act_as(User::Start);
        assert_eq!([(); 3].map(|()| disk.sync("a").is_ok()), expected);
        disk.write_at("a", 0, &[b"x"]).unwrap();
    }
    assert_eq!(disk.fired(), 2);
    disk.arm(None);
    disk.sync("a").unwrap();
    assert!(disk.take_damage().iter().any(|(name, count)| name == "EIO on sync" && count == 3));
}

#[test]
fn a_short_write_leaves_a_part() {
    let disk = SimDisk::new();
    disk.create("a", 8).unwrap();
    disk.arm(Some(fault(Operation::Write, 0, Wrong::Short(128), false)));
    assert_eq!(disk.write_at("a", 0, &[b"abc", b"d"]).unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(disk.content("a").unwrap(), b"ab\0\0\0\0\0\0");
}

#[test]
fn bytes_lost_by_a_sync_are_readable_but_never_durable() {
    let disk = SimDisk::new();
    disk.create("a", 4).unwrap();
    disk.sync_directory().unwrap();
    disk.sync("a").unwrap();
    disk.write_at("a", 0, &[b"x"]).unwrap();
    disk.arm(Some(fault(Operation::Sync, 0, Wrong::Forgets, false)));
    disk.sync("a").unwrap_err();
    disk.write_at("a", 1, &[b"y"]).unwrap();
    disk.sync("a").unwrap();
    assert_eq!(disk.content("a").unwrap(), b"xy\0\0");
    assert_eq!(outcomes(&disk, "a"), [Some(b"\0y\0\0".to_vec())].into());
    disk.write_at("a", 0, &[b"x"]).unwrap();
    disk.sync("a").unwrap();
    assert_eq!(outcomes(&disk, "a"), [Some(b"xy\0\0".to_vec())].into());
}

#[test]
fn a_flip_is_only_read() {
    let disk = SimDisk::new();
    disk.create("a", 4).unwrap();
    disk.arm(Some(fault(Operation::Read, 0, Wrong::Flips(32 + 9), false)));
    let mut buffer = [0; 4];
    assert_eq!(disk.read_at("a", 0, &mut buffer).unwrap(), 4);
    assert_eq!(buffer, [0, 2, 0, 0]);
    disk.read_at("a", 0, &mut buffer).unwrap();
    assert_eq!(buffer, [0; 4]);
}

#[test]
fn space_runs_out_at_a_byte_and_comes_back() {
    let disk = SimDisk::new();
    disk.limit_space(Some(10));
    disk.create("a", 6).unwrap();
    assert_eq!(disk.create("b", 6).unwrap_err().raw_os_error(), Some(ENOSPC));
    assert_eq!(disk.content("b").unwrap(), b"", "it was made, and has no bytes");
    disk.write_at("a", 0, &[b"123456"]).unwrap();
    assert_eq!(disk.write_at("b", 0, &[b"abcdef"]).unwrap_err().raw_os_error(), Some(ENOSPC));
    assert_eq!(disk.content("b").unwrap(), b"abcd");
    disk.limit_space(None);
    disk.write_at("b", 0, &[b"abcdef"]).unwrap();
    assert_eq!(disk.content("b").unwrap(), b"abcdef");
}
