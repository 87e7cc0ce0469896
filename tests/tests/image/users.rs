use leveret_tests::container::Image;

use super::{HOME, Volume, kept, publish_kept};

/// Options that make a container as restricted as a pod.
const RESTRICTED: [&str; 3] = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"];

/// Runs a node as a user and again on the same volume; its tools run as these users.
fn runs(image: &Image, user: &str, more: &[&str], tool_users: &[&str]) {
    let volume = Volume::open_to_all();
    let (mount, user) = (volume.at(HOME), format!("--user={user}"));
    let options: Vec<&str> = [&*mount, &*user].into_iter().chain(more.iter().copied()).collect();
    let mut container = image.start(&options, &[]).ready();
    publish_kept(&container, "kept");
    for tool_user in tool_users {
        let (exit, text) = container.exec(&[&format!("--user={tool_user}")], &["rabbitmqctl", "list_queues", "-q"]);
        assert!(exit == 0 && text.contains("kept\t1"), "{options:?}, tools as {tool_user}: {text}");
    }
    assert_eq!(container.well(&["rabbitmq-diagnostics", "-q", "ping"]), "Ping succeeded\n", "{options:?}");
    assert!(container.stop().success(), "{}", container.log());
    let again = image.start(&options, &[]).ready();
    assert_eq!(kept(&again), ["kept"], "{options:?}");
}

#[test]
fn every_user_runs_with_the_capabilities_of_an_engine() {
    let Some(image) = Image::load() else { return };
    runs(image, "0", &["--read-only"], &["0", "999"]);
    runs(image, "999", &["--read-only"], &["0", "999"]);
    // OpenShift: any user, group 0.
    runs(image, "1000670000:0", &["--read-only"], &["0", "1000670000"]);
}

#[test]
fn every_user_runs_without_capabilities() {
    let Some(image) = Image::load() else { return };
    runs(image, "0", &RESTRICTED, &["0"]);
    runs(image, "999", &RESTRICTED, &["999"]);
    runs(image, "1000670000:0", &RESTRICTED, &["1000670000"]);
}
