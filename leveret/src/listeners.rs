//! Opens the configured listeners.

use std::collections::HashMap;
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use leveret_config::{Config, Endpoint, TlsEndpoint};
use leveret_management::{HttpListener as Limits, Router};
use leveret_node::{
    Listener, Listening, Node, Ports, StartError, Tls, amqp_addresses, amqps_addresses, http_address, stream_addresses,
};
use tracing::error;

/// Every socket that the node listens on.
pub(crate) struct Listeners {
    /// Sockets of AMQP and of the stream protocol.
    pub(crate) amqp: Vec<Listener>,
    pub(crate) http: Vec<HttpListener>,
    pub(crate) prometheus: Vec<HttpListener>,
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
    fn listen(&mut self, kind: &'static str, address: SocketAddr, earlier: &Self) -> Result<TcpListener, StartError> {
        if address.port() != 0 {
            return Node::listen(address);
        }
        let ports = self.by_listener.entry((kind, address)).or_default();
        let had = earlier.by_listener.get(&(kind, address)).and_then(|had| had.get(ports.len()));
        let had = had.and_then(|port| Node::listen(SocketAddr::new(address.ip(), *port)).ok());
        let socket = had.map_or_else(|| Node::listen(address), Ok)?;
        let bound = socket.local_addr().map_err(|source| StartError::Listen { address, source })?;
        ports.push(bound.port());
        Ok(socket)
    }
}

/// The protocols of listeners for AMQP.
const AMQP: [&str; 2] = ["amqp091", "amqp10"];
/// The protocol of listeners for streams.
const STREAM: [&str; 1] = ["stream"];

/// A socket that speaks HTTP, and its parts of the API.
pub(crate) struct HttpListener {
    socket: TcpListener,
    tls: Option<Arc<Tls>>,
    limits: Limits,
}

impl Listeners {
    /// Opens all listeners, or returns the error of the first that can't be opened. `earlier` are the ports of this
    /// process's last node.
    pub(crate) fn open(config: &Config, earlier: &ChosenPorts) -> Result<Self, Box<dyn Error>> {
        let login = config.certificate_login;
        let patience = Duration::from_millis(config.ssl_handshake_timeout_ms);
        let mut this = Self {
            amqp: Vec::new(),
            http: Vec::new(),
            prometheus: Vec::new(),
            tls: Vec::new(),
            chosen: ChosenPorts::default(),
        };
        let [mut stream, mut stream_with_tls] = stream_addresses(config)?;
        if !config.plugins.is_running("rabbitmq_stream") {
            (stream, stream_with_tls) = (Vec::new(), Vec::new());
        }
        let mut listen = |name, address, tls| {
            let socket = this.chosen.listen(name, address, earlier)?;
            let (protocols, proxy_protocol) = match name {
                "amqp" | "amqp/ssl" => (AMQP.to_vec(), config.proxy_protocol),
                _ => (STREAM.to_vec(), config.stream.proxy_protocol),
            };
            this.amqp.push(Listener { name, socket, tls, protocols, proxy_protocol });
            Ok::<_, StartError>(())
        };
        amqp_addresses(config)?.into_iter().try_for_each(|address| listen("amqp", address, None))?;
        stream.into_iter().try_for_each(|address| listen("stream", address, None))?;
        let with_tls = amqps_addresses(config)?;
        if !(with_tls.is_empty() && stream_with_tls.is_empty()) {
            let tls = Tls::load("ssl_options", config.ssl_options.clone(), patience, login)?;
            with_tls.into_iter().try_for_each(|address| listen("amqp/ssl", address, Some(tls.clone())))?;
            stream_with_tls.into_iter().try_for_each(|address| listen("stream/ssl", address, Some(tls.clone())))?;
            this.tls.push(tls);
        }
        let mut listen = |prefix, endpoint: &Endpoint, tls| {
            let socket = this.chosen.listen(prefix, http_address(endpoint)?, earlier)?;
            let limits = Limits { prefix, limits: endpoint.limits.clone(), descriptors: None };
            Ok::<_, StartError>(HttpListener { socket, tls, limits })
        };
        let mut open = |plain_prefix, prefix, plain: Option<&Endpoint>, with_tls: Option<&TlsEndpoint>| {
            let mut opened = Vec::new();
            if let Some(endpoint) = plain {
                opened.push(listen(plain_prefix, endpoint, None)?);
            }
            if let Some(TlsEndpoint { endpoint, tls }) = with_tls {
                let tls = Tls::load(prefix, tls.clone(), patience, login)?;
                this.tls.push(tls.clone());
                opened.push(listen(prefix, endpoint, Some(tls))?);
            }
            Ok::<_, StartError>(opened)
        };
        // As in RabbitMQ, a plugin that isn't enabled doesn't listen.
        if config.plugins.is_running("rabbitmq_management") {
            this.http =
                open("management.tcp", "management.ssl", config.plain_management(), config.management_ssl.as_ref())?;
        }
        if config.plugins.is_running("rabbitmq_prometheus") {
            this.prometheus =
                open("prometheus.tcp", "prometheus.ssl", config.plain_prometheus(), config.prometheus_ssl.as_ref())?;
        }
        Ok(this)
    }

    /// The addresses of the HTTP listeners.
    pub(crate) fn others(&self) -> impl Iterator<Item = Listening> {
        let of = |listeners: &[HttpListener], plain, with_tls| {
            let address = |listener: &HttpListener| {
                let protocol = if listener.tls.is_some() { with_tls } else { plain };
                Some(Listening { protocol, address: listener.socket.local_addr().ok()? })
            };
            listeners.iter().filter_map(address).collect::<Vec<_>>()
        };
        of(&self.http, "http", "https").into_iter().chain(of(&self.prometheus, "http/prometheus", "https/prometheus"))
    }

    /// The ports of the HTTP listeners.
    pub(crate) fn ports(&self) -> Ports {
        let port = |of: &[HttpListener], with_tls| {
            let found = of.iter().find(|one| one.tls.is_some() == with_tls)?;
            found.socket.local_addr().ok().map(|address| address.port())
        };
        Ports {
            http: port(&self.http, false),
            https: port(&self.http, true),
            prometheus: port(&self.prometheus, false),
            prometheus_tls: port(&self.prometheus, true),
            ..Ports::default()
        }
    }
}

impl HttpListener {
    /// Answers requests until the node is dropped.
    pub(crate) fn serve(self, node: &Node, router: Router) {
        let Self { socket, tls, limits } = self;
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
