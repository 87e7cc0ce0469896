//! `/api/connections` and `/api/channels`. Nothing is stored for these responses: connections are asked, a few at a
//! time.

mod ask;
mod list;
mod view;

use std::collections::HashSet;
use std::sync::Arc;

use leveret_broker::Now;
use leveret_broker::queue_handle::Status;
use leveret_broker::views::{Client, ConnectionView};
use serde_json::{Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content};
use crate::columns::Columns;
use crate::error::Error;
use crate::history::{Ranges, Subject};
pub(crate) use ask::{BATCH, ask, ask_briefly};
use list::Level;
pub(crate) use view::{STREAM, connection};

const NOT_AUTHORISED: &str = "User not authorised to access object";
/// The reason sent to clients if the request gives none.
const CLOSED: &str = "Closed via management plugin";

/// GET: the user's own connections; monitors see all.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let seen = seen(&call);
    list::answer(&call, Level::Connections, seen).await
}

/// GET: connections in one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    let mut seen = seen(&call);
    seen.retain(|client| *client.vhost == *call.word(0));
    list::answer(&call, Level::Connections, seen).await
}

/// GET: connections of one user, in brief.
pub(crate) async fn of_user(call: Call) -> HandlerResult {
    let clients = call.api.broker().clients();
    let own = clients.iter().filter(|client| *client.user == *call.word(0));
    let shown = own.map(
        |client| json!({"name": client.name, "node": call.api.name(), "user": client.user, "vhost": client.vhost}),
    );
    crate::list::values(&call.query, shown.collect())
}

/// The answer with these connections.
pub(crate) async fn list_of(call: &Call, clients: Vec<Arc<Client>>) -> HandlerResult {
    list::answer(call, Level::Connections, clients).await
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    show(&call, find(&call)?).await
}

/// The answer with one connection.
pub(crate) async fn show(call: &Call, client: Arc<Client>) -> HandlerResult {
    let view = ask(&call.api, &[client]).await.pop().ok_or(Error::NotFound)?;
    let ranges = Ranges::of(&call.query);
    json(Columns::of(&call.query).pick(view::connection_with_past(&call.api, &view, ranges.as_ref())))
}

/// GET of a connection's channels.
pub(crate) async fn channels_of(call: Call) -> HandlerResult {
    let client = find(&call)?;
    list::answer(&call, Level::Channels, vec![client]).await
}

/// GET of a connection's sessions (AMQP 1.0).
pub(crate) async fn sessions_of(call: Call) -> HandlerResult {
    let view = ask_one(&call).await?;
    json(view::sessions(&call.api, &view))
}

/// DELETE: closes a connection, with the reason in the header `X-Reason`.
pub(crate) async fn close(call: Call) -> HandlerResult {
    let client = call.api.broker().client(call.word(0)).ok_or(Error::NotFound)?;
    close_one(&call, &client)
}

/// Closes a connection, which only its user and administrators may.
pub(crate) fn close_one(call: &Call, client: &Client) -> HandlerResult {
    if !call.identity.is_administrator() && *client.user != *call.identity.name() {
        return Err(Error::Forbidden(NOT_AUTHORISED.to_owned()));
    }
    match call.api.broker().close(client.id, reason(call)) {
        true => no_content(),
        false => Err(Error::NotFound),
    }
}

/// DELETE of all connections of a user.
pub(crate) async fn close_of_user(call: Call) -> HandlerResult {
    call.api.close_where(reason(&call), |client| *client.user == *call.word(0));
    no_content()
}

/// GET: the channels of the user's own connections; monitors see all.
pub(crate) async fn channels(call: Call) -> HandlerResult {
    let seen = seen(&call);
    list::answer(&call, Level::Channels, seen).await
}

/// GET: channels in one vhost.
pub(crate) async fn channels_of_vhost(call: Call) -> HandlerResult {
    let mut seen = seen(&call);
    seen.retain(|client| *client.vhost == *call.word(0));
    list::answer(&call, Level::Channels, seen).await
}

