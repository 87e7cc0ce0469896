//! `GET /api/watch`: the responses of GET routes as server-sent events, again when they have changed.
//!
//! A response is evaluated for a watcher just as for a request, with the rights of that moment. It is evaluated when the client
//! takes it: while its socket is full nothing is, and afterwards it gets the newest state only. Nothing is kept for watchers but a
//! hash of what each has seen, and nothing happens without one.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_lite::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;

use crate::api::Api;
use crate::call::{Arrival, Call, HandlerResult};
use crate::error::Error;
use crate::identity::Requester;
use crate::lookup::{check, matching};
use crate::percent::query_pairs;
use crate::route::Method;
use crate::routes::ROUTES;
use crate::stream::make_way;
use crate::streams_open::{ALL_MAX, OF_USER_MAX, StreamPlace};

/// Most paths of one watcher.
const PATHS_MAX: usize = 16;
/// Largest response; longer lists have pages and columns.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Time between two looks ...
const EVERY: Duration = Duration::from_secs(1);
/// ... which is longer if a look takes over a tenth of it: a watcher gets this share of the thread at most.
const SHARE: u32 = 10;
/// Longest time without a byte.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time after which a browser connects again, in milliseconds.
const RETRY: &str = "retry: 2000\n\n";

/// The path of the route itself, which can't be watched.
const OWN: &str = "/api/watch";

/// GET of the responses to the query's paths.
pub(crate) async fn watch(call: Call) -> HandlerResult {
    let pairs = query_pairs(&call.query_text).collect::<Result<Vec<_>, _>>()?;
    let paths = pairs.into_iter().filter(|(key, _)| key == "path").map(|(_, path)| Watched::new(path));
    let watched = paths.collect::<Result<Vec<_>, _>>()?;
    if watched.is_empty() || watched.len() > PATHS_MAX {
        let reason = format!("{} paths: a watcher names 1 to {PATHS_MAX}, each as path=/api/...", watched.len());
        return Err(Error::BadRequest(reason));
    }
    let place = call.api.open_streams().place(call.identity.shared_name()).ok_or_else(|| {
        Error::Unavailable(format!("{OF_USER_MAX} streams of a user or {ALL_MAX} of the node are open already"))
    })?;
    let watcher = Watcher {
        api: call.api,
        identity: call.identity,
        watched,
        hasher: RandomState::new(),
        next: 0,
        began: None,
        spent: Duration::ZERO,
        sent: Instant::now(),
        is_over: false,
        _place: place,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.event().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), watcher))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// One path.
struct Watched {
    /// As the client gave it.
    given: String,
    path: String,
    query: String,
    /// The hash of the last response.
    seen: Option<u64>,
    /// Whether it isn't looked at any more.
    is_given_up: bool,
}

impl Watched {
    fn new(given: String) -> Result<Self, Error> {
        let whole = if given.starts_with('/') { given.clone() } else { format!("/api/{given}") };
        let (path, query) = whole.split_once('?').unwrap_or((&whole, ""));
        if !path.starts_with("/api/") || path.trim_end_matches('/') == OWN {
            return Err(Error::BadRequest(format!("{path}: paths below /api/ can be watched, but not {OWN}")));
        }
        Ok(Watched { path: path.to_owned(), query: query.to_owned(), given, seen: None, is_given_up: false })
    }
}

struct Watcher {
    api: Api,
    identity: Requester,
    watched: Vec<Watched>,
    hasher: RandomState,
    /// The path that is looked at next.
    next: usize,
    /// The beginning of this round; `None` before the first.
    began: Option<Instant>,
    /// Time that was spent on looking in this round.
    spent: Duration,
    /// The time of the last byte.
    sent: Instant,
    is_over: bool,
    _place: StreamPlace,
}

