//! A client of the stream protocol on a blocking socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use leveret_stream_protocol::client::{Publishing, ServerCommand, request};
use leveret_stream_protocol::{OffsetSpec, next_frame};

/// A message.
const BODY: [u8; 8 << 10] = [b'm'; 8 << 10];

pub(crate) struct StreamClient {
    socket: TcpStream,
    unread: Vec<u8>,
    correlation: u32,
}

impl StreamClient {
    /// An open connection of this user in the vhost `/` or `v`. Users have their names as passwords.
    pub(crate) fn connect(address: SocketAddr, user: &str, vhost: &str) -> Self {
        let socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
        let mut client = Self { socket, unread: Vec::new(), correlation: 0 };
        let properties = [("product", "test"), ("connection_name", "streamer")];
        client.call(|out, correlation| request::peer_properties(out, correlation, properties));
        let response = format!("\0{user}\0{user}");
        let login = |out: &mut _, correlation| {
            request::sasl_authenticate(out, correlation, "PLAIN", response.as_bytes());
        };
        assert_eq!(client.call(login), 1);
        client.until(|command| matches!(command, ServerCommand::Tune { .. }).then_some(()));
        client.send(|out| request::tune(out, 1 << 20, 60));
        assert_eq!(client.call(|out, correlation| request::open(out, correlation, vhost)), 1);
        client
    }

    /// Its name in listings.
    pub(crate) fn name(&self) -> String {
        let address = |address: std::io::Result<SocketAddr>| address.expect("is connected");
        format!("{} -> {}", address(self.socket.local_addr()), address(self.socket.peer_addr()))
    }

    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.socket.write_all(&out).expect("is sent");
    }

    /// Sends a request, and returns the code of the answer.
    pub(crate) fn call(&mut self, write: impl FnOnce(&mut Vec<u8>, u32)) -> u16 {
        self.correlation += 1;
        let own = self.correlation;
        self.send(|out| write(out, own));
        self.until(|command| match *command {
            ServerCommand::Response { correlation, code, .. }
            | ServerCommand::PeerProperties { correlation, code, .. }
            | ServerCommand::SaslAuthenticated { correlation, code, .. }
            | ServerCommand::Opened { correlation, code, .. }
                if correlation == own =>
            {
                Some(code)
            }
            _ => None,
        })
    }

    /// Reads frames up to the wanted one.
    pub(crate) fn until<R>(&mut self, wanted: impl Fn(&ServerCommand<'_>) -> Option<R>) -> R {
        loop {
            while let Some((frame, length)) = next_frame(&self.unread, 0).expect("a frame") {
                let found = wanted(&ServerCommand::decode(&frame).expect("is well-formed"));
                self.unread.drain(..length);
                if let Some(found) = found {
                    return found;
                }
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).expect("an answer");
            assert!(count > 0, "the broker closed the connection");
            self.unread.extend_from_slice(&buffer[..count]);
        }
    }

    /// Waits until the broker drops the connection.
    pub(crate) fn wait_for_close(mut self) {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).expect("an end");
    }

    /// Creates a stream and a publisher 1 with this reference.
    pub(crate) fn publisher(&mut self, reference: &str, stream: &str) {
        assert_eq!(self.call(|out, correlation| request::create(out, correlation, stream, [])), 1);
        assert_eq!(self.call(|out, correlation| request::declare_publisher(out, correlation, 1, reference, stream)), 1);
    }

    /// Publishes messages with these ids by publisher 1, as one chunk, and waits until they are confirmed. Five of them are so long that
    /// they aren't sent with the next chunk.
    pub(crate) fn publish(&mut self, ids: std::ops::RangeInclusive<u64>) {
        let mut left = ids.clone().count();
        self.send(|out| {
            let mut publishing = Publishing::begin(out, 1, 1);
            ids.for_each(|id| publishing.message(out, id, &[], &BODY));
            publishing.end(out);
        });
        while left > 0 {
            left -= self.until(|command| match command {
                ServerCommand::Confirm { ids, .. } => Some(ids.iter().len()),
                _ => None,
            });
        }
    }

    /// Subscribes from the first message on.
    pub(crate) fn subscribe(&mut self, id: u8, stream: &str, credit: u16, properties: &[(&str, &str)]) {
        let (first, properties) = (OffsetSpec::First, properties.iter().copied());
        let subscribe = |out: &mut _, correlation| {
            request::subscribe(out, correlation, id, stream, first, credit, properties);
        };
        assert_eq!(self.call(subscribe), 1);
    }

    /// Waits for a chunk.
    pub(crate) fn delivered(&mut self) {
        self.until(|command| matches!(command, ServerCommand::Deliver { .. }).then_some(()));
    }

    /// Waits until a subscription becomes active, and begins at the first message.
    pub(crate) fn activate(&mut self) {
        let update = self.until(|command| match *command {
            ServerCommand::ConsumerUpdate { correlation, is_active: true, .. } => Some(correlation),
            _ => None,
        });
        self.send(|out| request::consumer_updated(out, update, 1, OffsetSpec::First));
    }
}
