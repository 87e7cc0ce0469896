//! Containers of our image, run by Podman. Needs root or a Podman that is set up for this user, and Debian's package clients.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::PATIENCE;
use crate::node::{Process, binary};
use crate::not_run::not_run;

/// The image of this binary, in Podman's storage.
#[derive(Debug)]
pub struct Image {
    reference: String,
}

impl Image {
    /// The image, built and loaded once in a process; `None` if it can't be here, which is noted.
    pub fn load() -> Option<&'static Image> {
        static LOADED: OnceLock<Result<Image, String>> = OnceLock::new();
        match LOADED.get_or_init(Image::build) {
            Ok(image) => Some(image),
            Err(reason) => {
                not_run(reason);
                None
            }
        }
    }

    fn build() -> Result<Self, String> {
        let engine = Command::new("podman").arg("--version").output();
        if engine.is_err() {
            return Err("there is no podman".to_owned());
        }
        // One image for each working tree, which replaces the one before.
        let mut tree = DefaultHasher::new();
        env!("CARGO_MANIFEST_DIR").hash(&mut tree);
        let version = format!("test-{:x}", tree.finish());
        let out = tempfile::tempdir().expect("a directory");
        let archive = archive(out.path(), &version)?;
        ran(Command::new("podman").args(["load", "--quiet", "--input"]).arg(&archive))?;
        let image = Image { reference: format!("docker.io/library/leveret:{version}") };
        // Some machines can load an image and can't run it.
        ran(Command::new("podman").args(["run", "--rm"]).args(limits()).args([&image.reference, "true"]))?;
        Ok(image)
    }

    /// Runs a program to its end, which Podman enforces after [`PATIENCE`]; the options are Podman's.
    pub fn output(&self, options: &[&str], words: &[&str]) -> Output {
        let mut command = Command::new("podman");
        command
            .args(["run", "--rm", &format!("--timeout={}", PATIENCE.as_secs())])
            .args(limits())
            .args(options)
            .arg(&self.reference)
            .args(words);
        command.output().expect("podman runs")
    }

    /// Starts a container; the options are Podman's. Its ports are published on free ones of this machine.
    pub fn start(&self, options: &[&str], words: &[&str]) -> Container {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("leveret-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("podman");
        command.args(["run", "--rm", "--name", &name]).args(limits());
        for port in ["5672", "15672"] {
            command.args(["--publish", &format!("127.0.0.1::{port}")]);
        }
        command.args(options).arg(&self.reference).args(words);
        Container { name, process: Process::of(command) }
    }
}

/// An archive of the image of this binary.
///
/// # Errors
/// Why it can't be built here.
pub fn archive(out: &Path, version: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let packages = binary().parent().expect("a folder").join("../dist/packages");
    fs::create_dir_all(&packages).map_err(|error| error.to_string())?;
    let mut command = Command::new(root.join("packaging/image/build"));
    command.arg(out).env("LEVERET_BIN", binary()).env("LEVERET_VERSION", version);
    let made = ran(command.env("LEVERET_IMAGE_PACKAGES", packages))?;
    made.lines().next().map(PathBuf::from).ok_or_else(|| "no archive was made".to_owned())
}

/// The output of a program; an error if it fails.
fn ran(command: &mut Command) -> Result<String, String> {
    let run = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match run.status.success() {
        true => Ok(text(&run.stdout)),
        false => Err(format!("{command:?}: {}", text(&run.stderr))),
    }
}

/// Highest limit of files and processes for a container. It is enough for these tests.
const LIMIT_MAX: u64 = 4_096;

/// Limits that this process has, too: Podman's defaults are higher than what some machines let it set.
fn limits() -> Vec<String> {
    use rustix::process::{Resource, getrlimit};
    let limit = |name: &str, resource| {
        let most = getrlimit(resource).maximum.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
        format!("--ulimit={name}={most}:{most}")
    };
    vec![limit("nofile", Resource::Nofile), limit("nproc", Resource::Nproc)]
}

/// A container that runs, removed when it is dropped.
#[derive(Debug)]
pub struct Container {
    name: String,
    process: Process,
}

impl Container {
    /// Waits until clients can connect.
    ///
    /// # Panics
    /// If the container ends instead.
    pub fn ready(mut self) -> Self {
        assert!(self.process.wait_for_line("Server startup complete"), "{}", self.log());
        self
    }

    /// Waits for a line of its output.
    pub fn wait_for_line(&mut self, text: &str) -> bool {
        self.process.wait_for_line(text)
    }

    /// Its output so far.
    pub fn log(&mut self) -> String {
        self.process.log()
    }

    /// The address of a port.
    ///
    /// # Panics
    /// If it isn't published.
    pub fn address(&self, port: u16) -> SocketAddr {
        let said = ran(Command::new("podman").args(["port", &self.name, &format!("{port}/tcp")])).expect("a port");
        said.parse().unwrap_or_else(|error| panic!("{said}: {error}"))
    }

    /// Runs a program in it; the options are Podman's. Exit code and output.
    ///
    /// # Panics
    /// If Podman can't be run.
    pub fn exec(&self, options: &[&str], words: &[&str]) -> (i32, String) {
        let mut command = Command::new("podman");
        let run = command.arg("exec").args(options).arg(&self.name).args(words).output().expect("podman runs");
        let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        (run.status.code().unwrap_or(-1), text)
    }

    /// The output of a program in it, which has to succeed.
    ///
    /// # Panics
    /// If it fails.
    pub fn well(&self, words: &[&str]) -> String {
        let (exit, text) = self.exec(&[], words);
        assert_eq!(exit, 0, "{words:?}: {text}");
        text
    }

    /// Changes its limits; the options are Podman's.
    ///
    /// # Errors
    /// Podman's, which some versions and machines have.
    pub fn update(&self, options: &[&str]) -> Result<(), String> {
        ran(Command::new("podman").arg("update").args(options).arg(&self.name)).map(drop)
    }

    /// Stops it by SIGTERM.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.process.wait()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.signal("KILL");
        self.process.wait();
    }

    /// Waits for its own end.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }

    fn signal(&self, signal: &str) {
        ran(Command::new("podman").args(["kill", "--signal", signal, &self.name])).expect("is sent");
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ =
            Command::new("podman").args(["rm", "--force", "--ignore", "--volumes", "--time", "0", &self.name]).output();
    }
}
