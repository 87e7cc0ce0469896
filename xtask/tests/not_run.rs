//! `.ci/not-run.awk` on a run with tests that can't be run here.

use std::fs;
use std::path::Path;
use std::process::Command;

const OUTPUT: &str = "     Running tests/alarms.rs (target/ci/deps/alarms-54da)

running 4 tests
test a_full_disk ... ok
test a_small_disk ... ok
test much_memory ... FAILED
test one_more ... ignored

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 9.31s

     Running tests/image/main.rs (target/ci/deps/image-77)
test a_full_disk ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

fn read_with(notes: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (noted, output) = (folder.path().join("not-run"), folder.path().join("tests.log"));
    fs::write(&noted, notes).expect("is written");
    fs::write(&output, OUTPUT).expect("is written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/not-run.awk");
    let run = Command::new("awk").arg("-f").arg(script).args([noted, output]).output().expect("awk runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("it is text")
}

#[test]
fn a_test_that_is_not_run_counts_as_ignored() {
    assert_eq!(read_with(""), OUTPUT);
    // Twice, and one that has failed nevertheless.
    let notes =
        "alarms-54da\ta_small_disk\tno mount\nalarms-54da\ta_small_disk\tno mount\nalarms-54da\tmuch_memory\tno\n";
    let expected = OUTPUT
        .replace("a_small_disk ... ok", "a_small_disk ... ignored, no mount")
        .replace("2 passed; 1 failed; 1 ignored", "1 passed; 1 failed; 2 ignored");
    assert_eq!(read_with(notes), expected);
    // By the only thread of a program.
    let expected = OUTPUT.replace("1 passed; 0 failed; 0 ignored", "0 passed; 0 failed; 1 ignored");
    assert_eq!(read_with("image-77\tmain\tthere is no helm\n"), expected);
}
