//! Lists of queues, whole or by pages.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use leveret_broker::queue_handle::QueueRef;
use regex::Regex;
use serde_json::{Value, json};

use super::view;
use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;

/// The page size when none is asked for, and the most that may be.
const PAGE_SIZE_DEFAULT: usize = 100;
const PAGE_SIZE_MAX: usize = 500;

/// The queues of all vhosts that the user sees.
pub(crate) async fn list(
    identity: Identity,
    State(api): State<Api>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Error> {
    let topology = api.topology();
    let vhosts = topology.vhosts().filter(|vhost| identity.sees(&topology, vhost));
    let vhosts: Vec<String> = vhosts.map(|vhost| vhost.to_string()).collect();
    answer(&api, &vhosts, &query)
}

/// The queues of one vhost.
pub(crate) async fn list_of_vhost(
    identity: Identity,
    State(api): State<Api>,
    Path(vhost): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Error> {
    identity.check_sees(&api.topology(), &vhost)?;
    answer(&api, &[vhost], &query)
}

fn answer(api: &Api, vhosts: &[String], query: &HashMap<String, String>) -> Result<Json<Value>, Error> {
    if let Some(key) = ["sort", "sort_reverse"].into_iter().find(|key| query.contains_key(*key)) {
        return Err(Error::NotImplemented(format!("the parameter '{key}' of lists is not built yet")));
    }
    let snapshot = api.broker().registry.snapshot_full();
    let infos = vhosts.iter().flat_map(|vhost| snapshot.topology.queues(vhost));
    let queues: Vec<&QueueRef> = infos.filter_map(|info| snapshot.queues.get(&info.id)).collect();
    let total = queues.len();
    let filter = Filter::of(query)?;
    let queues: Vec<&QueueRef> = queues.into_iter().filter(|queue| filter.matches(&queue.info().name)).collect();
    let shown = |queues: &[&QueueRef]| -> Vec<Value> {
        queues.iter().map(|queue| columns(view::listed(api, queue), query)).collect()
    };
    let Some(page) = number(query, "page")? else {
        return Ok(Json(json!(shown(&queues))));
    };
    let size = number(query, "page_size")?.unwrap_or(PAGE_SIZE_DEFAULT);
    if page == 0 || size == 0 || size > PAGE_SIZE_MAX {
        return Err(Error::BadRequest(format!("page starts at 1, page_size is from 1 to {PAGE_SIZE_MAX}")));
    }
    let page_count = queues.len().div_ceil(size).max(1);
    if page > page_count {
        return Err(Error::BadRequest(format!("page out of range, page: {page} page size: {size}")));
    }
    let items = shown(queues.chunks(size).nth(page - 1).unwrap_or(&[]));
    Ok(Json(json!({
        "total_count": total,
        "filtered_count": queues.len(),
        "item_count": items.len(),
        "page": page,
        "page_size": size,
        "page_count": page_count,
        "items": items,
    })))
}

/// Only the columns that were asked for, if any were.
fn columns(mut queue: Value, query: &HashMap<String, String>) -> Value {
    if let (Some(asked), Some(object)) = (query.get("columns"), queue.as_object_mut()) {
        object.retain(|key, _| asked.split(',').any(|column| column == key));
    }
    queue
}

fn number(query: &HashMap<String, String>, key: &str) -> Result<Option<usize>, Error> {
    let parse = |text: &String| text.parse().map_err(|_| Error::BadRequest(format!("'{key}' is no number: '{text}'")));
    query.get(key).map(parse).transpose()
}

/// Which names a list shows.
enum Filter {
    All,
    Part(String),
    Pattern(Regex),
}

impl Filter {
    fn of(query: &HashMap<String, String>) -> Result<Self, Error> {
        let Some(name) = query.get("name").filter(|name| !name.is_empty()) else { return Ok(Filter::All) };
        if query.get("use_regex").is_some_and(|value| value == "true") {
            let pattern = regex::RegexBuilder::new(name).size_limit(1 << 18).build();
            return pattern.map(Filter::Pattern).map_err(|error| Error::BadRequest(format!("name: {error}")));
        }
        Ok(Filter::Part(name.to_lowercase()))
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Part(part) => name.to_lowercase().contains(part),
            Filter::Pattern(pattern) => pattern.is_match(name),
        }
    }
}
