use std::io;
use std::net::SocketAddr;

use axum::Router;

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
