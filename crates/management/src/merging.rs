//! Lists of objects that each member of the cluster has its own of: every member is asked for its rows, and this node merges them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use crate::list::Page;
use crate::members::OtherMember;
use crate::merged_pages::{self, Windows};
use crate::merged_rows::{self, MemberRows, MergedRow};
use crate::part::{ListPart, PART};
use crate::percent::encoded_pairs;
use crate::query::{Query, given};
use crate::route::{Method, Route};

/// Longest time for the rows of another member.
const WITHIN: Duration = Duration::from_secs(1);
/// Time for a later question, when an earlier one took most of that.
const WITHIN_LEAST: Duration = Duration::from_millis(200);
/// Rows before a page's end from which on members are first asked for samples of their keys.
const SAMPLED_FROM: usize = 500;

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

/// The query for all rows of one member.
fn of_one(query: &Query, sort: Option<&str>) -> Query {
    let mut query = query.clone();
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
    // Only members ask each other for parts.
    call.query.remove(PART);
    let page = Page::of(&call.query)?;
    let others = call.api.other_members();
    // Rows of a whole list are sent as they are made, and those of several nodes can't be.
    let is_long = || call.api.broker().registry.snapshot().queues.len() > WHOLE_ROWS_MAX;
    if others.is_empty() || (page.is_none() && is_long()) {
        let mut own = (route.run)(call).await?;
        let names: Vec<&str> = others.iter().map(OtherMember::name).collect();
        name_missing(&mut own, &names);
        return Ok(own);
    }
    let sort = given(&call.query, "sort").map(str::to_owned);
    let is_reversed = call.asks("sort_reverse") && sort.is_some();
    let mut members = Members::new(call, route, original, others);
    match page {
        Some(page) => {
            // Without an order, pages of several nodes would have none. Queues of one node have theirs by vhost and name.
            let usual =
                if route.path.ends_with("queues") || route.path.starts_with("/api/queues") { "vhost" } else { "name" };
            page_of_all(members, &page, sort.as_deref().unwrap_or(usual), is_reversed).await
        }
        None => {
            // The order of one node's queues.
            let order = sort.as_deref().unwrap_or("vhost");
            let columns = Columns::of(&members.call.query);
            let mut rows = match members.whole(&of_one(&members.call.query, sort.as_deref()), order).await {
                Ok(rows) => rows,
                Err(failed) => return failed.answer(),
            };
            merged_rows::sort(&mut rows, is_reversed);
            let mut response = match columns.are_all() {
                true => json_text(merged_rows::list(rows.iter())),
                false => json(rows.iter().map(|row| columns.pick(row.value())).collect::<Value>())?,
            };
            name_missing(&mut response, &members.missing_names());
            Ok(response)
        }
    }
}

