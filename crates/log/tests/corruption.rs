//! Corruption beyond single flipped bits: truncated, zeroed, swapped, deleted and old files. A check finds and names
//! each; a start refuses with a text that names the file, or continues and never hands out anything else than what
//! was written.

#[allow(dead_code)]
mod driver;
#[allow(dead_code)]
mod small_log;

use driver::{Driver, check};
use leveret_log::{Disk, MemoryDisk, StorageError};
use small_log::{OpenOutcome, closed, expected, tiny, used};

/// Asserts that a check names the file; returns the result of a start.
fn is_found(what: &str, disk: &MemoryDisk, file: &str) -> OpenOutcome {
    match check(disk, &tiny()) {
        Ok(found) => {
            assert!(!found.is_sound(), "{what} of {file} isn't found");
            let named = found.damaged.iter().chain(&found.torn).any(|damage| damage.file == file)
                || found.refused.as_ref().is_some_and(|refused| refused.contains(file));
            assert!(named, "{what} of {file} isn't named: {found:?}");
        }
        Err(error) => assert!(error.to_string().contains(file), "{what} of {file}: {error}"),
    }
    small_log::start(disk, &expected())
}

#[test]
fn a_truncated_file_is_found() {
    let disk = closed();
    for (name, range) in used(&disk) {
        let content = disk.content(&name).unwrap();
        for length in (0..range.end).step_by(37).chain([range.end - 1]) {
            let cut = disk.clone();
            cut.put(&name, content[..length].to_vec());
            is_found(&format!("truncation to {length}"), &cut, &name);
        }
    }
}

#[test]
fn a_zeroed_page_is_found() {
    let disk = closed();
    for (name, range) in used(&disk) {
        let content = disk.content(&name).unwrap();
        for page in range.clone().step_by(512) {
            let mut bytes = content.clone();
            let end = (page + 4096).min(bytes.len());
            bytes[page..end].fill(0);
            // The end of a file's last batch may be nothing but padding.
            if bytes[range.clone()] == content[range.clone()] {
                continue;
            }
            let zeroed = disk.clone();
            zeroed.put(&name, bytes);
            is_found(&format!("a page of zeros at {page}"), &zeroed, &name);
        }
    }
}

#[test]
fn swapped_sectors_are_found() {
    let disk = closed();
    for (name, range) in used(&disk) {
        let content = disk.content(&name).unwrap();
        let sectors: Vec<usize> = range.clone().step_by(512).filter(|at| at + 512 <= range.end).collect();
        for pair in sectors.windows(2) {
            let mut bytes = content.clone();
            let (first, second) = bytes.split_at_mut(pair[1]);
            first[pair[0]..].swap_with_slice(&mut second[..512]);
            if bytes == content {
                continue;
            }
            let swapped = disk.clone();
            swapped.put(&name, bytes);
            is_found(&format!("sectors {} and {} swapped", pair[0], pair[1]), &swapped, &name);
        }
    }
}

#[test]
fn two_files_of_a_kind_that_changed_places_are_found() {
    let disk = closed();
    let names: Vec<String> = used(&disk).into_iter().map(|(name, _)| name).collect();
    let mut pairs = 0;
    for (i, a) in names.iter().enumerate() {
        for b in &names[i + 1..] {
            if a.split('-').next() != b.split('-').next() {
                continue;
            }
            let swapped = disk.clone();
            swapped.put(a, disk.content(b).unwrap());
            swapped.put(b, disk.content(a).unwrap());
            assert!(!check(&swapped, &tiny()).is_ok_and(|found| found.is_sound()), "{a} and {b}");
            small_log::start(&swapped, &expected());
            pairs += 1;
        }
    }
    assert!(pairs > 0, "{names:?}");
}

#[test]
fn a_deleted_file_is_found() {
    let disk = closed();
    let mut refused = 0;
    for (name, _) in used(&disk) {
        let without = disk.clone();
        without.remove(&name).unwrap();
        let found = check(&without, &tiny()).unwrap();
        assert!(!found.is_sound(), "{name} is gone and nothing says so");
        if let OpenOutcome::Refused(text) = small_log::start(&without, &expected()) {
            assert!(text.starts_with("storage is damaged: "), "{text}");
            assert!(text.contains(&name) || text.contains("the checkpoint is missing"), "{text}");
            refused += 1;
        }
    }
    assert!(refused >= 1, "without its checkpoint nothing starts");
}