impl Watcher {
    /// The next event; `None` at the end.
    async fn event(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        if self.began.is_none() {
            self.began = Some(Instant::now());
            return Some(RETRY.to_owned());
        }
        loop {
            while self.next < self.watched.len() {
                let at = self.next;
                self.next += 1;
                if let Some(event) = self.look(at).await {
                    self.sent = Instant::now();
                    return Some(event);
                }
            }
            self.pause().await;
            match self.identity.renewed(&self.api) {
                Ok(identity) => self.identity = identity,
                Err(error) => {
                    self.is_over = true;
                    return Some(end(error).await);
                }
            }
            if self.sent.elapsed() >= HEARTBEAT {
                self.sent = Instant::now();
                return Some(":\n\n".to_owned());
            }
        }
    }

    /// Waits for the next round.
    async fn pause(&mut self) {
        let now = Instant::now();
        let began = self.began.replace(now).unwrap_or(now);
        let next = (began + EVERY).max(now + self.spent * (SHARE - 1));
        tokio::time::sleep_until(next.min(now + HEARTBEAT)).await;
        (self.next, self.spent, self.began) = (0, Duration::ZERO, Some(Instant::now()));
    }

    /// The event of a path whose response has changed.
    async fn look(&mut self, at: usize) -> Option<String> {
        let watched = &self.watched[at];
        if watched.is_given_up {
            return None;
        }
        make_way();
        let looked = Instant::now();
        let response = respond(&self.api, &self.identity, watched).await.unwrap_or_else(Error::into_response);
        let (status, body) = whole(response).await;
        self.spent += looked.elapsed();
        // Other requests come between.
        tokio::task::yield_now().await;
        let watched = &mut self.watched[at];
        watched.is_given_up = status == StatusCode::PAYLOAD_TOO_LARGE;
        let hash = self.hasher.hash_one((status.as_u16(), &body));
        if watched.seen.replace(hash) == Some(hash) {
            return None;
        }
        Some(format!("data: {{\"path\":{},\"status\":{},\"body\":{body}}}\n\n", json!(watched.given), status.as_u16()))
    }
}

/// The last event.
async fn end(error: Error) -> String {
    let (status, body) = whole(error.into_response()).await;
    let mut data: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    data["status"] = json!(status.as_u16());
    format!("event: end\ndata: {data}\n\n")
}

/// The response to a GET of this path.
async fn respond(api: &Api, identity: &Requester, watched: &Watched) -> HandlerResult {
    let found = matching(ROUTES.iter(), &watched.path)?;
    let (route, words) = found.into_iter().find(|(route, _)| route.method == Method::Get).ok_or(Error::NotFound)?;
    check(route, &words, identity, &api.broker().registry.staged_topology())?;
    let query = query_pairs(&watched.query).collect::<Result<_, _>>()?;
    let call = Call {
        api: api.clone(),
        identity: identity.clone(),
        path: words,
        query,
        query_text: watched.query.clone(),
        arrival: Arrival::default(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
    };
    (route.run)(call).await
}

/// Status and body of a response; the body is JSON on one line.
async fn whole(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let mut pieces = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.unwrap_or_default();
        if body.len() + piece.len() > BODY_BYTES_MAX {
            let reason = format!("the answer has over {BODY_BYTES_MAX} bytes: ask for a page, and for columns");
            return (StatusCode::PAYLOAD_TOO_LARGE, json!({"error": "too_large", "reason": reason}).to_string());
        }
        body.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    match is_json && !text.contains(['\n', '\r']) {
        true => (status, text),
        false if text.is_empty() => (status, "null".to_owned()),
        false => (status, json!(text).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_api_can_be_watched() {
        let watched = Watched::new("/api/queues?page=1&name=a%20b".to_owned()).expect("can be");
        assert_eq!((watched.path.as_str(), watched.query.as_str()), ("/api/queues", "page=1&name=a%20b"));
        assert_eq!(Watched::new("overview".to_owned()).expect("can be").path, "/api/overview");
        for refused in ["/metrics", "/api/watch?path=/api/watch", "/api/watch/", "watch", "/"] {
            assert!(Watched::new(refused.to_owned()).is_err(), "{refused}");
        }
    }
}
