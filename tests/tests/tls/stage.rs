//! A node with all three listeners.

use std::net::SocketAddr;
use std::path::Path;

use leveret_tests::node::{Node, Options};
use leveret_tests::tls::{Authority, TlsIdentity};
use serde_json::Value;
use tempfile::TempDir;

/// Year in which certificates of tests expire.
pub(crate) const LATE: i32 = 2199;

pub(crate) struct TlsStage {
    pub(crate) node: Node,
    pub(crate) authority: Authority,
    pub(crate) identity: TlsIdentity,
    /// The folder of the node's files.
    pub(crate) files: TempDir,
}

/// The options of a node with listeners for AMQP, HTTP and metrics, each with and without TLS.
pub(crate) fn options(files: &Path) -> Options {
    let mut options = Options::new().set("listeners.ssl.default", 0);
    for prefix in ["ssl_options", "management.ssl", "prometheus.ssl"] {
        for (key, file) in [("certfile", "node.pem"), ("keyfile", "node.key")] {
            options = options.set(&format!("{prefix}.{key}"), files.join(file).display());
        }
    }
    options.set("management.ssl.port", 0).set("prometheus.ssl.port", 0)
}

impl TlsStage {
    pub(crate) fn new(change: impl FnOnce(Options, &Path) -> Options) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let authority = Authority::new("the root");
        let identity = authority.issue("the node", LATE);
        identity.write(files.path(), "node");
        std::fs::write(files.path().join("root.pem"), authority.pem()).expect("is written");
        let node = Node::start(change(options(files.path()), files.path()));
        Self { node, authority, identity, files }
    }

    /// The address of a listener, by its name in `ports.json`.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        let text = std::fs::read_to_string(self.node.directory().join("ports.json")).expect("is there");
        let ports: Value = serde_json::from_str(&text).expect("is JSON");
        let port = ports[name].as_u64().unwrap_or_else(|| panic!("no {name} in {text}"));
        SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("a port")))
    }
}
