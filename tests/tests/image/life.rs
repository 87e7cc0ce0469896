use leveret_tests::container::Image;
use leveret_tests::not_run::not_run;
use leveret_tests::wire::Wire;

use super::{HOME, Volume, kept, publish_kept};

#[test]
fn a_message_survives_kill_and_replacement_of_its_container() {
    let Some(image) = Image::load() else { return };
    let volume = Volume::new();
    let mut first = image.start(&[&volume.at(HOME), "--hostname=first"], &[]).ready();
    publish_kept(&first, "one");
    assert_eq!(first.well(&["rabbitmq-diagnostics", "-q", "ping"]), "Ping succeeded\n");
    first.kill();

    let mut second = image.start(&[&volume.at(HOME), "--hostname=second"], &["rabbitmq-server"]).ready();
    assert_eq!(kept(&second), ["one"]);
    publish_kept(&second, "two");
    assert!(second.stop().success(), "{}", second.log());
    let log = second.log();
    assert_eq!(log.matches("Server startup complete").count(), 1, "{log}");
    assert!(!log.contains("WILL LOSE DATA"), "{log}");

    let third = image.start(&[&volume.at(HOME), "--hostname=third"], &[]).ready();
    assert_eq!(kept(&third), ["one", "two"]);
    let owner = third.well(&["stat", "-c", "%u %g", "/var/lib/rabbitmq/mnesia/leveret/lock"]);
    assert_eq!(owner, "999 999\n");
    let processes = third.well(&["ps", "-o", "pid,user,args"]);
    assert!(processes.lines().any(|line| line.trim().starts_with("1 rabbitmq")), "{processes}");
}

#[test]
fn a_second_container_on_a_volume_is_refused_by_name() {
    let Some(image) = Image::load() else { return };
    let volume = Volume::new();
    let first = image.start(&[&volume.at(HOME), "--hostname=the-first"], &[]).ready();
    let refused = image.output(&[&volume.at(HOME), "--hostname=the-second"], &[]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    let last = told.lines().last().unwrap_or_default();
    assert!(last.contains("/var/lib/rabbitmq/mnesia/leveret is in use by process 1 on the-first"), "{told}");
    publish_kept(&first, "still served");
}

#[test]
fn the_first_process_reaps_orphans() {
    let Some(image) = Image::load() else { return };
    let container = image.start(&[], &[]).ready();
    // The shell ends before its child, which process 1 inherits; the exec ends when the pipe is closed by both.
    container.well(&["sh", "-c", "for n in 1 2 3 4 5; do (sleep 0.2 &) ; done"]);
    let deadline = std::time::Instant::now() + leveret_tests::PATIENCE;
    loop {
        let processes = container.well(&["ps", "-o", "pid,stat,comm"]);
        if !processes.contains("sleep") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{processes}");
    }
}

#[test]
fn limits_of_the_container_hold_and_are_followed() {
    let Some(image) = Image::load() else { return };
    let mut container = image.start(&["--memory=256m", "--cpus=1"], &[]).ready();
    let log = container.log();
    assert!(log.lines().any(|line| line.split_whitespace().eq(["Cores", "1"])), "{log}");
    let watermark = || container.well(&["rabbitmqctl", "status", "--formatter", "json"]);
    let of = |mib: u64| format!("\"vm_memory_high_watermark_limit\":{}", (0.6 * (mib << 20) as f64) as u64);
    assert!(watermark().contains(&of(256)), "{}", watermark());
    if let Err(reason) = container.update(&["--memory=512m"]) {
        return not_run(&format!("the limit of memory can't be changed: {reason}"));
    }
    assert!(container.wait_for_line(&format!("The system allows this node {} bytes of memory now", 512 << 20)));
    let status = container.well(&["rabbitmqctl", "status", "--formatter", "json"]);
    assert!(status.contains(&of(512)), "{status}");
}

#[test]
fn a_stop_refuses_new_clients_and_ends_with_zero() {
    let Some(image) = Image::load() else { return };
    let volume = Volume::new();
    let mut container = image.start(&[&volume.at(HOME)], &[]).ready();
    let mut wire = Wire::open(container.address(5672));
    let begun = std::time::Instant::now();
    let status = container.stop();
    assert!(status.success() && begun.elapsed() < std::time::Duration::from_secs(5), "{status}: {}", container.log());
    let (code, text) = wire.until_closed().expect("a reason");
    assert!(code == 320 && text.contains("shutdown"), "{code} {text}");
}
