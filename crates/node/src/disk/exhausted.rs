//! The disk of a process that has no descriptor left. Its limit is lowered in a process of its own.

use std::fs::File;
use std::process::Command;

use leveret_log::Disk;

use super::FsDisk;

/// Set in the environment of the process with the low limit.
const VARIABLE: &str = "LEVERET_TEST_EXHAUSTED";
const NAME: &str = "disk::exhausted::files_are_used_while_others_hold_all_descriptors";

#[test]
fn files_are_used_while_others_hold_all_descriptors() {
    if std::env::var_os(VARIABLE).is_some() {
        return use_files();
    }
    let test = std::env::current_exe().expect("the test's own path");
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 48; exec \"$0\" \"$@\""])
        .arg(test)
        .args(["--exact", NAME, "--test-threads=1"])
        .env(VARIABLE, "1")
        .output()
        .expect("runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{:?}", output.stderr);
}

fn use_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = FsDisk::open(&directory.path().join("log")).expect("opens");
    let take_all = || std::iter::from_fn(|| File::open("/dev/null").ok()).collect::<Vec<_>>();
    let taken = take_all();
    assert!(!taken.is_empty(), "clients have the rest");
    let name = |number: u8| format!("body-{number:04}");
    for number in 0..60 {
        // A descriptor that became free is taken by others at once.
        let _more = take_all();
        disk.create(&name(number), 0).expect("creates");
        disk.write_at(&name(number), 0, &[&[number; 100]]).expect("writes");
        disk.sync(&name(number)).expect("syncs");
        disk.sync_directory().expect("syncs the directory");
    }
    for number in 0..60 {
        assert_eq!(disk.read_new(&name(number), 0, 200).expect("reads"), [number; 100]);
        assert_eq!(disk.read_again(&name(number), 90, 20, 1).expect("reads again"), [number; 10]);
        assert_eq!(disk.len(&name(number)).expect("is there"), 100);
        let lent = disk.lend(&name(number), 0, 100).expect("no error");
        drop(lent);
    }
    assert_eq!(disk.list().expect("lists").len(), 60);
    assert!(disk.descriptors() < disk.descriptors_max());
    drop(taken);
}
