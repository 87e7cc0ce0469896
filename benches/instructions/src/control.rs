//! The bulk paths of the control plane over a node's local API: instructions of the thread of the API per object.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use leveret_config::Config;
use leveret_management::{Api, Router, local};
use leveret_node::{DirectoryLock, Node, NodeOptions};
use tokio::runtime::{Builder, Runtime};

use crate::count::count;

/// Queues, and as many bindings.
const OBJECTS: u64 = 1_000;

struct Stage {
    service: TowerToHyperService<Router>,
    runtime: Runtime,
    // The node goes before its directory.
    node: Node,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = Config::default();
        config.set("cores=1").expect("is a key");
        let lock = DirectoryLock::acquire(directory.path()).expect("the directory is free");
        let options = NodeOptions::new(&config, Vec::new(), Arc::new(|text| panic!("{text}")));
        let (node, _) = Node::start(lock, options).expect("starts");
        let api = Api::new(node.handle(), "bench@localhost".to_owned(), directory.path().to_owned(), String::new());
        Stage {
            service: TowerToHyperService::new(local(api)),
            runtime: Builder::new_current_thread().enable_all().build().expect("a runtime"),
            node,
            _directory: directory,
        }
    }

    fn with_objects() -> Self {
        let stage = Self::new();
        stage.ask("POST", "/api/definitions", definitions());
        stage
    }

    /// Sends a request, and reads the whole answer.
    fn ask(&self, method: &str, path: &str, body: String) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).expect("a request");
        self.runtime.block_on(async {
            let response = self.service.call(request).await.expect("an answer");
            assert!(response.status().is_success(), "{method} {path}: {}", response.status());
            to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        });
    }

    fn count(&self, method: &str, path: &str, body: String) -> u64 {
        count(|| self.ask(method, path, body));
        OBJECTS
    }
}

/// Queues with bindings in a vhost of their own, in the order in which they would be numbered and not in that of their names.
fn definitions() -> String {
    let mut queues = String::new();
    let mut bindings = String::new();
    for at in 0..OBJECTS {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            queues,
            r#"{comma}{{"name":"orders.{at}","vhost":"bench","type":"classic","durable":true,"auto_delete":false,"arguments":{{"x-max-length":1000}}}}"#
        );
        let _ = write!(
            bindings,
            r#"{comma}{{"source":"amq.topic","vhost":"bench","destination":"orders.{at}","destination_type":"queue","routing_key":"orders.{at}.*","arguments":{{}}}}"#
        );
    }
    format!(r#"{{"vhosts":[{{"name":"bench"}}],"queues":[{queues}],"bindings":[{bindings}]}}"#)
}

pub(crate) fn import() -> u64 {
    Stage::new().count("POST", "/api/definitions", definitions())
}

/// The same once more.
pub(crate) fn import_unchanged() -> u64 {
    Stage::with_objects().count("POST", "/api/definitions", definitions())
}

pub(crate) fn export() -> u64 {
    Stage::with_objects().count("GET", "/api/definitions", String::new())
}

pub(crate) fn list() -> u64 {
    Stage::with_objects().count("GET", "/api/queues", String::new())
}

pub(crate) fn list_names() -> u64 {
    Stage::with_objects().count("GET", "/api/queues?columns=name", String::new())
}

/// A policy that matches all queues.
pub(crate) fn policy() -> u64 {
    let policy = r#"{"pattern":"^orders","definition":{"max-length":500},"apply-to":"queues"}"#;
    Stage::with_objects().count("PUT", "/api/policies/bench/limit", policy.to_owned())
}

pub(crate) fn end_of_vhost() -> u64 {
    let stage = Stage::with_objects();
    // The last holder of the vhost's objects frees them: this thread or, if it is slow, one of the node's. That isn't counted.
    let _objects = stage.node.handle().broker().registry.snapshot_full();
    stage.count("DELETE", "/api/vhosts/bench", String::new())
}
