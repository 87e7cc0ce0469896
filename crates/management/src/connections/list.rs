//! Lists of connections and channels, which are asked in batches, so that a list never holds the states of all of
//! them.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::IntoResponse;
use futures_lite::stream;
use leveret_broker::views::{ChannelView, Client, ConnectionView};
use serde_json::Value;

use super::ask::BATCH;
use super::{ask, view};
use crate::api::Api;
use crate::call::{Call, HandlerResult, json};
use crate::columns::{Cell, Columns};
use crate::history::Ranges;
use crate::list::{Filter, Key, Page};
use crate::row::Shown;
use crate::row_filter::RowFilter;

/// The kind of rows in a list.
#[derive(Clone, Copy)]
pub(super) enum Level {
    Connections,
    Channels,
}

impl Level {
    /// The rows of one connection.
    fn rows(self, api: &Api, view: &ConnectionView, ranges: Option<&Ranges>) -> Vec<Value> {
        let channels = view.channels.iter();
        match self {
            Level::Connections => vec![view::connection_with_past(api, view, ranges)],
            Level::Channels => channels.map(|channel| view::channel_with_past(api, view, channel, ranges)).collect(),
        }
    }
}

impl Level {
    /// The rows of one connection with these columns; no others are made.
    fn columns(self, api: &Api, view: &ConnectionView, ranges: Option<&Ranges>, columns: &Columns) -> Vec<Value> {
        match self {
            Level::Connections => {
                let cell = |column: &str| known_cell(api, &view.client, column);
                vec![columns.of_row(cell, || view::connection_with_past(api, view, ranges))]
            }
            Level::Channels => {
                let row = |channel: &ChannelView| {
                    let cell = |column: &str| view::channel_cell(api, view, channel, column);
                    columns.of_row(cell, || view::channel_with_past(api, view, channel, ranges))
                };
                view.channels.iter().map(row).collect()
            }
        }
    }
}

/// The rows of these connections, according to the query.
pub(super) async fn answer(call: &Call, level: Level, clients: Vec<Arc<Client>>) -> HandlerResult {
    let page = Page::of(&call.query)?;
    let ranges = Ranges::of(&call.query);
    let columns = Columns::of(&call.query);
    let sort = call.query.get("sort").filter(|path| !path.is_empty());
    let wanted = RowFilter::of(&call.query)?;
    let is_known = columns.are_among(KNOWN) && sort.is_none_or(|path| known_key(path).is_some());
    if matches!(level, Level::Connections) && is_known && wanted.is_none() {
        return known(call, page, clients, sort, &columns);
    }
    if page.is_none() && sort.is_none() && wanted.is_none() {
        return Ok(streamed(call.api.clone(), level, clients, columns, ranges));
    }
    let (mut keys, total) = keys(call, level, &clients, sort, wanted.as_ref(), page.is_some()).await;
    if sort.is_some() {
        let reverse = call.asks("sort_reverse");
        keys.sort_by(|a, b| if reverse { b.key.order(&a.key) } else { a.key.order(&b.key) });
    }
    let filtered = keys.len();
    let shown = match &page {
        Some(page) => page.take(keys)?,
        None => keys,
    };
    if let Some(page) = page.as_ref().filter(|page| page.is_of_keys()) {
        let keys = shown.iter().map(|kept| kept.key.row(("", "")));
        return json(page.wrap(total, filtered, keys.collect()));
    }
    let items = rows(&call.api, level, &clients, shown, ranges.as_ref()).await;
    let items = items.into_iter().map(|row| columns.pick(row)).collect();
    match page {
        Some(page) => json(page.wrap(total, filtered, items)),
        None => json(Value::Array(items)),
    }
}

/// Columns of connections that are known without a question to them.
const KNOWN: &[&str] = &["name", "node", "user", "user_who_performed_action", "vhost", "protocol", "type"];

fn known_cell(api: &Api, client: &Client, column: &str) -> Cell {
    match column {
        "name" => (&*client.name).into(),
        "node" => api.name().into(),
        "user" | "user_who_performed_action" => (&*client.user).into(),
        "vhost" => (&*client.vhost).into(),
        "protocol" => client.protocol.name.into(),
        "type" => "network".into(),
        _ => Cell::Costly,
    }
}

