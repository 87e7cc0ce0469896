//! `GET /api/watch`: the responses of GET routes as server-sent events, again when they have changed.
//!
//! A response is evaluated for a watcher just as for a request, with the rights of that moment. It is evaluated when the client
//! takes it: while its socket is full nothing is, and afterwards it gets the newest state only. Nothing is kept for watchers but a
//! hash of what each has seen, and nothing happens without one.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method as HttpMethod, StatusCode};
use axum::response::IntoResponse;
use futures_lite::stream;
use serde_json::json;
use tokio::time::Instant;

use crate::api::Api;
use crate::asking::Original;
use crate::call::{Arrival, Call, HandlerResult};
use crate::error::Error;
use crate::event_stream::{EVERY, HEARTBEAT, RETRY, SHARE, end, respond_with, too_many, whole};
use crate::forwarding;
use crate::identity::Requester;
use crate::lookup::{check, matching};
use crate::percent::query_pairs;
use crate::route::Method;
use crate::routes::ROUTES;
use crate::stream::make_way;
use crate::streams_open::StreamPlace;

/// Most paths of one watcher.
const PATHS_MAX: usize = 16;
/// The path of the route itself, which can't be watched.
const OWN: &str = "/api/watch";
/// The beginning of the paths of other streams, which can't either.
const TAPS: &str = "/api/tap/";

/// GET of the responses to the query's paths.
pub(crate) async fn watch(call: Call) -> HandlerResult {
    let pairs = query_pairs(&call.query_text).collect::<Result<Vec<_>, _>>()?;
    let paths = pairs.into_iter().filter(|(key, _)| key == "path").map(|(_, path)| Watched::new(path));
    let watched = paths.collect::<Result<Vec<_>, _>>()?;
    if watched.is_empty() || watched.len() > PATHS_MAX {
        let reason = format!("{} paths: a watcher names 1 to {PATHS_MAX}, each as path=/api/...", watched.len());
        return Err(Error::BadRequest(reason));
    }
    let place = call.api.open_streams().place(call.identity.shared_name()).map_err(too_many)?;
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
    Ok(respond_with(events))
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
        if !path.starts_with("/api/") || path.trim_end_matches('/') == OWN || path.starts_with(TAPS) {
            return Err(Error::BadRequest(format!(
                "{path}: paths below /api/ can be watched, but not {OWN} or {TAPS}"
            )));
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
            match self.identity.renewed(&self.api).await {
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

/// The response to a GET of this path.
async fn respond(api: &Api, identity: &Requester, watched: &Watched) -> HandlerResult {
    let found = matching(ROUTES.iter(), &watched.path)?;
    let (route, words) = found.into_iter().find(|(route, _)| route.method == Method::Get).ok_or(Error::NotFound)?;
    check(route, &words, identity, &api.topology())?;
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
        absent: None,
    };
    forwarding::run(call, route, &Original { method: &HttpMethod::GET, path: &watched.path }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_api_can_be_watched() {
        let watched = Watched::new("/api/queues?page=1&name=a%20b".to_owned()).expect("can be");
        assert_eq!((watched.path.as_str(), watched.query.as_str()), ("/api/queues", "page=1&name=a%20b"));
        assert_eq!(Watched::new("overview".to_owned()).expect("can be").path, "/api/overview");
        for refused in ["/metrics", "/api/watch?path=/api/watch", "/api/watch/", "/api/tap/queues/%2F/q", "watch", "/"]
        {
            assert!(Watched::new(refused.to_owned()).is_err(), "{refused}");
        }
    }
}
