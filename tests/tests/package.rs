//! The Debian package in a root of its own: installed, started as by its unit, upgraded, removed. Messages survive.
//!
//! It needs root privileges and an overlay file system on the machine's; without these, the test says so and does
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Process, binary};
use leveret_tests::not_run::not_run;
use leveret_tests::wire::{Wire, publish};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const UNIT: &str = "usr/lib/systemd/system/rabbitmq-server.service";
const DATA: &str = "var/lib/rabbitmq/leveret";

/// A root file system whose changes are discarded with it.
struct Root {
    directory: TempDir,
}

impl Root {
    /// Returns `None` if it can't be created, and prints the reason.
    fn new() -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("leveret-root-").tempdir().expect("a directory");
        let root = Root { directory };
        let (base, merged) = (root.directory.path(), root.path());
        let mounted = mount(&["-t", "tmpfs", "tmpfs"], base)
            .and_then(|()| {
                ["upper", "work", "merged"].iter().try_for_each(|name| fs::create_dir(base.join(name))).expect("made");
                let layers = format!("lowerdir=/,upperdir={0}/upper,workdir={0}/work", base.display());
                mount(&["-t", "overlay", "overlay", "-o", &layers], &merged)
            })
            .and_then(|()| mount(&["--bind", "/proc"], &merged.join("proc")))
            .and_then(|()| mount(&["--bind", "/dev"], &merged.join("dev")));
        if let Err(reason) = mounted {
            not_run(&format!("no root of its own: {reason}"));
            return None;
        }
        if root.finds("dpkg") && !root.path().join("usr/sbin/rabbitmqctl").exists() {
            return Some(root);
        }
        not_run("this is no Debian, or one that has a RabbitMQ");
        None
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("merged")
    }

    fn finds(&self, program: &str) -> bool {
        Command::new("chroot")
            .arg(self.path())
            .args([program, "--version"])
            .output()
            .is_ok_and(|run| run.status.success())
    }

    /// Runs a program in it.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("chroot");
        command.arg(self.path()).args(words).env("DEBIAN_FRONTEND", "noninteractive");
        command.output().expect("chroot runs")
    }

    /// The output of a program, which has to succeed.
    fn well(&self, words: &[&str]) -> String {
        let run = self.run(words);
        assert!(run.status.success(), "{words:?}: {}{}", text(&run.stdout), text(&run.stderr));
        text(&run.stdout)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn install(&self, package: &Path) {
        fs::copy(package, self.path().join("tmp/leveret.deb")).expect("is copied");
        self.well(&["dpkg", "--install", "/tmp/leveret.deb"]);
    }

    /// Starts the program of the unit, as the unit's user.
    fn start(&self) -> (Process, u16) {
        let unit = self.read(UNIT);
        let line =
            |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).expect("a line of the unit").to_owned();
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={}:{}", line("User="), line("Group="))).arg(self.path());
        command.args(line("ExecStart=").split(' ')).env_remove("LEVERET_DATA_DIR");
        let mut process = Process::of(command);
        assert!(process.wait_for_line("Server startup complete"), "{}", process.log());
        let logs = fs::read_dir(self.path().join("var/log/rabbitmq")).expect("the directory of logs");
        let logs = logs.map(|log| log.expect("is there").path()).collect::<Vec<_>>();
        let [log] = logs.as_slice() else { panic!("one log: {logs:?}") };
        assert!(log.file_name().is_some_and(|name| name.to_string_lossy().starts_with("leveret@")), "{logs:?}");
        let ports: serde_json::Value = serde_json::from_str(&self.read(&format!("{DATA}/ports.json"))).expect("JSON");
        let port = ports["amqp"].as_u64().and_then(|port| u16::try_from(port).ok());
        (process, port.expect("a port"))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for path in ["merged/dev", "merged/proc", "merged", ""] {
            // Unmounting may fail if nothing is mounted; a process that was just killed may still have a file open.
            let _ = Command::new("umount").arg("-l").arg(self.directory.path().join(path)).output();
        }
    }
}