fn json_text(text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A page of the rows of all members. They are asked for keys first, and for the rows of the page when it is known which these are.
/// When a member is lost in between, the others are asked again.
async fn page_of_all(mut members: Members<'_>, page: &Page, sort: &str, is_reversed: bool) -> HandlerResult {
    let mut query = members.call.query.clone();
    for key in ["page", "page_size"] {
        query.remove(key);
    }
    query.insert("sort".to_owned(), sort.to_owned());
    members.call.query = query;
    let mut rest = members.asked.len();
    let found = loop {
        match try_page(&mut members, page, is_reversed).await {
            Ok(found) => break found,
            Err(Failed::Lost) if rest > 0 => rest -= 1,
            Err(failed) => return failed.answer(),
        }
    };
    let mut body = page.wrap(found.total, found.filtered, Vec::new());
    body["item_count"] = json!(found.rows.len());
    let missing = members.missing_names();
    if !missing.is_empty() {
        body["missing_nodes"] = json!(missing);
    }
    if let Value::Object(body) = &mut body {
        body.remove("items");
    }
    let mut text = serde_json::to_vec(&body).unwrap_or_default();
    text.pop();
    text.extend_from_slice(b",\"items\":");
    text.extend_from_slice(&merged_rows::list(found.rows.iter()));
    text.push(b'}');
    let mut response = json_text(text);
    name_missing(&mut response, &missing);
    Ok(response)
}

/// The rows of a page.
struct Found {
    rows: Vec<MergedRow>,
    total: usize,
    filtered: usize,
}

async fn try_page(members: &mut Members<'_>, page: &Page, is_reversed: bool) -> Result<Found, Failed> {
    let (wanted, count) = (page.wanted(), members.asked.len());
    let mut windows = Windows { ranges: vec![0..wanted.end; count], skipped: 0 };
    let counted = |parts: &[MemberRows]| {
        let sum = |of: fn(&MemberRows) -> u64| parts.iter().map(of).sum::<u64>() as usize;
        let (total, filtered) = (sum(|part| part.total), sum(|part| part.filtered));
        page.check(filtered).map_err(Failed::Error).map(|()| (total, filtered))
    };
    let mut counts = None;
    if wanted.end > SAMPLED_FROM {
        let step = merged_pages::step(wanted.end);
        let samples = members.parts(&vec![ListPart::keys(0..wanted.end, step); count], "key").await?;
        counts = Some(counted(&samples)?);
        windows = merged_pages::windows(&samples, step, &wanted, is_reversed);
    }
    let asked: Vec<ListPart> = windows.ranges.iter().map(|range| ListPart::keys(range.clone(), 1)).collect();
    let keys = members.parts(&asked, "key").await?;
    // Members whose windows are empty aren't asked again.
    let (total, filtered) = match counts {
        Some(counts) => counts,
        None => counted(&keys)?,
    };
    let places = merged_pages::places(keys, &windows, &wanted, is_reversed);
    let asked: Vec<ListPart> = merged_pages::ranges(&places, count).into_iter().map(ListPart::rows).collect();
    let parts = members.parts(&asked, "").await?;
    Ok(Found { rows: merged_pages::rows(&places, parts), total, filtered })
}

/// The reason why rows weren't found.
enum Failed {
    /// A member doesn't answer any more; it is among the missing ones now.
    Lost,
    /// This node's own answer.
    Own(ForwardedResponse),
    Error(Error),
}

impl Failed {
    fn answer(self) -> HandlerResult {
        match self {
            Failed::Own(own) => Ok(answered(&own)),
            Failed::Error(error) => Err(error),
            Failed::Lost => Err(Error::Unavailable("other nodes can't be asked".to_owned())),
        }
    }
}

/// The members of the cluster that are asked for a list.
struct Members<'a> {
    call: Call,
    route: &'a Route,
    original: &'a Original<'a>,
    /// Members that are asked, in the order of their names. This node is `None`.
    asked: Vec<Option<Arc<Member>>>,
    missing: Vec<Arc<Member>>,
    until: Instant,
}

impl<'a> Members<'a> {
    fn new(mut call: Call, route: &'a Route, original: &'a Original<'a>, others: Vec<OtherMember>) -> Self {
        call.arrival = Arrival { is_forwarded: true, ..call.arrival };
        let (running, missing): (Vec<_>, Vec<_>) = others.into_iter().partition(OtherMember::is_running);
        let name = call.api.name().to_owned();
        let mut asked: Vec<_> =
            std::iter::once(None).chain(running.into_iter().map(|other| Some(other.member))).collect();
        let name_of =
            |member: &Option<Arc<Member>>| member.as_ref().map_or(name.clone(), |member| member.name.to_string());
        // Rows with equal keys and no names are in the same order whichever node is asked.
        asked.sort_by_cached_key(name_of);
        let missing = missing.into_iter().map(|other| other.member).collect();
        Members { call, route, original, asked, missing, until: Instant::now() + WITHIN }
    }

    fn missing_names(&self) -> Vec<&str> {
        self.missing.iter().map(|member| &*member.name).collect()
    }

