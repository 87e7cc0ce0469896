//! Listeners for HTTP: who may connect, for how long, and what is answered.

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

pub(crate) use connection::Client;

use admission::{Admission, Place};
use connection::House;
use progress::{Patience, Progress};

/// Clients that were turned away are told in the log at most this often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Limits of a listener: times, numbers, and the descriptors that HTTP may have.
pub struct HttpListener {
    /// The prefix of its keys, such as `management.tcp`.
    pub prefix: &'static str,
    /// The limits that its keys set.
    pub limits: HttpLimits,
    /// The node's descriptors; none if they aren't shared out.
    pub descriptors: Option<Arc<Descriptors>>,
}

impl Default for HttpListener {
    fn default() -> Self {
        Self { prefix: "management.tcp", limits: HttpLimits::default(), descriptors: None }
    }
}

/// Answers requests on the node's local socket until it is dropped. Whoever may open it may do everything: there is no limit.
///
/// # Errors
/// The listener can't be used.
pub async fn serve_local(listener: std::os::unix::net::UnixListener, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    axum::serve(listener, router.into_make_service()).await
}

/// Answers requests on `socket` until it is dropped.
///
/// # Errors
/// The socket can't be used.
pub async fn serve(socket: std::net::TcpListener, router: Router, listener: HttpListener) -> io::Result<()> {
    accept(socket, None, router, listener).await
}

/// The same with TLS.
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
    let house = House { router, patience: Patience::from(&limits), max_keepalive: limits.max_keepalive };
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
        // Connections that were closed for others end now, before we run out of descriptors.
        tokio::task::yield_now().await;
    }
}

/// A handshake holds up nobody but its own client.
async fn welcome(stream: TcpStream, address: SocketAddr, place: Place, tls: Option<Arc<Tls>>, house: House) {
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

/// Says why, to whoever listens; what it has sent is thrown away.
fn turn_away(stream: &TcpStream, reason: &str) {
    let body = serde_json::json!({"error": "too_many_connections", "reason": reason}).to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let _ = stream.try_write(answer.as_bytes());
    // Unread bytes would have the system take the answer back.
    let _ = stream.try_read(&mut [0; 4096]);
}

/// How many were turned away since the log was told.
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

/// Browsers take an answer for what it says it is, and nothing else.
async fn forbid_sniffing(mut response: Response) -> Response {
    response.headers_mut().entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    response
}
