//! An HTTP connection, from its first to its last byte.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tracing::debug;

use super::progress::{Overdue, Patience, Progress};
use super::watched::{AnswerBody, Answering, RequestBody, Socket};

/// RabbitMQ's response to an incomplete request.
const REQUEST_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The connection of a request, for the code that authenticates the request.
#[derive(Clone)]
pub(crate) struct HttpClient {
    progress: Arc<Progress>,
    is_encrypted: bool,
}

impl HttpClient {
    /// Notes that the client is authenticated, or needn't be.
    pub(crate) fn let_in(&self) {
        self.progress.let_in();
    }

    /// Whether the connection is one of TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

/// State shared by all connections of a listener.
#[derive(Clone)]
pub(super) struct House {
    pub(super) router: Router,
    pub(super) patience: Patience,
    pub(super) max_keepalive: u64,
    pub(super) is_encrypted: bool,
}

/// Passes the requests of one connection to the router.
struct Requests {
    router: TowerToHyperService<Router>,
    /// `None` on the local socket.
    address: Option<SocketAddr>,
    progress: Arc<Progress>,
    max_keepalive: u64,
    is_encrypted: bool,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_last = self.progress.asks(Instant::now()) >= self.max_keepalive;
        let progress = &self.progress;
        let answering = Answering(progress.clone());
        let mut request = request.map(|body| Body::new(RequestBody { body, progress: progress.clone() }));
        if let Some(address) = self.address {
            // The address decides whether loopback users may log in.
            request.extensions_mut().insert(ConnectInfo(address));
        }
        request.extensions_mut().insert(HttpClient { progress: progress.clone(), is_encrypted: self.is_encrypted });
        let answer = self.router.call(request);
        Box::pin(async move {
            let mut response = answer.await?.map(|body| AnswerBody { body, _answering: answering });
            if is_last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

/// Serves requests until the client disconnects or exceeds a timeout.
pub(super) async fn serve<S>(stream: S, address: Option<SocketAddr>, progress: Arc<Progress>, house: House)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let House { router, patience, max_keepalive, is_encrypted } = house;
    let router = TowerToHyperService::new(router);
    let requests = Requests { router, address, progress: progress.clone(), max_keepalive, is_encrypted };
    let socket = TokioIo::new(Socket { stream, progress: progress.clone() });
    // Timeouts are handled below, by state.
    let mut connection = http1::Builder::new().header_read_timeout(None).serve_connection(socket, requests);
    let mut alarm = Box::pin(tokio::time::sleep_until(Instant::now()));
    let overdue: Option<Overdue> = std::future::poll_fn(|context| {
        if let Poll::Ready(done) = Pin::new(&mut connection).poll(context) {
            if let Err(error) = done {
                debug!("a connection of HTTP ended: {error}");
            }
            return Poll::Ready(None);
        }
        // The state only changes in the poll above.
        while let Some((until, why)) = progress.deadline(&patience) {
            if alarm.deadline() != until {
                alarm.as_mut().reset(until);
            }
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if until <= Instant::now() {
                return Poll::Ready(Some(why));
            }
        }
        Poll::Pending
    })
    .await;
    let Some(overdue) = overdue else { return };
    let from = address.map_or("the local socket".to_owned(), |address| address.to_string());
    debug!("a connection of HTTP from {from} is closed: {}", overdue.reason());
    if overdue.is_told() {
        let Socket { mut stream, .. } = connection.into_parts().io.into_inner();
        // Sent only if the client takes it at once: its time is over already.
        let told = async {
            let _ = stream.write_all(REQUEST_TIMEOUT).await;
            let _ = stream.shutdown().await;
        };
        let _ = futures_lite::future::poll_once(std::pin::pin!(told)).await;
    }
}
