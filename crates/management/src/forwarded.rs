//! Requests that other members of the cluster have forwarded to this one.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use leveret_model::Identity;
use leveret_node::{ForwardedIdentity, ForwardedRequest, ForwardedResponse};

use crate::api::Api;
use crate::asking::gather;
use crate::call::{Arrival, Call};
use crate::command_line::LOCAL_ROUTES;
use crate::error::Error;
use crate::identity::Requester;
use crate::lookup::{check, matching};
use crate::percent::query_pairs;
use crate::route::Route;
use crate::routes::ROUTES;

/// Longest time for gathering a response: one that goes on for ever isn't forwarded.
const GATHER_WITHIN: Duration = Duration::from_secs(50);

/// The routes of a kind of listener.
pub(crate) fn routes(is_local: bool) -> impl Iterator<Item = &'static Route> {
    let more = if is_local { LOCAL_ROUTES } else { &[] };
    ROUTES.iter().chain(more)
}

/// Answers a request that another member has forwarded.
pub async fn answer_forwarded(api: Api, request: ForwardedRequest) -> ForwardedResponse {
    let answered = answer(api, request).await.unwrap_or_else(Error::into_response);
    let gathered = tokio::time::timeout(GATHER_WITHIN, gather(answered)).await;
    let late =
        || Error::Unavailable("a response that goes on isn't forwarded: ask that node at its own address".to_owned());
    match gathered.unwrap_or_else(|_| Err(late())) {
        Ok(response) => response,
        Err(error) => match gather(error.into_response()).await {
            Ok(response) => response,
            Err(_) => ForwardedResponse { status: 500, headers: Vec::new(), body: Bytes::new() },
        },
    }
}

fn requester(api: &Api, identity: &ForwardedIdentity) -> Result<Requester, Error> {
    let who = match identity {
        ForwardedIdentity::Machine => return Ok(Requester::local_administrator()),
        ForwardedIdentity::User(name) => Identity::of_model(name.clone()),
        ForwardedIdentity::Encoded(bytes) => Identity::decode(bytes).ok_or(Error::WrongPassword)?,
    };
    Requester::vouched_for(api, who)
}

async fn answer(api: Api, request: ForwardedRequest) -> Result<Response, Error> {
    let ForwardedRequest { identity, method, target, headers, body } = request;
    let uri: Uri = target.parse().map_err(|_| Error::BadRequest("the target isn't one".to_owned()))?;
    let is_local = identity == ForwardedIdentity::Machine;
    let mut found = matching(routes(is_local), uri.path())?;
    let asked = if method == "HEAD" { "GET" } else { &method };
    let at = found.iter().position(|(route, _)| route.method.name() == asked).ok_or(Error::NotFound)?;
    let (route, path) = found.swap_remove(at);
    let admit = || {
        let requester = requester(&api, &identity)?;
        check(route, &path, &requester, &api.topology()).map(|()| requester)
    };
    let identity = match admit() {
        Err(error) if error.may_be_behind() && api.catches_up().await => admit()?,
        other => other?,
    };
    let query_text = uri.query().unwrap_or("").to_owned();
    let query = query_pairs(&query_text).collect::<Result<_, _>>()?;
    let pair =
        |(name, value): (String, String)| Some((HeaderName::try_from(name).ok()?, HeaderValue::from_str(&value).ok()?));
    let headers = headers.into_iter().filter_map(pair).collect();
    let arrival = Arrival { is_forwarded: true, ..Arrival::default() };
    let call = Call { api: api.clone(), identity, path, query, query_text, arrival, headers, body, absent: None };
    // The node that forwarded it may have followed the declaration of the queue before this one.
    match (route.run)(call.clone()).await {
        Err(error) if error.may_be_behind() && api.catches_up().await => (route.run)(call).await,
        other => other,
    }
}
