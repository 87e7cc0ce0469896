//! Lists of objects that each member of the cluster has its own of: every member is asked for its rows, and this node merges them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use leveret_model::Member;
use leveret_node::ForwardedResponse;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::asking::{Original, ask, gather, request};
use crate::call::{Arrival, Call, HandlerResult, json};
use crate::columns::Columns;
use crate::list::{Key, MERGED_ROWS_MAX, Page};
use crate::members::OtherMember;
use crate::percent::encoded_pairs;
use crate::query::{Query, given};
use crate::route::{Method, Route};

/// Longest time for the rows of another member.
const WITHIN: Duration = Duration::from_secs(1);

/// Queues of the cluster from which on lists that aren't pages have the rows of the asked node, and no figures of others.
const WHOLE_ROWS_MAX: usize = 20_000;

/// The header with the members whose rows are missing, for lists that have no other place for them.
const MISSING_HEADER: HeaderName = HeaderName::from_static("leveret-missing-nodes");

/// Lists of which each member has its own rows.
const LISTS: [&str; 10] = [
    "/api/queues",
    "/api/queues/detailed",
    "/api/queues/{vhost}",
    "/api/users/{user}/queues",
    "/api/connections",
    "/api/vhosts/{vhost}/connections",
    "/api/channels",
    "/api/vhosts/{vhost}/channels",
    "/api/consumers",
    "/api/consumers/{vhost}",
];

/// Whether a route is such a list.
pub(crate) fn is_list(route: &Route) -> bool {
    route.method == Method::Get && LISTS.contains(&route.path)
}

/// The rows of one member.
struct Part {
    rows: Vec<Value>,
    total: u64,
    filtered: u64,
}

impl Part {
    /// The rows in a response. `None` if it is none.
    fn of(response: &ForwardedResponse) -> Option<Part> {
        if response.status != 200 {
            return None;
        }
        match serde_json::from_slice(&response.body).ok()? {
            Value::Array(rows) => {
                let count = rows.len() as u64;
                Some(Part { rows, total: count, filtered: count })
            }
            Value::Object(mut page) => {
                let number = |key: &str| page.get(key).and_then(Value::as_u64);
                let (total, filtered) = (number("total_count")?, number("filtered_count")?);
                let Some(Value::Array(rows)) = page.remove("items") else { return None };
                Some(Part { rows, total, filtered })
            }
            _ => None,
        }
    }
}

impl Part {
    /// Leaves out rows of objects that others have, too: a queue got a leader while they were asked.
    fn leave_out(&mut self, others: &[Part]) {
        fn key(row: &Value) -> Option<(&str, &str)> {
            Some((row["vhost"].as_str()?, row["name"].as_str()?))
        }
        let known: BTreeSet<_> = others.iter().flat_map(|part| &part.rows).filter_map(key).collect();
        let before = self.rows.len();
        self.rows.retain(|row| key(row).is_none_or(|key| !known.contains(&key)));
        let left_out = (before - self.rows.len()) as u64;
        (self.total, self.filtered) = (self.total - left_out, self.filtered - left_out);
    }
}

/// The columns by which rows with equal keys are sorted.
const TIES: [&str; 2] = ["name", "vhost"];

/// The query for the rows of one member: those that may be among the first `wanted` of all.
fn of_one(query: &Query, wanted: Option<usize>, sort: Option<&str>) -> Query {
    let mut query = query.clone();
    if let Some(wanted) = wanted {
        query.insert("page".to_owned(), "1".to_owned());
        query.insert("page_size".to_owned(), wanted.to_string());
        query.insert("merged".to_owned(), "true".to_owned());
    }
    if let Some(sort) = sort {
        query.insert("sort".to_owned(), sort.to_owned());
    }
    if let Some(columns) = query.get_mut("columns").filter(|columns| !columns.is_empty()) {
        for column in TIES.iter().copied().chain(sort) {
            columns.push(',');
            columns.push_str(column);
        }
    }
    query
}