fn mount(words: &[&str], at: &Path) -> Result<(), String> {
    let run = Command::new("mount").args(words).arg(at).output().map_err(|error| error.to_string())?;
    if run.status.success() { Ok(()) } else { Err(text(&run.stderr)) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn stop(mut process: Process) {
    let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::TERM).expect("is sent");
    assert!(process.wait().success(), "{}", process.log());
}

/// The tarball and the package of this binary with a version.
fn dist(out: &Path, version: &str) -> (PathBuf, PathBuf) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/dist");
    let mut command = Command::new(script);
    let run = command
        .arg(out)
        .env("LEVERET_BIN", binary())
        .env("LEVERET_DIST_LEVEL", "1")
        .env("LEVERET_VERSION", version)
        .output()
        .expect("bash runs");
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    let made: Vec<PathBuf> = text(&run.stdout).lines().map(PathBuf::from).collect();
    (made[0].clone(), made[1].clone())
}

#[test]
fn messages_survive_install_upgrade_and_removal_of_the_package() {
    let Some(root) = Root::new() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let (_, old) = dist(out.path(), "1.0.0");
    let (_, new) = dist(out.path(), "1.0.1");

    // An operator's existing file is used, and stays.
    let conf = "etc/rabbitmq/conf.d/10-ports.conf";
    fs::create_dir_all(root.path().join("etc/rabbitmq/conf.d")).expect("is made");
    let settings = "listeners.tcp.1 = 127.0.0.1:0\nmanagement.tcp.port = 0\nmanagement.tcp.ip = 127.0.0.1\n\
                    prometheus.tcp.port = 0\nprometheus.tcp.ip = 127.0.0.1\n";
    fs::write(root.path().join(conf), settings).expect("is written");
    fs::write(root.path().join("etc/rabbitmq/rabbitmq.conf"), "heartbeat = 17\n").expect("is written");
    root.install(&old);
    assert!(root.well(&["getent", "passwd", "rabbitmq"]).contains("/usr/sbin/nologin"));
    assert_eq!(root.well(&["stat", "-c", "%U %a", "/var/lib/rabbitmq"]), "rabbitmq 750\n");
    assert_ne!(root.run(&["rabbitmqctl", "ping"]).status.code(), Some(0), "no node runs yet");

    let (process, port) = root.start();
    let address = ([127, 0, 0, 1], port).into();
    let mut wire = Wire::open(address);
    wire.declare(1, "kept", true);
    wire.confirm_select(1);
    wire.send(&publish(1, "", "kept", b"over 0-9-1", false, true));
    wire.confirms(1);
    wire.close();
    let mut sender = Amqp10::open(address);
    sender.sender(0, "/queues/kept");
    sender.publish_accepted(0, b"over 1.0");
    sender.close();
    // Found without options, by root and by the node's user.
    assert!(root.well(&["rabbitmqctl", "list_queues"]).contains("kept\t2"));
    assert!(root.well(&["rabbitmqctl", "environment"]).contains("heartbeat = 17"));
    root.well(&["rabbitmq-diagnostics", "check_running"]);
    let nobody = root.run(&["chroot", "--userspec=nobody", "/", "rabbitmqctl", "ping"]);
    assert_eq!(nobody.status.code(), Some(69), "nobody else may");

    // The new files are installed while the old node runs.
    root.install(&new);
    assert!(root.well(&["dpkg", "--status", "leveret"]).contains("Version: 1.0.1"));
    root.well(&["rabbitmq-upgrade", "drain"]);
    stop(process);
    let (process, port) = root.start();
    let mut wire = Wire::open(([127, 0, 0, 1], port).into());
    wire.consume(1, "kept", false);
    assert_eq!(wire.delivery().2, b"over 0-9-1");
    assert!(text(&wire.delivery().2).ends_with("over 1.0"));
    drop(wire);
    stop(process);

    for (how, status) in [("--remove", "deinstall"), ("--purge", "")] {
        root.well(&["dpkg", how, "leveret"]);
        let known = text(&root.run(&["dpkg-query", "--show", "--showformat=${Status}", "leveret"]).stdout);
        assert!(known.contains(status), "{known}");
        assert!(!root.path().join("usr/bin/leveret").exists() && !root.path().join(UNIT).exists());
        assert!(root.path().join(DATA).join("lock").exists(), "the data is still there");
        assert_eq!(root.read(conf), settings);
    }
    root.install(&new);
    let (process, port) = root.start();
    let mut wire = Wire::open(([127, 0, 0, 1], port).into());
    wire.consume(1, "kept", false);
    assert_eq!(wire.delivery().2, b"over 0-9-1", "and is found again");
    drop(wire);
    stop(process);
}

