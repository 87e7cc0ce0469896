use leveret_tests::container::Image;
use leveret_tests::http::Http;

use super::{HOME, Volume};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn other_commands_run_as_they_are() {
    let Some(image) = Image::load() else { return };
    assert_eq!(text(&image.output(&[], &["id", "-u"]).stdout), "0\n");
    assert_eq!(text(&image.output(&[], &["bash", "-c", "echo $0"]).stdout), "bash\n");
    let version = text(&image.output(&[], &["rabbitmqctl", "version"]).stdout);
    assert!(version.starts_with("4."), "{version}");
    let none = image.output(&[], &["no-such-program"]);
    assert_eq!(none.status.code(), Some(126));
    assert!(
        text(&none.stderr).starts_with("error: cannot run no-such-program: No such file"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn deprecated_variables_end_the_container() {
    let Some(image) = Image::load() else { return };
    let options = [
        "--env=RABBITMQ_SSL_CERTFILE=/c",
        "--env=RABBITMQ_VM_MEMORY_HIGH_WATERMARK=0.5",
        "--env=RABBITMQ_SSL_KEYFILE=",
    ];
    let ended = image.output(&options, &[]);
    let told = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("error: RABBITMQ_SSL_CERTFILE is set but deprecated\n"), "{told}");
    assert!(told.contains("error: RABBITMQ_VM_MEMORY_HIGH_WATERMARK is set but deprecated\n"), "{told}");
    assert!(!told.contains("KEYFILE is set"), "an empty variable isn't set: {told}");
}

#[test]
fn user_password_and_vhost_come_from_variables_or_files() {
    let Some(image) = Image::load() else { return };
    let secrets = Volume::new();
    secrets.write("password", "from-file\n");
    leveret_tests::secrets::used("someone", "from-file");
    let of = ["--env=RABBITMQ_DEFAULT_USER=someone", "--env=RABBITMQ_DEFAULT_VHOST=own"];
    let file = "--env=RABBITMQ_DEFAULT_PASS_FILE=/run/secrets/password";
    let mount = secrets.at("/run/secrets:ro");
    let mut container = image.start(&[of[0], of[1], file, &mount], &[]).ready();
    let http = Http::guest(container.address(15672).to_string()).as_user("someone", "from-file");
    let vhosts = http.get("/api/vhosts").expect("an answer").json();
    assert_eq!(vhosts[0]["name"], "own");
    assert!(!container.log().contains("from-file"), "the password is in the log");
    assert_eq!(
        container.well(&["rabbitmqctl", "list_users", "-q", "--no-table-headers"]),
        "someone\t[administrator]\n"
    );

    let missing = image.output(&["--env=RABBITMQ_DEFAULT_PASS_FILE=/run/secrets/none"], &[]);
    let last = text(&missing.stderr).lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("RABBITMQ_DEFAULT_PASS_FILE: cannot read /run/secrets/none: No such file"), "{last}");
}

#[test]
fn paths_and_names_come_from_variables() {
    let Some(image) = Image::load() else { return };
    let files = Volume::new();
    files.write("own.config", "[{rabbit, [{heartbeat, 17}]}].\n");
    files.write("advanced.config", "[{rabbit, [{channel_max, 99}]}].\n");
    files.write("plugins", "[rabbitmq_management].\n");
    let mount = files.at("/files:ro");
    let volume = Volume::new();
    let options = [
        &*mount,
        &volume.at("/elsewhere"),
        // Without its extension, as Testcontainers gives it.
        "--env=RABBITMQ_CONFIG_FILE=/files/own",
        "--env=RABBITMQ_ADVANCED_CONFIG_FILE=/files/advanced.config",
        "--env=RABBITMQ_ENABLED_PLUGINS_FILE=/files/plugins",
        "--env=RABBITMQ_NODENAME=rabbit@some.host",
        "--env=RABBITMQ_USE_LONGNAME=true",
        "--env=RABBITMQ_ERLANG_COOKIE=secret",
        "--env=RABBITMQ_MNESIA_BASE=/elsewhere",
        "--env=RABBITMQ_NODE_PORT=5673",
    ];
    let container = image.start(&options, &[]).ready();
    let environment = container.well(&["rabbitmqctl", "environment"]);
    for line in ["heartbeat = 17", "channel_max = 99"] {
        assert!(environment.contains(line), "{line} in {environment}");
    }
    assert!(container.well(&["rabbitmqctl", "status"]).contains("Node name: rabbit@some.host"));
    let listeners = container.well(&["rabbitmq-diagnostics", "listeners", "-q"]);
    assert!(listeners.contains("port: 5673") && !listeners.contains("port: 15692"), "{listeners}");
    assert_eq!(
        container.well(&["sh", "-c", "cat ~/.erlang.cookie; stat -c ' %a %u' ~/.erlang.cookie"]),
        "secret 600 999\n"
    );
    assert!(volume.path().join("leveret/store").exists(), "the data is below RABBITMQ_MNESIA_BASE");
    drop(container);

    let volume = Volume::new();
    let container = image.start(&[&volume.at("/data"), "--env=RABBITMQ_DATA_DIR=/data"], &[]).ready();
    assert!(volume.path().join("mnesia/leveret/store").exists(), "the data is below RABBITMQ_DATA_DIR");
    container.well(&["rabbitmqctl", "status"]);
}

#[test]
fn a_container_that_can_not_start_says_why_in_its_last_line() {
    let Some(image) = Image::load() else { return };
    let files = Volume::new();
    files.write("wrong.conf", "heartbeet = 17\n");
    let volume = Volume::new();
    let (wrong, of_root) = (files.at("/etc/rabbitmq/conf.d:ro"), volume.at(HOME));
    let read_only = format!("{of_root}:ro");
    let data = "cannot use /var/lib/rabbitmq/mnesia/leveret as data directory";
    for (options, reason) in [
        (vec![&*wrong], "heartbeet"),
        (vec![&*read_only], &*format!("{data}: Read-only file system")),
        (vec![&*of_root, "--user=999"], &*format!("{data}: Permission denied")),
        (vec!["--tmpfs=/var/lib/rabbitmq:size=16m"], "and a node needs at least"),
    ] {
        let ended = image.output(&options, &[]);
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{told}");
        assert!(told.lines().last().unwrap_or_default().contains(reason), "{reason} in {told}");
    }
}
