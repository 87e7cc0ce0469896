//! Opening a connection.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// Largest read of a connection under load, in bytes.
const READ_MAX: usize = 256 << 10;

/// Parameters of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Opening<'o> {
    /// Its name.
    pub(crate) name: &'o str,
    /// Seconds between heartbeats, 0 for none.
    pub(crate) heartbeat: u16,
    /// Local address; `None` for the system's choice.
    pub(crate) from: Option<IpAddr>,
    /// Initial size of its input buffer in bytes.
    pub(crate) buffer: usize,
}

impl<'o> Opening<'o> {
    /// Parameters of a connection that carries a load.
    pub(crate) fn of(name: &'o str) -> Self {
        Self { name, heartbeat: 0, from: None, buffer: READ_MAX }
    }

    /// Connects to `address`, host and port. If `from` is set, the system's timeout of two minutes applies.
    pub(crate) fn connect(&self, address: &str, patience: Duration) -> io::Result<TcpStream> {
        let Some(from) = self.from else {
            let mut failed = io::Error::other(format!("{address} has no address"));
            for to in address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&to, patience) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed = error,
                }
            }
            return Err(failed);
        };
        let of_the_same_kind = |to: &SocketAddr| to.is_ipv4() == from.is_ipv4();
        let to = address.to_socket_addrs()?.find(of_the_same_kind);
        let to = to.ok_or_else(|| io::Error::other(format!("{address} can't be reached from {from}")))?;
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket(family, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::new(from, 0))?;
        connect(&socket, &to)?;
        Ok(TcpStream::from(socket))
    }
}