/// The rows of a list with such columns only: no connection is asked.
fn known(
    call: &Call,
    page: Option<Page>,
    mut clients: Vec<Arc<Client>>,
    sort: Option<&String>,
    columns: &Columns,
) -> HandlerResult {
    let total = clients.len();
    if page.is_some() {
        let filter = Filter::of(&call.query);
        clients.retain(|client| filter.matches(&client.name));
    }
    if let Some(key) = sort.and_then(|path| known_key(path)) {
        let reverse = call.asks("sort_reverse");
        clients.sort_by(|a, b| if reverse { key(b).order(&key(a)) } else { key(a).order(&key(b)) });
    }
    let filtered = clients.len();
    let shown = match &page {
        Some(page) => page.take(clients)?,
        None => clients,
    };
    if let Some(page) = page.as_ref().filter(|page| page.is_of_keys())
        && let Some(key) = sort.and_then(|path| known_key(path))
    {
        let keys = shown.iter().map(|client| key(client).row(("", "")));
        return json(page.wrap(total, filtered, keys.collect()));
    }
    // The list above never asks for a whole row.
    let row = |client: &Arc<Client>| columns.of_row(|column| known_cell(&call.api, client, column), || Value::Null);
    let items: Vec<Value> = shown.iter().map(row).collect();
    match page {
        Some(page) => json(page.wrap(total, filtered, items)),
        None => json(Value::Array(items)),
    }
}

/// The part of a row that is kept until it is known which rows are displayed.
struct Kept {
    client: usize,
    name: String,
    key: Key,
}

type KnownKey = fn(&Client) -> Key;

/// The sort key of connections that is known without a question to them.
fn known_key(path: &str) -> Option<KnownKey> {
    match path {
        "name" => Some(|client| Key::Shared(client.name.clone())),
        "user" | "user_who_performed_action" => Some(|client| Key::Shared(client.user.clone())),
        "vhost" => Some(|client| Key::Shared(client.vhost.clone())),
        "protocol" => Some(|client| Key::Word(client.protocol.name)),
        _ => None,
    }
}

type AskedKey = fn(&ConnectionView) -> Key;

/// The sort key of connections that a brief answer holds: a whole row would cost ten times as much to make.
fn asked_key(path: &str) -> Option<AskedKey> {
    let key: AskedKey = match path {
        "recv_oct" => |view| Key::Number(view.totals.bytes_in as f64),
        "send_oct" => |view| Key::Number(view.totals.bytes_out as f64),
        "recv_oct_details.rate" => |view| Key::Number(view.octet_rates[0]),
        "send_oct_details.rate" => |view| Key::Number(view.octet_rates[1]),
        "channels" => |view| Key::Number(view.channel_count() as f64),
        "queued_bytes" | "send_pend" => |view| Key::Number(view.queued_bytes as f64),
        "timeout" => |view| Key::Number(view.timeout_s as f64),
        "connected_at" => |view| Key::Number(view.connected as f64),
        "peer_port" => |view| Key::Number(f64::from(view.peer.address.port())),
        "peer_host" => |view| Key::Text(view.peer.address.ip().to_string()),
        "state" => |view| Key::Word(view.status.state.name()),
        "auth_mechanism" => |view| Key::Shared(view.mechanism.clone()),
        _ => return None,
    };
    Some(key)
}

