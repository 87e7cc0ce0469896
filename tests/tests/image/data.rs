use std::fs;

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
