use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::protocol::NotSpoken;
use leveret_broker::{Broker, Peer, Protocols};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::connection::ConnectionTask;
use super::handshake::Foreword;
use super::links::LinkGuest;
use super::load::least_loaded;

use super::stream::Stream;
use super::{Core, RunningCore};
use crate::descriptors::Descriptors;
use crate::incoming;
use crate::listener_kind::ListenerKind;
use crate::population::Population;
use crate::tls::Tls;

/// Connections that may wait to be accepted; the kernel lowers it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Options of accepted sockets.
#[derive(Debug, Clone, Copy)]
pub struct SocketOptions {
    /// Sends small segments at once (`tcp_listen_options.nodelay`).
    pub no_delay: bool,
    /// Lets the system probe idle connections (`tcp_listen_options.keepalive`).
    pub keep_alive: bool,
    /// Bytes; `None` for the system's choice (`tcp_listen_options.sndbuf`).
    pub send_buffer: Option<u32>,
    /// Bytes; `None` for the system's choice (`tcp_listen_options.recbuf`).
    pub receive_buffer: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { no_delay: true, keep_alive: false, send_buffer: None, receive_buffer: None }
    }
}

impl SocketOptions {
    fn apply(&self, stream: &std::net::TcpStream) -> io::Result<()> {
        let socket = SockRef::from(stream);
        socket.set_tcp_nodelay(self.no_delay)?;
        if self.keep_alive {
            socket.set_keepalive(true)?;
        }
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        Ok(())
    }
}

