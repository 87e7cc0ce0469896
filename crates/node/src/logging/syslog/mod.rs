//! Syslog servers: RFC 3164 and RFC 5424 over UDP (RFC 5426), TCP (RFC 6587) and TLS (RFC 5425).

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_config::{Format, Syslog, SyslogProtocol, Transport};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::LogError;
use super::calendar::Moment;
use super::format::text;
use super::journald::priority;
use super::line::Line;
use crate::tls::client_config;

/// Longest time for a server to answer, and to take the data sent to it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time before an unreachable server is tried again.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct SyslogServer {
    server: Syslog,
    format: Format,
    host_name: String,
    tls: Option<Arc<ClientConfig>>,
    connection: Option<Connection>,
    /// The time before which an unreachable server isn't tried again.
    next_try: Option<Instant>,
    lost: u64,
}

enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl SyslogServer {
    /// # Errors
    /// TLS files can't be used. Whether the server is reachable is only found out with the first line.
    pub(super) fn new(server: &Syslog, format: Format) -> Result<Self, LogError> {
        let tls = match server.transport {
            Transport::Tls => {
                Some(Arc::new(client_config(&server.tls).map_err(|error| LogError::Syslog(error.to_string()))?))
            }
            Transport::Udp | Transport::Tcp => None,
        };
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host_name = if host_name.is_empty() { "-".to_owned() } else { host_name };
        Ok(Self { server: server.clone(), format, host_name, tls, connection: None, next_try: None, lost: 0 })
    }

    pub(super) fn write(&mut self, line: &Line) {
        let text = text(&self.format, line);
        let whole = [text.as_str()];
        let split = text.split('\n');
        let messages: Vec<&str> = if self.server.multiline { whole.to_vec() } else { split.collect() };
        for message in messages {
            if self.send(line, message).is_err() {
                self.lost += 1;
            }
        }
    }

    /// Does nothing: lines were sent as they came.
    pub(super) fn flush(&mut self) {
        if let Some(Connection::Tls(stream)) = &mut self.connection
            && stream.flush().is_err()
        {
            self.connection = None;
        }
    }

    fn send(&mut self, line: &Line, message: &str) -> io::Result<()> {
        if self.connection.is_none() {
            self.connect()?;
        }
        let told = if self.lost == 0 {
            message.to_owned()
        } else {
            format!("{message} ({} lines before it are lost)", self.lost)
        };
        let packet = self.packet(line, &told);
        let sent = match &mut self.connection {
            None => Err(io::ErrorKind::NotConnected.into()),
            // A port without a listener is reported at the next datagram.
            Some(Connection::Udp(socket)) => socket.send(&packet).map(|_| ()),
            Some(Connection::Tcp(stream)) => write_counted(stream, &packet),
            Some(Connection::Tls(stream)) => write_counted(stream, &packet),
        };
        match sent {
            Ok(()) => self.lost = 0,
            Err(_) => self.connection = None,
        }
        sent
    }

    fn connect(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.next_try.is_some_and(|moment| now < moment) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        match self.open() {
            Ok(connection) => {
                self.connection = Some(connection);
                self.next_try = None;
                Ok(())
            }
            Err(reason) => {
                if self.next_try.is_none() {
                    eprintln!("leveret: cannot log to syslog at {}:{}: {reason}", self.server.host, self.server.port());
                }
                self.next_try = Some(now + PAUSE);
                Err(reason)
            }
        }
    }

    fn open(&self) -> io::Result<Connection> {
        let host = self.server.host.as_str();
        let address = (host, self.server.port()).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its name has no address"))?;
        if self.server.transport == Transport::Udp {
            let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            return Ok(Connection::Udp(socket));
        }
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let Some(config) = &self.tls else { return Ok(Connection::Tcp(stream)) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connection::Tls(Box::new(stream)))
    }

    fn packet(&self, line: &Line, message: &str) -> Vec<u8> {
        let (facility, severity) = (self.server.facility.0, priority(line.level));
        let number = facility * 8 + severity;
        let (host, identity, process) = (&self.host_name, &self.server.identity, std::process::id());
        let moment = Moment::of(line.time);
        match self.server.protocol() {
            SyslogProtocol::Rfc5424 => {
                let time = moment.rfc3339('T').replace("+00:00", "Z");
                format!("<{number}>1 {time} {host} {identity} {process} {} - {message}", line.category.name())
            }
            SyslogProtocol::Rfc3164 => {
                let (month, day) = (moment.date().month().to_string(), moment.date().day());
                let time = format!("{} {day:2} {}", &month[..3], moment.clock());
                format!("<{number}>{time} {host} {identity}[{process}]: {message}")
            }
        }
        .into_bytes()
    }
}

/// Writes with octet counting (RFC 6587, 3.4.1), which allows messages of several lines.
fn write_counted(stream: &mut impl Write, packet: &[u8]) -> io::Result<()> {
    let mut framed = format!("{} ", packet.len()).into_bytes();
    framed.extend_from_slice(packet);
    stream.write_all(&framed)
}

#[cfg(test)]
mod tests;
