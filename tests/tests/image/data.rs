use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use leveret_tests::container::Image;

use super::{HOME, Volume, kept, publish_kept};

#[test]
fn a_folder_named_by_an_earlier_start_or_a_package_is_found() {
    let Some(image) = Image::load() else { return };
    for earlier in ["mnesia/rabbit@old-host", "leveret"] {
        let volume = Volume::new();
        let folder = format!("--env=RABBITMQ_MNESIA_DIR={HOME}/{earlier}");
        let mut first = image.start(&[&volume.at(HOME), &folder], &[]).ready();
        publish_kept(&first, earlier);
        assert!(first.stop().success(), "{}", first.log());
        let mut second = image.start(&[&volume.at(HOME), "--hostname=new"], &[]).ready();
        assert_eq!(kept(&second), [earlier]);
        assert!(second.log().contains("where an earlier start put it"), "{}", second.log());
        second.well(&["rabbitmqctl", "list_queues"]);
    }
}

#[test]
fn doctor_tells_volume_space_flush_limits_clock_and_other_data() {
    let Some(image) = Image::load() else { return };
    let volume = Volume::new();
    fs::create_dir_all(volume.path().join("mnesia/rabbit@host/quorum")).expect("is made");
    let container = image.start(&[&volume.at(HOME), "--memory=256m"], &[]).ready();
    // It looks at the volume of a node that runs, too.
    let (_, told) = container.exec(&["--user=999"], &["leveret", "doctor"]);
    for line in [
        "ok      data       /var/lib/rabbitmq/mnesia/leveret has the data of a node",
        "WARNING volume     /var/lib/rabbitmq/mnesia/rabbit@host has data of RabbitMQ",
        "ok      space ",
        "flush      a flush takes",
        "open files, one for each connection",
        "ok      limits     256 MiB of memory",
        "ok      clock ",
    ] {
        assert!(told.contains(line), "{line} in {told}");
    }
    let passing = image.output(&["--tmpfs=/var/lib/rabbitmq"], &["leveret", "doctor"]);
    let told = String::from_utf8_lossy(&passing.stdout).into_owned();
    assert_eq!(passing.status.code(), Some(1));
    assert_eq!(told.matches("WARNING volume     WILL LOSE DATA").count(), 1, "{told}");
}

#[test]
fn a_folder_that_can_not_be_entered_ends_the_start() {
    let Some(image) = Image::load() else { return };
    for closed in ["mnesia/rabbit@old-host", "leveret"] {
        let volume = Volume::open_to_all();
        let folder = volume.path().join(closed);
        fs::create_dir_all(&folder).expect("is made");
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("is set");
        // The folder is root's.
        let ended = image.output(&["--user=999", &volume.at(HOME)], &[]);
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{told}");
        let reason = format!("/var/lib/rabbitmq/{closed}/lock as data directory: Permission denied");
        assert!(told.contains(&reason), "{reason} in {told}");
    }
}

#[test]
fn data_of_rabbitmq_beside_ours_is_told_of_in_a_line() {
    let Some(image) = Image::load() else { return };
    let volume = Volume::new();
    fs::create_dir_all(volume.path().join("mnesia/rabbit@host/msg_stores")).expect("is made");
    let mut container = image.start(&[&volume.at(HOME)], &[]).ready();
    let log = container.log();
    assert_eq!(log.matches("mnesia/rabbit@host has data of RabbitMQ").count(), 1, "{log}");
    assert!(volume.path().join("mnesia/rabbit@host/msg_stores").exists());
}

#[test]
fn data_that_ends_with_the_container_is_warned_of() {
    let Some(image) = Image::load() else { return };
    let volume = Volume::new();
    let mut container = image.start(&[&volume.at("/data"), "--tmpfs=/var/lib/rabbitmq"], &[]).ready();
    let log = container.log();
    let warned = log.contains("WILL LOSE DATA") && log.contains("while the volume at /data is empty");
    assert!(warned, "{log}");

    // The path by which an emptyDir is known.
    let machine = Volume::new();
    let empty_dir = machine.path().join("volumes/kubernetes.io~empty-dir/data");
    fs::create_dir_all(&empty_dir).expect("is made");
    let mount = format!("--volume={}:{HOME}", empty_dir.display());
    let mut container = image.start(&[&mount], &[]).ready();
    assert!(container.log().contains("is on an emptyDir, which is deleted with its pod"), "{}", container.log());
}
