//! The image: its archive, and containers of it, which Podman runs. A machine without Podman runs the tests of the archive.

mod archive;
mod chart;
mod data;
mod kills;
mod life;
mod operator;
mod users;
mod variables;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leveret_tests::container::Container;
use leveret_tests::wire::{Wire, publish};
use tempfile::TempDir;

/// A volume: a folder of this machine that belongs to its owner alone, as a new volume does to root.
struct Volume(TempDir);

impl Volume {
    fn new() -> Self {
        let volume = Self(tempfile::tempdir().expect("a directory"));
        fs::set_permissions(volume.path(), fs::Permissions::from_mode(0o755)).expect("is set");
        volume
    }

    /// A volume that every user may write.
    fn open_to_all() -> Self {
        let volume = Self::new();
        fs::set_permissions(volume.path(), fs::Permissions::from_mode(0o777)).expect("is set");
        volume
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Podman's option that mounts it.
    fn at(&self, place: &str) -> String {
        format!("--volume={}:{place}", self.path().display())
    }

    /// Writes a file, for everybody to read.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("is written");
    }
}

const HOME: &str = "/var/lib/rabbitmq";

/// Publishes a durable message to a durable queue, and waits for its confirm.
fn publish_kept(container: &Container, text: &str) {
    let mut wire = Wire::open(container.address(5672));
    wire.declare(1, "kept", true);
    wire.confirm_select(1);
    wire.send(&publish(1, "", "kept", text.as_bytes(), false, true));
    wire.confirms(1);
    wire.close();
}

/// The messages in the queue, which stay there.
fn kept(container: &Container) -> Vec<String> {
    let mut wire = Wire::open(container.address(5672));
    wire.declare(1, "kept", true);
    let count = wire.message_count(1, "kept");
    wire.consume(1, "kept", false);
    (0..count).map(|_| String::from_utf8_lossy(&wire.delivery().2).into_owned()).collect()
}

/// The status of a path that a probe asks for without credentials.
fn probed(container: &Container, path: &str) -> u16 {
    let mut stream = TcpStream::connect(container.address(15672)).expect("connects");
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: probe\r\n\r\n").as_bytes()).expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}
