use std::io;
use std::net::SocketAddr;

use axum::Router;

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