    fn target(&self, query: &Query) -> String {
        match encoded_pairs(query) {
            text if text.is_empty() => self.original.path.to_owned(),
            text => format!("{}?{text}", self.original.path),
        }
    }

    /// Asks other members, each with its query. The number of a member is its place among those that are asked.
    fn ask_others<'q>(
        &self,
        queries: impl Iterator<Item = (usize, &'q Query)>,
        order: &str,
    ) -> JoinSet<(usize, Option<MemberRows>)> {
        let within = self.until.saturating_duration_since(Instant::now()).max(WITHIN_LEAST);
        let order: Arc<str> = order.into();
        let mut asked = JoinSet::new();
        for (at, query) in queries {
            let Some(member) = self.asked[at].clone() else { continue };
            let request = request(&self.call, self.original.method, self.target(query));
            let (api, order) = (self.call.api.clone(), order.clone());
            asked.spawn(async move {
                let response = ask(&api, request, &member, within).await;
                (at, response.ok().as_ref().and_then(|response| MemberRows::of(response, &order)))
            });
        }
        asked
    }

    /// This node's rows, and those of objects of missing members as far as it has them.
    async fn own(&self, query: &Query, order: &str) -> Result<MemberRows, Failed> {
        let call = Call { query: query.clone(), ..self.call.clone() };
        let own = own_rows(call, self.route, &self.missing).await.map_err(Failed::Error)?;
        MemberRows::of(&own, order).ok_or(Failed::Own(own))
    }

    /// A part of the list of each member; of those that are asked for nothing there are no rows.
    ///
    /// # Errors
    /// One of them doesn't answer.
    async fn parts(&mut self, parts: &[ListPart], order: &str) -> Result<Vec<MemberRows>, Failed> {
        let queries: Vec<Query> = parts.iter().map(|part| part.added_to(&self.call.query)).collect();
        let wanted = || (0..parts.len()).filter(|at| parts[*at].len() > 0);
        let mut asked = self.ask_others(wanted().map(|at| (at, &queries[at])), order);
        // The others work while this node does.
        tokio::task::yield_now().await;
        let mut found: Vec<MemberRows> = parts.iter().map(|_| MemberRows::default()).collect();
        if let Some(own) = wanted().find(|at| self.asked[*at].is_none()) {
            found[own] = self.own(&queries[own], order).await?;
        }
        let mut lost = Vec::new();
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((at, Some(part))) => found[at] = part,
                Ok((at, None)) => lost.push(at),
                Err(_) => return Err(Failed::Lost),
            }
        }
        if lost.is_empty() {
            return Ok(found);
        }
        self.lose(lost);
        Err(Failed::Lost)
    }

    fn lose(&mut self, mut lost: Vec<usize>) {
        lost.sort_unstable();
        for at in lost.into_iter().rev() {
            self.missing.extend(self.asked.remove(at));
        }
    }

    /// All rows of all members, in no order.
    async fn whole(&mut self, query: &Query, order: &str) -> Result<Vec<MergedRow>, Failed> {
        let mut asked = self.ask_others((0..self.asked.len()).map(|at| (at, query)), order);
        tokio::task::yield_now().await;
        let mut own = self.own(query, order).await?;
        let (mut parts, mut lost) = (Vec::new(), Vec::new());
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((_, Some(part))) => parts.push(part),
                Ok((at, None)) => lost.push(at),
                Err(_) => {}
            }
        }
        // Rows of those that didn't answer are shown as far as this node has them.
        if !lost.is_empty() {
            self.lose(lost);
            own = self.own(query, order).await?;
        }
        own.leave_out(&parts);
        parts.push(own);
        Ok(parts.into_iter().flat_map(|part| part.rows).collect())
    }
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
        let query: Query = [("columns".to_owned(), "state".to_owned())].into();
        assert_eq!(of_one(&query, Some("messages"))["columns"], "state,name,vhost,messages");
        assert_eq!(of_one(&Query::new(), None), Query::new());
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
