//! `.ci/apt-get` waits for a lock that another holds.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs it with a stand-in for apt-get that counts its calls in a file.
fn run(directory: &Path, stand_in: &str) -> (Output, usize) {
    let program = directory.join("apt-get");
    fs::write(&program, format!("#!/bin/sh\necho \"$@\" >>\"{0}/calls\"\n{stand_in}\n", directory.display())).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let wrapper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/apt-get");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let output = Command::new(wrapper)
        .args(["-qq", "update"])
        .env("PATH", path)
        .env("APT_LOCK_PAUSE", "0")
        .output()
        .expect("it runs");
    let calls = fs::read_to_string(directory.join("calls")).unwrap();
    assert!(calls.lines().all(|line| line == "-qq update"), "{calls}");
    (output, calls.lines().count())
}

#[test]
fn an_update_waits_for_the_lock_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let busy = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)";
    let stand_in = format!(
        "[ $(wc -l <\"{}/calls\") -lt 3 ] && {{ echo '{busy}' >&2; exit 100; }}; exit 0",
        directory.path().display()
    );
    let (output, calls) = run(directory.path(), &stand_in);
    assert_eq!((output.status.code(), calls), (Some(0), 3));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("waiting for a lock").count(), 1, "{said}");
}

#[test]
fn another_failure_of_apt_get_is_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (output, calls) = run(directory.path(), "echo 'E: Unable to locate package' >&2; exit 100");
    assert_eq!((output.status.code(), calls), (Some(100), 1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "E: Unable to locate package\n");
}
