//! Data directories as fixtures: each file without trailing zeros, and a list of their lengths.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::node::new_directory;

const LENGTHS: &str = "lengths.json";

/// A folder under `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The files of a directory's log by name.
///
/// # Panics
/// When they can't be read.
pub fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory.join("store")).expect("a data directory");
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a name of the log's");
        (name, fs::read(entry.path()).expect("a file of the log's"))
    };
    entries.map(|entry| read(entry.expect("an entry"))).collect()
}

/// The files with the messages that have left the log of a node, which may be running, and where those end: segments, and
/// log files that became segments.
///
/// # Panics
/// When the directory can't be read.
pub fn stored_files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let store = directory.join("store");
    let mut found = Vec::new();
    for entry in fs::read_dir(&store).expect("a data directory").flatten() {
        let name = entry.file_name().into_string().expect("a name of the log's");
        if !name.starts_with("segment-") {
            continue;
        }
        // A file may be removed meanwhile.
        let Some(content) = fs::read(entry.path()).ok().filter(|bytes| bytes.len() > 512) else { continue };
        let field = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().expect("8 bytes"));
        found.push(match (field(40), field(32)) {
            (0, _) => (entry.path(), content.len() as u64),
            (file, end) => (store.join(format!("wal-{}-{file:016x}", &name[8..12])), end),
        });
    }
    found
}

/// Copies a data directory, without the files that only a running node needs.
///
/// # Panics
/// When the disk refuses.
pub fn copy(directory: &Path) -> TempDir {
    let copy = new_directory();
    fs::create_dir(copy.path().join("store")).expect("a directory");
    for (name, content) in files(directory) {
        put(copy.path(), &name, &content);
    }
    copy
}

/// Writes a file of the log.
///
/// # Panics
/// When the disk refuses.
pub fn put(directory: &Path, name: &str, content: &[u8]) {
    fs::write(directory.join("store").join(name), content).expect("write");
}

/// Keeps a data directory as a fixture.
///
/// # Panics
/// When the disk refuses.
pub fn pack(directory: &Path, fixture: &Path) {
    let _ = fs::remove_dir_all(fixture);
    fs::create_dir_all(fixture.join("store")).expect("a directory");
    let mut lengths = BTreeMap::new();
    for (name, content) in files(directory) {
        let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(fixture.join("store").join(&name), &content[..end]).expect("write");
        lengths.insert(name, content.len());
    }
    let lengths = serde_json::to_string_pretty(&lengths).expect("JSON");
    fs::write(fixture.join(LENGTHS), lengths + "\n").expect("write");
}

/// Creates a data directory from a fixture.
///
/// # Panics
/// If it isn't a fixture.
pub fn unpack(fixture: &Path) -> TempDir {
    let directory = new_directory();
    fs::create_dir(directory.path().join("store")).expect("a directory");
    let lengths = fs::read_to_string(fixture.join(LENGTHS)).expect("the lengths of the fixture's files");
    let lengths: BTreeMap<String, usize> = serde_json::from_str(&lengths).expect("JSON");
    for (name, length) in lengths {
        let mut content = fs::read(fixture.join("store").join(&name)).expect("a file of the fixture");
        content.resize(length, 0);
        put(directory.path(), &name, &content);
    }
    directory
}

/// CRC-32C bit by bit: independent of the broker's implementation.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