#[test]
fn an_old_checkpoint_that_is_put_back_is_found() {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    let mut old: Vec<(String, Vec<u8>)> = Vec::new();
    let mut tried = 0;
    small_log::fill(&mut driver, |driver| {
        let checkpoints = driver.disk.list().unwrap().into_iter().filter(|name| name.starts_with("checkpoint-"));
        for name in checkpoints {
            if !old.iter().any(|(known, _)| *known == name) {
                old.push((name.clone(), driver.disk.content(&name).unwrap()));
            }
        }
    });
    let crashed = driver.disk.clone();
    let closed = driver.close();
    for (disk, is_closed) in [(crashed, false), (closed, true)] {
        let newest = disk.list().unwrap().into_iter().filter(|name| name.starts_with("checkpoint-")).max().unwrap();
        for (name, content) in old.iter().filter(|(name, _)| *name != newest) {
            // Under its own name instead of the newest, and under the newest's name.
            for put_as in [name, &newest] {
                let replaced = disk.clone();
                replaced.remove(&newest).unwrap();
                replaced.put(put_as, content.clone());
                let found = check(&replaced, &tiny()).unwrap();
                if found.is_sound() {
                    // The newer records are still in the WAL: nothing is lost.
                    assert!(put_as == name && !is_closed, "{name} as {put_as}");
                    let driver = Driver::open(replaced, tiny());
                    let messages: Vec<_> = small_log::ALL.iter().map(|log| driver.read(*log, 0, 4000)).collect();
                    assert_eq!(small_log::alive(&driver, messages), small_log::alive(&driver, expected()));
                    continue;
                }
                small_log::start(&replaced, &expected());
                tried += 1;
            }
            // Next to the newest, it is ignored.
            let beside = disk.clone();
            beside.put(name, content.clone());
            assert!(check(&beside, &tiny()).unwrap().is_sound());
        }
    }
    assert!(tried >= 3, "{tried}");
}

#[test]
fn a_refused_start_has_these_texts() {
    let disk = closed();
    let checkpoint = disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint-")).unwrap();
    let segment = disk.list().unwrap().into_iter().find(|name| name.starts_with("segment-")).unwrap();
    let refusal = |change: &dyn Fn(&MemoryDisk)| {
        let changed = disk.clone();
        change(&changed);
        match small_log::start(&changed, &expected()) {
            OpenOutcome::Refused(text) => text,
            other => panic!("{other:?}"),
        }
    };
    let flip = |name: &str, at: usize| {
        let mut content = disk.content(name).unwrap();
        content[at] ^= 1;
        content
    };
    assert_eq!(
        refusal(&|disk| disk.put(&checkpoint, flip(&checkpoint, 3))),
        format!(
            "storage is damaged: {checkpoint}, bytes 0 to 96: the header is wrong; nothing was changed; restore the data directory, or save \
             all states, metadata and messages that are whole with `leveret verify DIR --repair-to COPY`"
        )
    );
    // A missing segment is no reason to refuse: the logs with messages in it are notified.
    let changed = disk.clone();
    changed.remove(&segment).unwrap();
    assert!(matches!(small_log::start(&changed, &expected()), OpenOutcome::Told));
    let text = refusal(&|disk| disk.remove(&checkpoint).unwrap());
    assert!(text.starts_with("storage is damaged: the checkpoint is missing (the log begins with batch "), "{text}");
    let version_2 = |name: &str, crc_at: usize| {
        let mut content = disk.content(name).unwrap();
        content[4] = 2;
        let crc = crc32c::crc32c(&content[..crc_at]);
        content[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        content
    };
    let text = refusal(&|disk| disk.put(&checkpoint, version_2(&checkpoint, 92)));
    assert_eq!(text, format!("storage can't be read: {checkpoint} has format version 2, this version reads 1"));
    let changed = disk.clone();
    changed.put(&segment, version_2(&segment, 60));
    assert!(matches!(check(&changed, &tiny()), Err(StorageError::Version { found: 2, .. })));
}
