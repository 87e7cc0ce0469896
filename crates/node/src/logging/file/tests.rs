use std::io::Read;
use std::time::Duration;

use flate2::read::GzDecoder;
use leveret_config::{Config, LogCategory, LogLevel};

use super::*;

fn line(message: &str) -> Line {
    Line {
        time: SystemTime::UNIX_EPOCH,
        level: LogLevel::Info,
        category: LogCategory::Default,
        message: message.to_owned(),
        pid: 0,
        fields: Vec::new(),
        source: None,
    }
}

fn open(path: &Path, keys: &str) -> LogFile {
    let mut config = Config::default();
    config.read("rabbitmq.conf", keys).expect("is right");
    config.read("rabbitmq.conf", "log.file.formatter.plaintext.format = $msg\n").expect("is right");
    LogFile::open(path.to_owned(), config.log.file.rotation, config.log.file.format).expect("can be opened")
}

fn write(file: &mut LogFile, message: &str) {
    file.write(&line(message));
    file.flush();
}

/// The contents of the files in the directory, by name.
fn found(directory: &Path) -> Vec<(String, String)> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .expect("is there")
        .map(|entry| {
            let path = entry.expect("is there").path();
            let name = path.file_name().expect("has one").to_string_lossy().into_owned();
            let mut text = String::new();
            let file = File::open(&path).expect("is there");
            let read = if name.ends_with(".gz") {
                GzDecoder::new(file).read_to_string(&mut text)
            } else {
                { file }.read_to_string(&mut text)
            };
            read.expect("is text");
            (name, text)
        })
        .collect();
    found.sort();
    found
}

#[track_caller]
fn check(directory: &Path, expected: &[(&str, &str)]) {
    let found = found(directory);
    let found: Vec<_> = found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_full_file_is_rotated_and_a_limited_number_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.log");
    let mut file = open(&path, "log.file.rotation.size = 10\nlog.file.rotation.count = 2\n");
    for message in ["one", "two2", "thre", "four", "fivefivefive", "six"] {
        write(&mut file, message);
    }
    check(directory.path(), &[("a.log", "six\n"), ("a.log.0", "fivefivefive\n"), ("a.log.1", "thre\nfour\n")]);
    // It continues where it was.
    drop(file);
    let mut file = open(&path, "log.file.rotation.size = 10\nlog.file.rotation.count = 2\n");
    write(&mut file, "seven");
    write(&mut file, "8");
    check(directory.path(), &[("a.log", "8\n"), ("a.log.0", "six\nseven\n"), ("a.log.1", "fivefivefive\n")]);
}

#[test]
fn a_full_file_without_kept_ones_starts_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut file = open(&directory.path().join("a.log"), "log.file.rotation.size = 4\n");
    write(&mut file, "one");
    write(&mut file, "two");
    check(directory.path(), &[("a.log", "two\n")]);
}

#[test]
fn rotated_files_are_compressed() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = "log.file.rotation.size = 4\nlog.file.rotation.count = 2\nlog.file.rotation.compress = true\n";
    let mut file = open(&directory.path().join("a.log"), keys);
    for message in ["one", "two", "six", "ten"] {
        write(&mut file, message);
    }
    check(directory.path(), &[("a.log", "ten\n"), ("a.log.0.gz", "six\n"), ("a.log.1.gz", "two\n")]);
}

#[test]
fn a_file_is_rotated_at_its_configured_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = "log.file.rotation.date = $D0\nlog.file.rotation.count = 1\n";
    let mut file = open(&directory.path().join("a.log"), keys);
    write(&mut file, "today");
    file.look_at_clock(SystemTime::now());
    check(directory.path(), &[("a.log", "today\n")]);
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    file.look_at_clock(tomorrow);
    write(&mut file, "tomorrow");
    check(directory.path(), &[("a.log", "tomorrow\n"), ("a.log.0", "today\n")]);
}

#[test]
fn a_file_moved_by_another_program_is_created_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.log");
    let mut file = open(&path, "");
    write(&mut file, "one");
    fs::rename(&path, directory.path().join("b.log")).expect("can be moved");
    write(&mut file, "two");
    file.rotate_now();
    write(&mut file, "three");
    check(directory.path(), &[("a.log", "two\nthree\n"), ("b.log", "one\n")]);
}

#[test]
fn a_rotation_that_is_asked_for_keeps_what_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.log");
    let mut file = open(&path, "log.file.rotation.count = 3\n");
    write(&mut file, "one");
    file.rotate_now();
    file.rotate_now();
    write(&mut file, "two");
    check(directory.path(), &[("a.log", "two\n"), ("a.log.0", "one\n")]);
}

#[test]
fn lines_that_are_lost_are_counted_and_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a/a.log");
    let mut file = open(&path, "");
    fs::remove_dir_all(directory.path().join("a")).expect("can be removed");
    write(&mut file, "one");
    write(&mut file, "two");
    fs::create_dir(directory.path().join("a")).expect("can be made");
    write(&mut file, "three");
    check(
        &directory.path().join("a"),
        &[("a.log", "2 lines of the log are lost: this file could not be written\nthree\n")],
    );
}
