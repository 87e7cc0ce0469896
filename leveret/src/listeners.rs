//! Opens the configured listeners.

use std::collections::HashMap;
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use leveret_config::{Config, Endpoint, TlsEndpoint};
use leveret_management::{HttpListener as Limits, Router};
use leveret_node::listener_kind::{
    AMQP, AMQPS, CLUSTER, HTTP, HTTPS, MQTT, MQTT_TLS, PROMETHEUS, PROMETHEUS_TLS, STREAM, STREAM_TLS,
};
use leveret_node::{
    ClusterOptions, Listener, ListenerKind, Listening, Node, NodeOptions, StartError, Tls, amqp_addresses,
    amqps_addresses, cluster_addresses, http_address, mqtt_addresses, stream_addresses,
};
use tracing::{error, warn};

/// Every socket that the node listens on.
pub(crate) struct Listeners {
    /// Sockets of AMQP, of the stream protocol and of MQTT.
    pub(crate) clients: Vec<Listener>,
    pub(crate) http: Vec<HttpListener>,
    pub(crate) prometheus: Vec<HttpListener>,
    /// Sockets for other nodes.
    pub(crate) cluster: Vec<TcpListener>,
    cluster_addresses: Vec<SocketAddr>,
    /// The TLS whose files are reloaded when they change.
    pub(crate) tls: Vec<Arc<Tls>>,
    /// The ports that the system chose, for the next node of this process.
    pub(crate) chosen: ChosenPorts,
}

/// The ports that the system chose for listeners whose configured port is 0. They are kept over `stop_app` and
/// `start_app`, so that clients find the node at the same port.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChosenPorts {
    /// By the listener's kind and its configured address; in the order of listeners that have both in common.
    by_listener: HashMap<(&'static str, SocketAddr), Vec<u16>>,
}

impl ChosenPorts {
    /// Opens a listener. One with port 0 gets the port that it had in `earlier`, if that is still free.
    fn listen(&mut self, kind: &ListenerKind, address: SocketAddr, earlier: &Self) -> Result<TcpListener, StartError> {
        if address.port() != 0 {
            return Node::listen(address);
        }
        let ports = self.by_listener.entry((kind.protocol, address)).or_default();
        let had = earlier.by_listener.get(&(kind.protocol, address)).and_then(|had| had.get(ports.len()));
        let had = had.and_then(|port| Node::listen(SocketAddr::new(address.ip(), *port)).ok());
        let socket = had.map_or_else(|| Node::listen(address), Ok)?;
        let bound = socket.local_addr().map_err(|source| StartError::Listen { address, source })?;
        ports.push(bound.port());
        Ok(socket)
    }
}

/// A socket that speaks HTTP, and its parts of the API.
pub(crate) struct HttpListener {
    kind: &'static ListenerKind,
    socket: TcpListener,
    tls: Option<Arc<Tls>>,
    limits: Limits,
}

impl Listeners {
    /// The node's part of a cluster, with the sockets for other nodes; `None` without such a socket.
    pub(crate) fn cluster_options(
        &mut self,
        config: &Config,
        options: &NodeOptions,
        is_founding: bool,
    ) -> Option<ClusterOptions> {
        let listeners = std::mem::take(&mut self.cluster);
        let release = options.broker.version.clone();
        (!listeners.is_empty()).then(|| ClusterOptions::new(config, listeners, release, is_founding))
    }

