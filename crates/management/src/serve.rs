use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, connect_info::Connected};
use axum::middleware::map_request;
use axum::serve::{IncomingStream, Listener};
use leveret_node::{HttpsStream, Tls, TlsListener};

/// Answers requests on the node's local socket until it is dropped.
///
/// # Errors
/// The listener can't be used.
pub async fn serve_local(listener: std::os::unix::net::UnixListener, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    axum::serve(listener, router.into_make_service()).await
}

/// Answers requests on `listener` until it is dropped.
///
/// # Errors
/// The listener can't be used.
pub async fn serve(listener: std::net::TcpListener, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // The address decides whether loopback users may come in.
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await
}

/// The same with TLS.
///
/// # Errors
/// As [`serve`].
pub async fn serve_tls(listener: std::net::TcpListener, tls: Arc<Tls>, router: Router) -> io::Result<()> {
    let listener = Https(TlsListener::start(listener, tls)?);
    let router = router.layer(map_request(tell_address));
    axum::serve(listener, router.into_make_service_with_connect_info::<Client>()).await
}

struct Https(TlsListener);

impl Listener for Https {
    type Io = HttpsStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        self.0.accept().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local_addr())
    }
}

/// Where a client with TLS comes from.
#[derive(Clone)]
struct Client(SocketAddr);

impl Connected<IncomingStream<'_, Https>> for Client {
    fn connect_info(stream: IncomingStream<'_, Https>) -> Self {
        Client(*stream.remote_addr())
    }
}

/// Handlers look for the address in the same place with and without TLS.
async fn tell_address(mut request: Request) -> Request {
    if let Some(ConnectInfo(Client(address))) = request.extensions().get::<ConnectInfo<Client>>().cloned() {
        request.extensions_mut().insert(ConnectInfo(address));
    }
    request
}
