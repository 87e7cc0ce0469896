//! Where a connection comes from: addresses, TLS, a proxy.

use core::net::SocketAddr;

use crate::encryption::{Encryption, PeerCertificate};

/// Where a connection comes from.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
    /// The result of its TLS handshake; none without TLS.
    pub encryption: Option<Encryption>,
    /// The proxy whose word the two addresses are; none for a client that came by itself.
    pub proxy: Option<SocketAddr>,
}

impl Peer {
    /// One without TLS.
    pub fn new(address: SocketAddr, local: SocketAddr) -> Self {
        Self { address, local, encryption: None, proxy: None }
    }

    /// The content of its certificate; none without one.
    pub fn certificate(&self) -> Option<&PeerCertificate> {
        self.encryption.as_ref()?.certificate.as_deref()
    }

    /// Whether it is on this machine, and so is the proxy that says so, if one does.
    pub fn is_loopback(&self) -> bool {
        let is_here = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        is_here(self.address) && self.proxy.is_none_or(is_here)
    }

    /// RabbitMQ's name of a connection.
    pub fn connection_name(&self) -> String {
        format!("{} -> {}", self.address, self.local)
    }
}