async fn keys(
    call: &Call,
    level: Level,
    clients: &[Arc<Client>],
    sort: Option<&String>,
    wanted: Option<&RowFilter>,
    is_paged: bool,
) -> (Vec<Kept>, usize) {
    let filter = if is_paged { Filter::of(&call.query) } else { Filter::All };
    let none = || Key::Number(0.0);
    // Without a question to each connection, if that is possible.
    let known: Option<KnownKey> = sort.map_or(Some(|_| Key::Number(0.0)), |path| known_key(path));
    if let (Level::Connections, Some(key), None) = (level, known, wanted) {
        let named = clients.iter().enumerate().filter(|(_, client)| filter.matches(&client.name));
        let kept = named.map(|(at, client)| Kept { client: at, name: client.name.to_string(), key: key(client) });
        return (kept.collect(), clients.len());
    }
    if let (Level::Connections, Some(key), None) = (level, sort.and_then(|path| asked_key(path)), wanted) {
        let named = clients.iter().enumerate().filter(|(_, client)| filter.matches(&client.name));
        let (places, named): (Vec<usize>, Vec<Arc<Client>>) = named.map(|(at, client)| (at, client.clone())).unzip();
        let mut kept = Vec::with_capacity(named.len());
        for (asked, places) in named.chunks(BATCH).zip(places.chunks(BATCH)) {
            let places: HashMap<_, _> = asked.iter().map(|client| client.id).zip(places).collect();
            let views = ask::ask_briefly(&call.api, asked).await;
            kept.extend(views.into_iter().map(|view| Kept {
                client: *places[&view.client.id],
                name: view.client.name.to_string(),
                key: key(&view),
            }));
        }
        return (kept, clients.len());
    }
    let (mut kept, mut total) = (Vec::new(), 0);
    for (batch, asked) in clients.chunks(BATCH).enumerate() {
        let places: HashMap<_, _> = asked.iter().enumerate().map(|(at, client)| (client.id, at)).collect();
        for view in ask::ask(&call.api, asked).await {
            for row in level.rows(&call.api, &view, None) {
                total += 1;
                let name = row["name"].as_str().unwrap_or("").to_owned();
                let row = Shown::Value(row);
                if filter.matches(&name) && wanted.is_none_or(|wanted| wanted.matches(&name, &row)) {
                    let key = sort.map_or_else(none, |path| Key::of(&row.into_value(), path));
                    kept.push(Kept { client: batch * BATCH + places[&view.client.id], name, key });
                }
            }
        }
    }
    (kept, total)
}

/// The displayed rows, in order; those that are gone by now are omitted.
async fn rows(
    api: &Api,
    level: Level,
    clients: &[Arc<Client>],
    shown: Vec<Kept>,
    ranges: Option<&Ranges>,
) -> Vec<Value> {
    let mut wanted: Vec<usize> = shown.iter().map(|kept| kept.client).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let names: HashSet<&str> = shown.iter().map(|kept| kept.name.as_str()).collect();
    let wanted: Vec<Arc<Client>> = wanted.into_iter().map(|at| clients[at].clone()).collect();
    let mut found: HashMap<String, Value> = HashMap::new();
    for asked in wanted.chunks(BATCH) {
        for view in ask::ask(api, asked).await {
            for row in level.rows(api, &view, ranges) {
                if let Some(name) = row["name"].as_str().filter(|name| names.contains(name)) {
                    found.insert(name.to_owned(), row);
                }
            }
        }
    }
    shown.iter().filter_map(|kept| found.remove(&kept.name)).collect()
}

fn streamed(
    api: Api,
    level: Level,
    clients: Vec<Arc<Client>>,
    columns: Columns,
    ranges: Option<Ranges>,
) -> axum::response::Response {
    struct Progress {
        api: Api,
        clients: Vec<Arc<Client>>,
        at: usize,
        any: bool,
        closed: bool,
        columns: Columns,
    }
    let progress = Progress { api, clients, at: 0, any: false, closed: false, columns };
    let pieces = stream::unfold(progress, move |mut progress| async move {
        if progress.closed {
            return None;
        }
        let mut piece = if progress.at == 0 { vec![b'['] } else { Vec::new() };
        let end = (progress.at + BATCH).min(progress.clients.len());
        for view in ask::ask(&progress.api, &progress.clients[progress.at..end]).await {
            for row in level.columns(&progress.api, &view, ranges.as_ref(), &progress.columns) {
                if std::mem::replace(&mut progress.any, true) {
                    piece.push(b',');
                }
                serde_json::to_writer(&mut piece, &row).expect("a value has a JSON form");
            }
        }
        progress.at = end;
        if end == progress.clients.len() {
            piece.push(b']');
            progress.closed = true;
        }
        Some((Ok::<_, Infallible>(Bytes::from(piece)), progress))
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(pieces)).into_response()
}
