//! The part of an accepted connection before AMQP: the header of a proxy and the TLS handshake. It also handles clients
//! that don't complete one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::category::CONNECTION;
use leveret_broker::{Broker, Encryption, Foreign, Handshake, Peer, Wake};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::warn;

use super::proxy;
use super::stream::Stream;
use crate::tls::Tls;

/// The first byte of a TLS record that begins a handshake (RFC 8446, 5.1).
const HANDSHAKE: u8 = 0x16;
/// Bytes that a handshake counts in the memory of connections that haven't logged in: its session, a record of each
/// side and our certificates.
const HANDSHAKE_BYTES: usize = 16 * 1024;

/// The parts that a listener's clients have to send first.
pub(super) struct Foreword {
    pub(super) proxy_protocol: bool,
    pub(super) tls: Option<Arc<Tls>>,
}

/// Wakes the handshake that has to be dropped.
#[derive(Default)]
struct Rouse(Notify);

impl Wake for Rouse {
    fn wake(&self) {
        self.0.notify_one();
    }
}

impl Foreword {
    /// Whether there is any such part.
    pub(super) fn is_needed(&self) -> bool {
        self.proxy_protocol || self.tls.is_some()
    }

    /// Handles these parts. Returns the stream after them; none if one failed, which is logged.
    pub(super) async fn take(self, stream: TcpStream, peer: &mut Peer, broker: &Arc<Broker>) -> Option<Stream> {
        let rouse = Arc::new(Rouse::default());
        let mut held = broker.handshake(rouse.clone());
        let patience = Duration::from_millis(broker.settings.handshake_timeout_ms);
        let name = peer.connection_name();
        tokio::select! {
            taken = timeout(patience, self.take_in_time(stream, peer, &mut held, broker)) => match taken {
                Ok(stream) => stream,
                Err(_) => {
                    warn!(
                        target: CONNECTION,
                        "closing AMQP connection ({name}): handshake_timeout ({patience:?}) is over before AMQP could begin"
                    );
                    None
                }
            },
            () = rouse.0.notified() => {
                let reason = held.shed().unwrap_or_else(|| "it was to go".into());
                warn!(target: CONNECTION, "closing AMQP connection ({name}) before its TLS handshake was made: {reason}");
                None
            }
        }
    }

    async fn take_in_time(
        self,
        mut stream: TcpStream,
        peer: &mut Peer,
        held: &mut Handshake,
        broker: &Broker,
    ) -> Option<Stream> {
        if self.proxy_protocol {
            match proxy::take(&mut stream).await {
                Ok(route) => {
                    let proxy = peer.address;
                    peer.proxy = Some(proxy);
                    if let Some(route) = route {
                        (peer.address, peer.local) = (route.client, route.destination);
                    }
                }
                Err(error) => {
                    let name = peer.connection_name();
                    warn!(target: CONNECTION, "closing AMQP connection ({name}): {error}");
                    return None;
                }
            }
        }
        let Some(tls) = self.tls else { return Some(Stream::Plain(stream)) };
        let http = broker.http_port.get().copied();
        let reason = match timeout(tls.patience(), shake(stream, &tls, peer, held, http)).await {
            Ok(Ok((stream, encryption))) => {
                peer.encryption = Some(encryption);
                return Some(stream);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("ssl_handshake_timeout ({:?}) is over", tls.patience()),
        };
        warn!(target: CONNECTION, "closing AMQP connection ({}): TLS handshake failed: {reason}", peer.connection_name());
        None
    }
}

async fn shake(
    mut stream: TcpStream,
    tls: &Tls,
    peer: &Peer,
    held: &mut Handshake,
    http: Option<u16>,
) -> io::Result<(Stream, Encryption)> {
    let mut first = [0; 8];
    let seen = stream.peek(&mut first).await?;
    if seen > 0 && first[0] != HANDSHAKE {
        let foreign = Foreign::recognise(&first[..seen]);
        if let Some(foreign) = foreign {
            stream.write_all(&foreign.answer(peer.local.port(), http)).await?;
        }
        let reason = match foreign {
            Some(foreign) => foreign.reason().to_owned(),
            None => format!("the client speaks something else on a port for TLS; it began with {:?}", &first[..seen]),
        };
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    // A client that has sent nothing yet isn't counted: clients that all connect at once wait here.
    held.holds(HANDSHAKE_BYTES);
    let stream = tls.acceptor().accept(stream).await?;
    let encryption = tls.outcome(stream.get_ref().1);
    Ok((Stream::tls(stream), encryption))
}
