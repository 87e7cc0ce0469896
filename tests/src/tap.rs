//! A tap between a client and the broker: it forwards bytes, and can inject bytes into the client's connection or
//! hold back the client's bytes. With it, a client that never sends a bad frame or misses a heartbeat can be shown
//! the broker's reaction.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::PATIENCE;

#[derive(Debug, Default)]
struct State {
    /// The broker's side of the latest connection.
    upstream: Option<TcpStream>,
    muted: bool,
}

/// A listening tap. Its threads end with their connections; the listener's thread ends with the process.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    closes: Receiver<()>,
    encrypted: bool,
}

impl Tap {
    /// Listens on a free port and forwards every connection to `broker`.
    ///
    /// # Panics
    /// When no port is free.
    pub fn to(broker: SocketAddr) -> Self {
        Self::new(broker, false)
    }

    /// As [`Tap::to`], for a port with TLS, where nothing can be injected.
    ///
    /// # Panics
    /// As [`Tap::to`].
    pub fn to_tls(broker: SocketAddr) -> Self {
        Self::new(broker, true)
    }

    fn new(broker: SocketAddr, encrypted: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State::default()));
        let (sender, closes) = channel();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if pass(client, broker, &shared, &sender).is_err() {
                    return;
                }
            }
        });
        Self { address, state, closes, encrypted }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Injects `bytes` into the latest connection, as if the client had sent them. The client must be idle.
    ///
    /// # Errors
    /// `NotConnected` without a client, `Unsupported` over TLS, otherwise the socket's.
    pub fn inject(&self, bytes: &[u8]) -> io::Result<()> {
        if self.encrypted {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match &mut self.state.lock().expect("the tap").upstream {
            Some(upstream) => upstream.write_all(bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Holds back all later bytes of the client.
    pub fn mute(&self) {
        self.state.lock().expect("the tap").muted = true;
    }

    /// Waits until the broker has closed a connection; returns false if it doesn't.
    pub fn wait_for_close(&self) -> bool {
        self.closes.recv_timeout(PATIENCE).is_ok()
    }
}

fn pass(client: TcpStream, broker: SocketAddr, state: &Arc<Mutex<State>>, closes: &Sender<()>) -> io::Result<()> {
    let upstream = match TcpStream::connect(broker) {
        Ok(upstream) => upstream,
        // The broker is down: the client's connection is closed, and the client may reconnect.
        Err(_) => return client.shutdown(Shutdown::Both),
    };
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    state.lock().expect("the tap").upstream = Some(upstream.try_clone()?);

    let (mut from_client, to_upstream) = (client.try_clone()?, upstream.try_clone()?);
    let shared = Arc::clone(state);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer) {
            let shared = shared.lock().expect("the tap");
            if !shared.muted && (&to_upstream).write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        if !shared.lock().expect("the tap").muted {
            let _ = to_upstream.shutdown(Shutdown::Write);
        }
    });

    let (mut from_upstream, mut to_client, closes) = (upstream, client, closes.clone());
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_upstream.read(&mut buffer) {
            if to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = closes.send(());
    });
    Ok(())
}