/// Puts rows into the order of a column.
fn sort_by(rows: Vec<Value>, path: &str, reverse: bool) -> Vec<Value> {
    let mut keyed: Vec<(Key, Value)> = rows.into_iter().map(|row| (Key::of(&row, path), row)).collect();
    let ties = |one: &Value, other: &Value| -> Ordering {
        let key = |row: &Value| TIES.map(|column| row[column].as_str().unwrap_or_default().to_owned());
        key(one).cmp(&key(other))
    };
    keyed.sort_by(|(key, row), (other, other_row)| {
        let order = if reverse { other.order(key) } else { key.order(other) };
        order.then_with(|| ties(row, other_row))
    });
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// Asks every member, and answers with the rows of all.
pub(crate) async fn of_all(mut call: Call, route: &Route, original: &Original<'_>) -> HandlerResult {
    let page = Page::of(&call.query)?;
    let others = call.api.other_members();
    let wanted = page.as_ref().map(Page::end);
    // Rows of a whole list are sent as they are made, and those of several nodes can't be.
    let is_long = || call.api.broker().registry.snapshot().queues.len() > WHOLE_ROWS_MAX;
    if others.is_empty() || wanted.map_or_else(is_long, |wanted| wanted > MERGED_ROWS_MAX) {
        let mut own = (route.run)(call).await?;
        let names: Vec<&str> = others.iter().map(OtherMember::name).collect();
        name_missing(&mut own, &names);
        return Ok(own);
    }
    // Without an order, pages of several nodes would have none.
    let sort = given(&call.query, "sort").or(page.is_some().then_some("name")).map(str::to_owned);
    let (query, columns) = (of_one(&call.query, wanted, sort.as_deref()), Columns::of(&call.query));
    let target = match encoded_pairs(&query) {
        text if text.is_empty() => original.path.to_owned(),
        text => format!("{}?{text}", original.path),
    };
    let mut asked = JoinSet::new();
    let mut missing: Vec<Arc<Member>> = Vec::new();
    for other in others {
        if !other.is_running() {
            missing.push(other.member);
            continue;
        }
        let (api, request) = (call.api.clone(), request(&call, original.method, target.clone()));
        asked.spawn(async move {
            let response = ask(&api, request, &other.member, WITHIN).await;
            (other.member, response.ok().as_ref().and_then(Part::of))
        });
    }
    let mut parts = Vec::new();
    while let Some(answered) = asked.join_next().await {
        match answered {
            Ok((_, Some(part))) => parts.push(part),
            Ok((member, None)) => missing.push(member),
            Err(_) => {}
        }
    }
    let reverse = call.asks("sort_reverse");
    call.query = query;
    call.arrival = Arrival { is_forwarded: true, ..call.arrival };
    call.absent = Some(missing.iter().map(|member| member.number).collect());
    let own = (route.run)(call).await?;
    if own.status() != axum::http::StatusCode::OK {
        return Ok(own);
    }
    let own = gather(own).await?;
    if let Some(mut own) = Part::of(&own) {
        own.leave_out(&parts);
        parts.push(own);
    }
    let (total, filtered) = parts
        .iter()
        .fold((0, 0), |(total, filtered), part| (total + part.total as usize, filtered + part.filtered as usize));
    let rows: Vec<Value> = parts.into_iter().flat_map(|part| part.rows).collect();
    let rows = match &sort {
        Some(sort) => sort_by(rows, sort, reverse),
        // The order of one node's queues.
        None => sort_by(rows, "vhost", false),
    };
    let missing: Vec<&str> = missing.iter().map(|member| &*member.name).collect();
    let rows = match &page {
        Some(page) => page.take(rows)?,
        None => rows,
    };
    let rows: Vec<Value> = rows.into_iter().map(|row| columns.pick(row)).collect();
    let mut response = match page {
        Some(page) => {
            let mut body = page.wrap(total, filtered, rows);
            if !missing.is_empty() {
                body["missing_nodes"] = json!(missing);
            }
            json(body)?
        }
        None => json(Value::Array(rows))?,
    };
    name_missing(&mut response, &missing);
    Ok(response)
}

/// Names the members whose rows are missing.
fn name_missing(response: &mut Response, names: &[&str]) {
    if let Ok(value) = HeaderValue::from_str(&names.join(","))
        && !names.is_empty()
    {
        response.headers_mut().insert(MISSING_HEADER, value);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::*;

    #[test]
    fn a_member_is_asked_for_rows_with_the_columns_of_their_order() {
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let query: Query = [("page", "3"), ("page_size", "10"), ("columns", "state")].map(pair).into();
        let asked = of_one(&query, Some(30), Some("messages"));
        assert_eq!((asked["page"].as_str(), asked["page_size"].as_str()), ("1", "30"));
        assert_eq!((asked["columns"].as_str(), asked["sort"].as_str()), ("state,name,vhost,messages", "messages"));
        assert_eq!(of_one(&Query::new(), None, None), Query::new());
    }

    #[test]
    fn a_row_that_another_member_has_is_left_out() {
        let part = |names: &[&str]| {
            let rows: Vec<Value> = names.iter().map(|name| json!({"vhost": "/", "name": name})).collect();
            let count = rows.len() as u64;
            Part { rows, total: count, filtered: count }
        };
        let mut own = part(&["a", "b", "c"]);
        own.rows.push(json!({"consumer_tag": "b"}));
        own.leave_out(&[part(&["b"]), part(&["d"])]);
        let names: Vec<_> = own.rows.iter().map(|row| row["name"].as_str()).collect();
        assert_eq!((names, own.total, own.filtered), (vec![Some("a"), Some("c"), None], 2, 2));
    }

    #[test]
    fn rows_are_merged_by_their_keys_then_their_names() {
        let row = |name: &str, messages: u64| json!({"name": name, "messages": messages});
        let rows = vec![row("b", 1), row("c", 2), row("a", 1)];
        let names = |reverse| -> Vec<String> {
            let sorted = sort_by(rows.clone(), "messages", reverse);
            sorted.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(
            (names(false), names(true)),
            (vec!["a".into(), "b".into(), "c".into()], vec!["c".into(), "a".into(), "b".into()])
        );
    }

    #[test]
    fn responses_are_lists_or_pages() {
        let part = |status, body: &'static str| {
            Part::of(&ForwardedResponse { status, headers: Vec::new(), body: Bytes::from_static(body.as_bytes()) })
        };
        let page = part(200, r#"{"total_count": 9, "filtered_count": 5, "items": [{}, {}]}"#).expect("a page");
        assert_eq!((page.total, page.filtered, page.rows.len()), (9, 5, 2));
        assert_eq!(part(200, "[{}]").expect("a list").total, 1);
        assert!(part(503, "[]").is_none() && part(200, "{}").is_none() && part(200, "no").is_none());
    }
}