/// Binds one listener. An unspecified IPv6 address also takes IPv4 peers, as RabbitMQ's does, and falls
/// back to IPv4 where the host has no IPv6.
///
/// # Errors
/// The address is taken, not this host's, or not allowed.
pub(crate) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    match bind(address) {
        Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && has_no_ipv6(&error) => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(address.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn has_no_ipv6(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error();
    errno == Some(Errno::AFNOSUPPORT.raw_os_error()) || errno == Some(Errno::ADDRNOTAVAIL.raw_os_error())
}

/// A listening socket, its TLS if it has any, and the protocols of its clients.
#[derive(Debug)]
pub struct Listener {
    /// Its kind, by which it is listed and its clients' protocols are known.
    pub kind: &'static ListenerKind,
    /// The socket.
    pub socket: std::net::TcpListener,
    /// None without TLS.
    pub tls: Option<Arc<Tls>>,
    /// Whether connections begin with the header of a proxy (`proxy_protocol`).
    pub proxy_protocol: bool,
}

/// A listener's address, to be opened again after maintenance.
struct Address {
    kind: &'static ListenerKind,
    socket: SocketAddr,
    tls: Option<Arc<Tls>>,
    proxy_protocol: bool,
}

/// The tasks that accept connections and hand each to the least loaded core.
pub(crate) struct Acceptors {
    addresses: Vec<Address>,
    seats: Vec<Seat>,
    /// The runtime of the tasks.
    home: Handle,
    broker: Arc<Broker>,
    population: Arc<Population>,
    descriptors: Arc<Descriptors>,
    sockets: SocketOptions,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
struct Seat {
    core: Arc<Core>,
    /// The channel that the core receives its connections from.
    reception: UnboundedSender<Arrival>,
}

/// A connection on its way to its core.
pub(crate) enum Arrival {
    /// Of a client.
    Client(Guest),
    /// Of another node.
    Link(LinkGuest),
}

/// A client's connection on its way to its core.
pub(crate) struct Guest {
    stream: std::net::TcpStream,
    address: SocketAddr,
    place: SeatTaken,
    broker: Arc<Broker>,
    protocols: Protocols,
    foreword: Foreword,
}

/// Serves the connections that are handed to this core.
///
/// The connections' tasks are allocated here and not on the thread that accepted them. If one thread allocates memory
/// and another frees it, the allocator only gets it back when the first thread allocates more of that size. After ten
/// thousand connections were dropped at once, such memory was half of what an idle node had.
pub(crate) async fn receive(mut arrivals: UnboundedReceiver<Arrival>) {
    while let Some(arrival) = arrivals.recv().await {
        match arrival {
            Arrival::Client(guest) => tokio::spawn(serve(guest)),
            Arrival::Link(guest) => tokio::spawn(guest.serve()),
        };
    }
}

impl Acceptors {
    /// Starts accepting. The tasks run on the first core: their work per connection is small compared with its
    /// handshake.
    pub(crate) fn start(
        listeners: Vec<Listener>,
        cores: &[RunningCore],
        broker: &Arc<Broker>,
        population: &Arc<Population>,
        descriptors: &Arc<Descriptors>,
        sockets: SocketOptions,
    ) -> Result<Self, NotSpoken> {
        let mut this = Self {
            addresses: listeners.iter().filter_map(address).collect(),
            seats: cores.iter().map(|c| Seat { core: c.core.clone(), reception: c.reception.clone() }).collect(),
            home: cores[0].handle.clone(),
            broker: broker.clone(),
            population: population.clone(),
            descriptors: descriptors.clone(),
            sockets,
            tasks: Vec::new(),
        };
        this.spawn(listeners)?;
        Ok(this)
    }

    fn spawn(&mut self, listeners: Vec<Listener>) -> Result<(), NotSpoken> {
        for listener in listeners {
            let guests = Guests {
                protocols: self.broker.protocols.named(listener.kind.labels)?,
                seats: self.seats.clone(),
                broker: self.broker.clone(),
                population: self.population.clone(),
                descriptors: self.descriptors.clone(),
                sockets: self.sockets,
                tls: listener.tls,
                proxy_protocol: listener.proxy_protocol,
            };
            let task = accept(listener.socket, guests);
            self.tasks.push(self.home.spawn(task));
        }
        Ok(())
    }

    /// Closes the listeners. They are closed once the returned tasks have ended.
    pub(crate) fn suspend(&mut self) -> Vec<JoinHandle<()>> {
        self.tasks.iter().for_each(JoinHandle::abort);
        std::mem::take(&mut self.tasks)
    }

    /// Whether the listeners are closed.
    pub(crate) fn is_suspended(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Opens the listeners again, unless they are open. `ready` is called before any connection is accepted.
    ///
    /// # Errors
    /// The address is in use by now; then none is open.
    pub(crate) fn resume(&mut self, ready: impl FnOnce()) -> io::Result<()> {
        if self.tasks.is_empty() {
            let open = |address: &Address| {
                let socket = listen(address.socket)?;
                let (kind, tls, proxy_protocol) = (address.kind, address.tls.clone(), address.proxy_protocol);
                Ok(Listener { kind, socket, tls, proxy_protocol })
            };
            let listeners = self.addresses.iter().map(open).collect::<io::Result<_>>()?;
            ready();
            self.spawn(listeners).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

fn address(listener: &Listener) -> Option<Address> {
    let socket = listener.socket.local_addr().ok()?;
    let Listener { kind, proxy_protocol, .. } = *listener;
    Some(Address { kind, socket, tls: listener.tls.clone(), proxy_protocol })
}

/// A listener's handling of new connections.
struct Guests {
    seats: Vec<Seat>,
    broker: Arc<Broker>,
    protocols: Protocols,
    population: Arc<Population>,
    descriptors: Arc<Descriptors>,
    sockets: SocketOptions,
    tls: Option<Arc<Tls>>,
    proxy_protocol: bool,
}

/// Shortest time between two log lines about clients that were refused for want of descriptors.
const TELL_EVERY: Duration = Duration::from_secs(10);

async fn accept(listener: std::net::TcpListener, guests: Guests) {
    let Guests { seats, broker, protocols, population, descriptors, sockets, tls, proxy_protocol } = guests;
    let mut told: Option<std::time::Instant> = None;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!("the runtime refused a listener: {error}"),
    };
    loop {
        let (stream, address) = incoming::next(&listener).await;
        match stream.into_std().and_then(|stream| sockets.apply(&stream).map(|()| stream)) {
            Ok(stream) => {
                let member = population.join();
                if let Some(most) = descriptors.refuses_amqp() {
                    if told.is_none_or(|at| at.elapsed() > TELL_EVERY) {
                        told = Some(std::time::Instant::now());
                        warn!(
                            "the connection from {address} is closed: the limit of {} open files leaves {most} \
                             connections, and the rest is kept for the disk and the command line (ulimit -n)",
                            descriptors.limit()
                        );
                    }
                    // A client that reconnects at once must not keep this core from its work.
                    tokio::task::yield_now().await;
                    continue;
                }
                let seat = &seats[choose(&seats)];
                seat.core.load.connected();
                let place = SeatTaken { core: seat.core.clone(), _member: member };
                let foreword = Foreword { proxy_protocol, tls: tls.clone() };
                let (broker, protocols) = (broker.clone(), protocols.clone());
                let guest = Guest { stream, address, place, broker, protocols, foreword };
                // A stopped core accepts no connections, and the node is about to stop.
                let _ = seat.reception.send(Arrival::Client(guest));
            }
            Err(error) => debug!("cannot use the connection from {address}: {error}"),
        }
    }
}

fn choose(seats: &[Seat]) -> usize {
    let now = seats[0].core.clock.monotonic();
    least_loaded(seats.iter().map(|seat| &seat.core.load), now)
}

/// A connection's place on its core, released when dropped.
struct SeatTaken {
    core: Arc<Core>,
    _member: crate::population::Member,
}

impl Drop for SeatTaken {
    fn drop(&mut self) {
        self.core.load.disconnected();
    }
}

async fn serve(guest: Guest) {
    let Guest { stream, address, place, broker, protocols, foreword } = guest;
    let accepted = place.core.clock.now();
    let prepared = stream.local_addr().and_then(|local| Ok((canonical(local), TcpStream::from_std(stream)?)));
    let (local, stream) = match prepared {
        Ok(prepared) => prepared,
        // The peer may be gone again already.
        Err(error) => return debug!("cannot use the connection from {address}: {error}"),
    };
    let mut peer = Peer::new(canonical(address), local);
    let stream = match foreword.is_needed() {
        false => Stream::Plain(stream),
        // Boxed: the task of a connection is as large as its largest await point, and a connection without TLS would
        // pay for it too.
        true => match Box::pin(foreword.take(stream, &mut peer, &broker)).await {
            Some(stream) => stream,
            None => return,
        },
    };
    ConnectionTask::serve(stream, peer, place.core.clone(), &broker, &protocols, accepted).await;
    drop(place);
}

/// An IPv4 peer of an IPv6 socket by its IPv4 address, so that 127.0.0.1 counts as loopback.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_peer_of_a_dual_stack_socket_has_its_ipv4_address() {
        let address: SocketAddr = "[::ffff:127.0.0.1]:5672".parse().expect("an address");
        assert_eq!(canonical(address), "127.0.0.1:5672".parse().expect("an address"));
        assert!(canonical(address).ip().is_loopback());
    }

    #[test]
    fn port_zero_picks_a_free_port_and_a_taken_one_is_refused() {
        let first = listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
        let taken = first.local_addr().expect("bound");
        assert_ne!(taken.port(), 0);
        assert_eq!(listen(taken).expect_err("taken").kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn sockets_get_the_options_that_are_set() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let stream = std::net::TcpStream::connect(listener.local_addr().expect("is bound")).expect("connects");
        let options = SocketOptions {
            no_delay: false,
            keep_alive: true,
            send_buffer: Some(32 << 10),
            receive_buffer: Some(48 << 10),
        };
        options.apply(&stream).expect("are taken");
        let socket = SockRef::from(&stream);
        // Linux reserves twice as much, for its own bookkeeping.
        let sizes = (socket.send_buffer_size().expect("a size"), socket.recv_buffer_size().expect("a size"));
        assert_eq!(sizes, (64 << 10, 96 << 10));
        let (no_delay, keep_alive) = (socket.tcp_nodelay(), socket.keepalive());
        assert_eq!((no_delay.expect("a flag"), keep_alive.expect("a flag")), (false, true));
    }
}
