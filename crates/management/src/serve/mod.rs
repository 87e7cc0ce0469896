//! HTTP listeners: admission, timeouts and responses.

mod admission;
mod connection;
mod progress;
mod watched;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::middleware::map_response;
use axum::response::Response;
use leveret_config::HttpLimits;
use leveret_node::{Descriptors, Tls, next_connection};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::warn;

pub(crate) use connection::HttpClient;

use admission::{Admission, ConnectionSlot};
use connection::House;
use progress::{Patience, Progress};

/// Least interval between log lines about refused clients.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Limits of a listener: timeouts, numbers of connections, and descriptors for HTTP.
pub struct HttpListener {
    /// The prefix of its configuration keys, such as `management.tcp`.
    pub prefix: &'static str,
    /// The limits set by these keys.
    pub limits: HttpLimits,
    /// The node's pool of descriptors; `None` if it isn't limited.
    pub descriptors: Option<Arc<Descriptors>>,
}

impl Default for HttpListener {
    fn default() -> Self {
        Self { prefix: "management.tcp", limits: HttpLimits::default(), descriptors: None }
    }
}

/// Serves requests on the node's local socket until dropped. A client that may open it may do everything: there are
/// no limits.
///
/// # Errors
/// The listener can't be used.
pub async fn serve_local(listener: std::os::unix::net::UnixListener, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    axum::serve(listener, router.into_make_service()).await
}

/// Serves requests on `socket` until dropped.
///
/// # Errors
/// The socket can't be used.
pub async fn serve(socket: std::net::TcpListener, router: Router, listener: HttpListener) -> io::Result<()> {
    accept(socket, None, router, listener).await
}

/// As [`serve`], with TLS.
///
/// # Errors
/// As [`serve`].
pub async fn serve_tls(
    socket: std::net::TcpListener,
    tls: Arc<Tls>,
    router: Router,
    listener: HttpListener,
) -> io::Result<()> {
    accept(socket, Some(tls), router.layer(map_response(forbid_sniffing)), listener).await
}

async fn accept(
    socket: std::net::TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    listener: HttpListener,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let HttpListener { prefix, limits, descriptors } = listener;
    let admission = Admission::new(prefix, &limits, descriptors);
    let house = House {
        router,
        patience: Patience::from(&limits),
        max_keepalive: limits.max_keepalive,
        is_encrypted: tls.is_some(),
    };
    let mut turned_away = TurnedAway { prefix, told: None, count: 0 };
    loop {
        let (stream, address) = next_connection(&socket).await;
        match admission.admit(address.ip().to_canonical(), Instant::now()) {
            Ok(place) => drop(tokio::spawn(welcome(stream, address, place, tls.clone(), house.clone()))),
            Err(reason) => {
                turned_away.tell(&reason);
                if tls.is_none() {
                    turn_away(&stream, &reason);
                }
                drop(stream);
            }
        }
        // Lets displaced connections end now, before we run out of descriptors.
        tokio::task::yield_now().await;
    }
}

/// Performs the handshake in a task of its own, so that it only delays its own client.
async fn welcome(stream: TcpStream, address: SocketAddr, place: ConnectionSlot, tls: Option<Arc<Tls>>, house: House) {
    let progress: Arc<Progress> = place.progress.clone();
    let served = async {
        match tls {
            None => connection::serve(stream, Some(address), progress, house).await,
            Some(tls) => {
                if let Some(stream) = tls.handshake(stream, address).await {
                    progress.is_ready(Instant::now());
                    connection::serve(stream, Some(address), progress, house).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = place.is_lost() => {}
    }
}

/// Tells a refused client the reason, if it listens; the bytes that it has sent are discarded.
fn turn_away(stream: &TcpStream, reason: &str) {
    let body = serde_json::json!({"error": "too_many_connections", "reason": reason}).to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let _ = stream.try_write(answer.as_bytes());
    // Unread bytes would make the system discard the response.
    let _ = stream.try_read(&mut [0; 4096]);
}

/// Number of refused clients since the last log line.
struct TurnedAway {
    prefix: &'static str,
    told: Option<Instant>,
    count: u64,
}

impl TurnedAway {
    fn tell(&mut self, reason: &str) {
        self.count += 1;
        if self.told.is_none_or(|told| told.elapsed() > TELL_EVERY) {
            warn!("{} connections to the listener of {} were turned away: {reason}", self.count, self.prefix);
            self.told = Some(Instant::now());
            self.count = 0;
        }
    }
}

/// Makes browsers trust the response's content type.
async fn forbid_sniffing(mut response: Response) -> Response {
    response.headers_mut().entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    response
}
