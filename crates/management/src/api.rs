use std::path::PathBuf;
use std::sync::Arc;

use leveret_broker::Broker;
use leveret_model::Topology;
use leveret_node::NodeHandle;

/// What the HTTP API knows of its node. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeHandle,
    name: String,
    data_directory: PathBuf,
    durability: String,
}

impl Api {
    /// The API of `node`. `name` is what answers call the node, `durability` what the banner says of a confirm.
    pub fn new(node: NodeHandle, name: String, data_directory: PathBuf, durability: String) -> Self {
        Api { inner: Arc::new(Inner { node, name, data_directory, durability }) }
    }

    pub(crate) fn node(&self) -> &NodeHandle {
        &self.inner.node
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.inner.node.broker()
    }

    pub(crate) fn topology(&self) -> Topology {
        self.broker().registry.snapshot().topology.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn data_directory(&self) -> &std::path::Path {
        &self.inner.data_directory
    }

    pub(crate) fn durability(&self) -> &str {
        &self.inner.durability
    }

    /// The open ports with the protocol that each speaks, as the API names them.
    pub(crate) fn listeners(&self) -> Vec<(&'static str, u16)> {
        let ports = self.node().ports();
        let amqp = ports.amqp.filter(|_| !self.broker().is_in_maintenance());
        let named = [("amqp", amqp), ("http", ports.http), ("http/prometheus", ports.prometheus)];
        named.into_iter().filter_map(|(name, port)| Some((name, port?))).collect()
    }
}