#[test]
fn both_packages_are_reproducible_and_need_only_the_c_library() {
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        return not_run("this is no Debian");
    }
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (tarball, package) = dist(one.path(), "1.0.0");
    let again = dist(two.path(), "1.0.0");
    for (first, second) in [(&tarball, &again.0), (&package, &again.1)] {
        assert!(fs::read(first).expect("is there") == fs::read(second).expect("is there"), "{}", first.display());
    }
    let listed = |program: &str, words: &[&str], file: &Path| {
        text(&Command::new(program).args(words).arg(file).output().expect("runs").stdout)
    };
    let in_tarball = listed("tar", &["-tzf"], &tarball);
    let in_package = listed("dpkg-deb", &["--contents"], &package);
    for name in [
        "leveret",
        "rabbitmq-server",
        "rabbitmqctl",
        "rabbitmq-diagnostics",
        "rabbitmq-plugins",
        "rabbitmq-upgrade",
        "rabbitmq-queues",
        "rabbitmq-streams",
    ] {
        let section = if name == "leveret" { 1 } else { 8 };
        for file in [
            format!("bin/{name}"),
            format!("share/man/man{section}/{name}.{section}.gz"),
            format!("share/bash-completion/completions/{name}"),
            format!("share/zsh/vendor-completions/_{name}"),
            format!("share/fish/vendor_completions.d/{name}.fish"),
        ] {
            assert!(in_tarball.contains(&file) && in_package.contains(&file), "{file}");
        }
    }
    assert!(in_package.contains(UNIT) && in_package.contains("rabbitmq.conf.example"));
    let unwinds = Command::new(binary()).arg("check-unwinding").status().expect("runs");
    assert!(unwinds.success(), "a panic doesn't unwind");
    let control = listed("dpkg-deb", &["--field"], &package);
    for line in ["Conflicts: rabbitmq-server", "Provides: rabbitmq-server", "Depends: libc6 (>= 2."] {
        assert!(control.contains(line), "{line} in {control}");
    }
    let needed = listed("objdump", &["-p"], &binary());
    for library in needed.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")) {
        // All of them belong to the C library; the unwinder is linked in.
        let known = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
        assert!(known.contains(&library.trim()), "{library}");
    }
}

/// S21: systemd's own score, from 0 to 10; the needs of a start are tested by the other test.
#[test]
fn the_unit_exposes_next_to_nothing() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/rabbitmq-server.service");
    let mut judge = Command::new("systemd-analyze");
    let Ok(run) = judge.args(["security", "--offline=true", "--threshold=20"]).arg(&unit).output() else {
        return not_run("there is no systemd-analyze");
    };
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    let unit = fs::read_to_string(unit).expect("is there");
    for line in ["Type=notify", "LimitNOFILE=1048576", "ExecStart=/usr/sbin/rabbitmq-server"] {
        assert!(unit.lines().any(|have| have == line), "{line}");
    }
}
