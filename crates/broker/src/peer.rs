//! The other end of a connection: addresses, TLS, proxy.

use core::net::SocketAddr;

use crate::encryption::{Encryption, PeerCertificate};

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The result of its TLS handshake; `None` without TLS.
    pub encryption: Option<Encryption>,
    /// The proxy that reported the two addresses; `None` for a direct connection.
    pub proxy: Option<SocketAddr>,
}

impl Peer {
    /// A peer without TLS.
    pub fn new(address: SocketAddr, local: SocketAddr) -> Self {
        Self { address, local, encryption: None, proxy: None }
    }

    /// The content of its certificate; `None` if it presented none.
    pub fn certificate(&self) -> Option<&PeerCertificate> {
        self.encryption.as_ref()?.certificate.as_deref()
    }

    /// Whether it is on this machine, and so is its proxy, if any.
    pub fn is_loopback(&self) -> bool {
        let is_here = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        is_here(self.address) && self.proxy.is_none_or(is_here)
    }

    /// RabbitMQ's name of a connection.
    pub fn connection_name(&self) -> String {
        format!("{} -> {}", self.address, self.local)
    }
}