/// GET of one channel: `connection (number)`.
pub(crate) async fn channel(call: Call) -> HandlerResult {
    let (connection, number) = call.word(0).rsplit_once(" (").ok_or(Error::NotFound)?;
    let number: u16 = number.trim_end_matches(')').parse().map_err(|_| Error::NotFound)?;
    let client = call.api.broker().client(connection).ok_or(Error::NotFound)?;
    check_own(&call, &client)?;
    let views = ask(&call.api, std::slice::from_ref(&client)).await;
    let view = views.first().ok_or(Error::NotFound)?;
    let channel = view.channels.iter().find(|channel| channel.number == number).ok_or(Error::NotFound)?;
    let mut body = view::channel_with_past(&call.api, view, channel, Ranges::of(&call.query).as_ref());
    body["consumer_details"] = Value::Array(consumers_of(&call, call.word(0)));
    body["publishes"] = json!([]);
    body["deliveries"] = json!([]);
    json(Columns::of(&call.query).pick(body))
}

/// Takes samples of the counters of connections and channels with a history, and removes the histories of closed
/// ones.
pub(crate) async fn sample(api: &Api, watched: &[Subject], now: Now) {
    let names: HashSet<&Arc<str>> = watched
        .iter()
        .filter_map(|subject| match subject {
            Subject::Connection(name) | Subject::Channel(name, _) => Some(name),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return;
    }
    let clients: Vec<_> = api.broker().clients().into_iter().filter(|client| names.contains(&client.name)).collect();
    let views = ask(api, &clients).await;
    let mut open = HashSet::new();
    for view in &views {
        let subject = Subject::Connection(view.client.name.clone());
        api.histories().add(subject.clone(), &view::connection(api, view), now);
        open.insert(subject);
        for channel in &view.channels {
            let subject = Subject::Channel(view.client.name.clone(), channel.number);
            api.histories().add(subject.clone(), &view::channel(api, view, channel), now);
            open.insert(subject);
        }
    }
    let gone = |subject: &Subject| matches!(subject, Subject::Connection(_) | Subject::Channel(..));
    api.histories().forget(|subject| gone(subject) && !open.contains(subject));
}

fn consumers_of(call: &Call, channel: &str) -> Vec<Value> {
    let snapshot = call.api.broker().registry.snapshot_full();
    let now = call.api.node().clock().now();
    let queues = snapshot.queues.values().filter(|queue| queue.gauges().consumers > 0);
    let shown = queues.flat_map(|queue| {
        let consumers = queue.look(Status).map(|status| status.consumers).unwrap_or_default();
        let own = consumers.into_iter().filter(|consumer| *consumer.channel == *channel);
        own.map(|consumer| crate::queues::consumer_view(&call.api, queue, &consumer, now)).collect::<Vec<_>>()
    });
    shown.collect()
}

fn reason(call: &Call) -> &str {
    let given = call.headers.get("x-reason").and_then(|reason| reason.to_str().ok());
    given.filter(|reason| !reason.is_empty()).unwrap_or(CLOSED)
}

/// The open connections that the user sees: monitors see all, others their own.
pub(crate) fn seen(call: &Call) -> Vec<Arc<Client>> {
    let mut clients = call.api.broker().clients();
    if !call.identity.monitors() {
        clients.retain(|client| *client.user == *call.identity.name());
    }
    clients
}

/// Checks that the user may see a connection.
///
/// # Errors
/// It is another user's, and this one is no monitor.
pub(crate) fn check_own(call: &Call, client: &Client) -> Result<(), Error> {
    match call.identity.monitors() || *client.user == *call.identity.name() {
        true => Ok(()),
        false => Err(Error::Forbidden(NOT_AUTHORISED.to_owned())),
    }
}

fn find(call: &Call) -> Result<Arc<Client>, Error> {
    let client = call.api.broker().client(call.word(0)).ok_or(Error::NotFound)?;
    check_own(call, &client)?;
    Ok(client)
}

async fn ask_one(call: &Call) -> Result<ConnectionView, Error> {
    let client = find(call)?;
    ask(&call.api, &[client]).await.pop().ok_or(Error::NotFound)
}
