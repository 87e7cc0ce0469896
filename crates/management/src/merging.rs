//! Lists of objects that each member of the cluster has its own of: every member is asked for its rows, and this node merges them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use leveret_model::Member;
use leveret_node::ForwardedResponse;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::asking::{Original, answered, ask, gather, request};
use crate::call::{Arrival, Call, HandlerResult, json};
use crate::columns::Columns;
use crate::error::Error;
use crate::list::{MERGED_ROWS_MAX, Page};
use crate::members::OtherMember;
use crate::merged_rows::{self, MemberRows, MergedRow};
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

impl MemberRows {
    /// Leaves out rows of objects that others have, too: a queue got a leader while they were asked.
    pub(crate) fn leave_out(&mut self, others: &[MemberRows]) {
        let known: HashSet<_> = others.iter().flat_map(|part| &part.rows).filter_map(MergedRow::object).collect();
        let before = self.rows.len();
        self.rows.retain(|row| row.object().is_none_or(|object| !known.contains(&object)));
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
    // The order of one node's queues.
    let order: Arc<str> = sort.as_deref().unwrap_or("vhost").into();
    let mut asked = JoinSet::new();
    let mut missing: Vec<Arc<Member>> = Vec::new();
    for other in others {
        if !other.is_running() {
            missing.push(other.member);
            continue;
        }
        let (api, request, order) = (call.api.clone(), request(&call, original.method, target.clone()), order.clone());
        asked.spawn(async move {
            let response = ask(&api, request, &other.member, WITHIN).await;
            (other.member, response.ok().as_ref().and_then(|response| MemberRows::of(response, &order)))
        });
    }
    // The others work while this node does.
    tokio::task::yield_now().await;
    let reverse = call.asks("sort_reverse") && sort.is_some();
    call.query = query;
    call.arrival = Arrival { is_forwarded: true, ..call.arrival };
    let known_missing = missing.len();
    let own = own_rows(call.clone(), route, &missing).await?;
    let mut parts = Vec::new();
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok((_, Some(part))) => parts.push(part),
            Ok((member, None)) => missing.push(member),
            Err(_) => {}
        }
    }
    // Rows of those that didn't answer are shown as far as this node has them.
    let own = if missing.len() > known_missing { own_rows(call, route, &missing).await? } else { own };
    match MemberRows::of(&own, &order) {
        Some(mut own) => {
            own.leave_out(&parts);
            parts.push(own);
        }
        None => return Ok(answered(&own)),
    }
    let (total, filtered) = parts
        .iter()
        .fold((0, 0), |(total, filtered), part| (total + part.total as usize, filtered + part.filtered as usize));
    let mut rows: Vec<MergedRow> = parts.into_iter().flat_map(|part| part.rows).collect();
    merged_rows::sort(&mut rows, reverse);
    let missing: Vec<&str> = missing.iter().map(|member| &*member.name).collect();
    let rows = match &page {
        Some(page) => page.take(rows)?,
        None => rows,
    };
    let picked = |rows: &[MergedRow]| rows.iter().map(|row| columns.pick(row.value())).collect::<Vec<_>>();
    let mut response = match page {
        Some(page) => {
            let mut body = page.wrap(total, filtered, picked(&rows));
            if !missing.is_empty() {
                body["missing_nodes"] = json!(missing);
            }
            json(body)?
        }
        None if columns.are_all() => {
            ([(header::CONTENT_TYPE, "application/json")], merged_rows::list(&rows)).into_response()
        }
        None => json(Value::Array(picked(&rows)))?,
    };
    name_missing(&mut response, &missing);
    Ok(response)
}

/// The response with this node's rows, and with those of objects of absent members as far as it has them.
async fn own_rows(call: Call, route: &Route, absent: &[Arc<Member>]) -> Result<ForwardedResponse, Error> {
    let absent = Some(absent.iter().map(|member| member.number).collect());
    gather((route.run)(Call { absent, ..call }).await?).await
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
        let part = |rows: Vec<Value>| {
            let body = serde_json::to_vec(&rows).expect("JSON").into();
            MemberRows::of(&ForwardedResponse { status: 200, headers: Vec::new(), body }, "name").expect("a list")
        };
        let row = |name: &str| json!({"name": name, "vhost": "/"});
        let mut own = part(vec![row("a"), row("b"), row("c"), json!({"consumer_tag": "b"})]);
        own.leave_out(&[part(vec![row("b")]), part(vec![row("d")])]);
        let names: Vec<_> = own.rows.iter().map(|row| row.object().map(|(_, name)| name)).collect();
        assert_eq!((names, own.total, own.filtered), (vec![Some("a"), Some("c"), None], 3, 3));
    }
}