    /// Opens all listeners, or returns the error of the first that can't be opened. `earlier` are the ports of this
    /// process's last node.
    pub(crate) fn open(config: &Config, earlier: &ChosenPorts) -> Result<Self, Box<dyn Error>> {
        let login = config.certificate_login;
        let patience = Duration::from_millis(config.ssl_handshake_timeout_ms);
        let mut this = Self {
            clients: Vec::new(),
            http: Vec::new(),
            prometheus: Vec::new(),
            cluster: Vec::new(),
            cluster_addresses: Vec::new(),
            tls: Vec::new(),
            chosen: ChosenPorts::default(),
        };
        let [mut stream, mut stream_with_tls] = stream_addresses(config)?;
        if !config.plugins.is_running("rabbitmq_stream") {
            (stream, stream_with_tls) = (Vec::new(), Vec::new());
        }
        let [mut mqtt, mut mqtt_with_tls] = mqtt_addresses(config)?;
        if !config.plugins.is_running("rabbitmq_mqtt") {
            (mqtt, mqtt_with_tls) = (Vec::new(), Vec::new());
        }
        this.listen_to_nodes(config, earlier)?;
        let mut listen = |kind: &'static ListenerKind, proxy_protocol, address, tls| {
            let socket = this.chosen.listen(kind, address, earlier)?;
            this.clients.push(Listener { kind, socket, tls, proxy_protocol });
            Ok::<_, StartError>(())
        };
        amqp_addresses(config)?
            .into_iter()
            .try_for_each(|address| listen(&AMQP, config.proxy_protocol, address, None))?;
        stream.into_iter().try_for_each(|address| listen(&STREAM, config.stream.proxy_protocol, address, None))?;
        for address in mqtt {
            match listen(&MQTT, config.mqtt.proxy_protocol, address, None) {
                // No key asks for it: an upgrade doesn't stop a node whose port another program has.
                Err(taken @ StartError::Listen { .. }) if !config.asks_for_mqtt() => {
                    warn!(
                        "there is no MQTT: {taken}; set mqtt.listeners.tcp.default to another port, or mqtt.listeners.tcp = none"
                    );
                }
                listening => listening?,
            }
        }
        let with_tls = amqps_addresses(config)?;
        if !(with_tls.is_empty() && stream_with_tls.is_empty() && mqtt_with_tls.is_empty()) {
            let tls = Tls::load("ssl_options", config.ssl_options.clone(), patience, login)?;
            with_tls
                .into_iter()
                .try_for_each(|address| listen(&AMQPS, config.proxy_protocol, address, Some(tls.clone())))?;
            stream_with_tls.into_iter().try_for_each(|address| {
                listen(&STREAM_TLS, config.stream.proxy_protocol, address, Some(tls.clone()))
            })?;
            mqtt_with_tls
                .into_iter()
                .try_for_each(|address| listen(&MQTT_TLS, config.mqtt.proxy_protocol, address, Some(tls.clone())))?;
            this.tls.push(tls);
        }
        this.listen_to_http(config, earlier)?;
        Ok(this)
    }

    /// Opens the listeners for other nodes, if there is to be a cluster.
    fn listen_to_nodes(&mut self, config: &Config, earlier: &ChosenPorts) -> Result<(), Box<dyn Error>> {
        let cluster = if config.asks_for_cluster() { cluster_addresses(config)? } else { Vec::new() };
        for address in cluster {
            match self.chosen.listen(&CLUSTER, address, earlier) {
                // A second node on the machine works alone, as before there were clusters.
                Err(taken @ StartError::Listen { .. }) if config.cluster.classic_nodes().is_empty() => {
                    warn!(
                        "other nodes can't reach this one: {taken}; set cluster.listeners.tcp.default to another port"
                    );
                }
                listening => {
                    let socket = listening?;
                    self.cluster_addresses.extend(socket.local_addr());
                    self.cluster.push(socket);
                }
            }
        }
        Ok(())
    }

    /// Opens the listeners of the HTTP API and of the metrics.
    fn listen_to_http(&mut self, config: &Config, earlier: &ChosenPorts) -> Result<(), Box<dyn Error>> {
        let login = config.certificate_login;
        let patience = Duration::from_millis(config.ssl_handshake_timeout_ms);
        let mut listen = |kind: &'static ListenerKind, prefix, endpoint: &Endpoint, tls| {
            let socket = self.chosen.listen(kind, http_address(endpoint)?, earlier)?;
            let limits = Limits { prefix, limits: endpoint.limits.clone(), descriptors: None };
            Ok::<_, StartError>(HttpListener { kind, socket, tls, limits })
        };
        let mut open = |plain: (&'static ListenerKind, _, Option<&Endpoint>),
                        with_tls: (&'static ListenerKind, _, Option<&TlsEndpoint>)| {
            let mut opened = Vec::new();
            if let (kind, prefix, Some(endpoint)) = plain {
                opened.push(listen(kind, prefix, endpoint, None)?);
            }
            if let (kind, prefix, Some(TlsEndpoint { endpoint, tls })) = with_tls {
                let tls = Tls::load(prefix, tls.clone(), patience, login)?;
                self.tls.push(tls.clone());
                opened.push(listen(kind, prefix, endpoint, Some(tls))?);
            }
            Ok::<_, StartError>(opened)
        };
        // As in RabbitMQ, a plugin that isn't enabled doesn't listen.
        if config.plugins.is_running("rabbitmq_management") {
            self.http = open(
                (&HTTP, "management.tcp", config.plain_management()),
                (&HTTPS, "management.ssl", config.management_ssl.as_ref()),
            )?;
        }
        if config.plugins.is_running("rabbitmq_prometheus") {
            self.prometheus = open(
                (&PROMETHEUS, "prometheus.tcp", config.plain_prometheus()),
                (&PROMETHEUS_TLS, "prometheus.ssl", config.prometheus_ssl.as_ref()),
            )?;
        }
        Ok(())
    }

    /// The addresses of the HTTP listeners.
    pub(crate) fn others(&self) -> impl Iterator<Item = Listening> {
        let address = |listener: &HttpListener| {
            Some(Listening { kind: listener.kind, address: listener.socket.local_addr().ok()? })
        };
        let nodes = self.cluster_addresses.iter().map(|address| Listening { kind: &CLUSTER, address: *address });
        nodes.chain(self.http.iter().chain(&self.prometheus).filter_map(address))
    }
}

impl HttpListener {
    /// Answers requests until the node is dropped.
    pub(crate) fn serve(self, node: &Node, router: Router) {
        let Self { socket, tls, limits, .. } = self;
        let limits = Limits { descriptors: Some(node.handle().descriptors().clone()), ..limits };
        node.spawn(async move {
            let served = match tls {
                None => leveret_management::serve(socket, router, limits).await,
                Some(tls) => leveret_management::serve_tls(socket, tls, router, limits).await,
            };
            if let Err(reason) = served {
                error!("an HTTP listener has failed: {reason}");
            }
        });
    }
}
