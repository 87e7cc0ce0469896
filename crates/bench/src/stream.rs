//! The socket of a load, with or without TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Performs the handshake.
    ///
    /// # Errors
    /// The system's or TLS's; the latter describes the problem with the certificate.
    pub(crate) fn tls(mut socket: TcpStream, mut session: ClientConnection) -> io::Result<Self> {
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// The socket itself, for closing it from another thread.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Whether bytes were read ahead, which the socket itself wouldn't report as readable.
    pub(crate) fn has_read_ahead(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => !stream.conn.wants_read(),
        }
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => match stream.read(into) {
                // The broker closed without a TLS close_notify: AMQP's close is what counts.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}
