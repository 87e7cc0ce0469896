//! Query parameters of lists: pages, names, sorting, columns.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use axum::http::StatusCode;
use leveret_model::RegularExpression;
use serde_json::{Value, json};

use crate::call::{HandlerResult, json};
use crate::columns::{Cell, Columns};
use crate::error::Error;
use crate::part::ListPart;
use crate::query::{Query, given};
use crate::row::Shown;
use crate::row_filter::RowFilter;
use crate::stream::{self, make_way};

/// Default size of a page.
const PAGE_SIZE_DEFAULT: usize = 100;
const PAGE_SIZE_MAX: usize = 500;
/// Rows processed before the thread yields: a tenth of a millisecond.
const ROWS_AT_A_STRETCH: usize = 1024;

/// A sort key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    Number(f64),
    Text(String),
    /// A text that isn't copied.
    Shared(Arc<str>),
    Word(&'static str),
}

impl Key {
    /// The sort key in a displayed row; a missing column counts as 0, as in RabbitMQ.
    pub(crate) fn of(row: &Value, path: &str) -> Self {
        let found = path.split('.').try_fold(row, |value, step| value.get(step));
        match found {
            Some(Value::Number(number)) => Key::Number(number.as_f64().unwrap_or(0.0)),
            Some(Value::String(text)) => Key::Text(text.clone()),
            Some(Value::Bool(flag)) => Key::Text(flag.to_string()),
            Some(other @ (Value::Array(_) | Value::Object(_))) => Key::Text(other.to_string()),
            Some(Value::Null) | None => Key::Number(0.0),
        }
    }

    /// The key as a row for another member that merges lists, with the row's [tie](Rows::tie).
    pub(crate) fn row(&self, (vhost, name): (&str, &str)) -> Value {
        match self {
            Key::Number(number) => json!({"key": number, "vhost": vhost, "name": name}),
            other => json!({"key": other.text(), "vhost": vhost, "name": name}),
        }
    }

    /// Numbers sort before texts.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
            (Key::Number(_), _) => Ordering::Less,
            (_, Key::Number(_)) => Ordering::Greater,
            _ => self.text().cmp(other.text()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Key::Number(_) => "",
            Key::Text(text) => text,
            Key::Shared(text) => text,
            Key::Word(text) => text,
        }
    }
}

/// The rows of a list before they are displayed.
pub(crate) trait Rows: Send + 'static {
    type Row: Send + 'static;

    /// The text that the query's `name` is compared with.
    fn name<'a>(&'a self, row: &'a Self::Row) -> &'a str;

    /// The vhost and name that decide between rows with equal keys where members merge their lists; two empty texts if their places do.
    /// A list that has them is in their order.
    fn tie<'a>(&'a self, _row: &'a Self::Row) -> (&'a str, &'a str) {
        ("", "")
    }

    /// The row as displayed.
    fn show(&self, row: &Self::Row) -> Shown;

    /// One column of the row as displayed; override it for columns that cost less than the row.
    fn cell(&self, _row: &Self::Row, _column: &str) -> Cell {
        Cell::Costly
    }

    /// Whether the row may have a reason to wait; override it if that is known without displaying the row.
    fn may_wait(&self, _row: &Self::Row) -> bool {
        true
    }

    /// The function that returns the sort key for a path such as `message_stats.publish`; override it if displaying a
    /// row is expensive.
    fn key_by<'a>(&'a self, path: &'a str) -> KeyBy<'a, Self::Row> {
        Box::new(move |row| Key::of(&self.show(row).into_value(), path))
    }
}

/// Return type of [`Rows::key_by`].
pub(crate) type KeyBy<'a, R> = Box<dyn Fn(&R) -> Key + 'a>;

/// The response to a query for these rows: all of them, generated while sent, or one page.
pub(crate) fn answer<R: Rows>(query: &Query, kind: R, mut rows: Vec<R::Row>) -> HandlerResult {
    if let Some(answer) = sorted_page(query, &kind, rows.iter()) {
        return answer;
    }
    let total = rows.len();
    let page = Page::of(query)?;
    if let Some(wanted) = RowFilter::of(query)? {
        let mut at = 0;
        rows.retain(|row| {
            at += 1;
            if at % ROWS_AT_A_STRETCH == 0 {
                make_way();
            }
            let name = kind.name(row);
            (!wanted.wants_reason() || kind.may_wait(row))
                && (wanted.matches_name(name) || wanted.matches(name, &kind.show(row)))
        });
    }
    if page.is_some() {
        let filter = Filter::of(query);
        // Names aren't read if all rows are wanted.
        if !matches!(filter, Filter::All) {
            rows.retain(|row| filter.matches(kind.name(row)));
        }
    }
    if let Some(path) = given(query, "sort") {
        let reverse = is_reversed(query);
        let key = kind.key_by(path);
        let keyed = rows.into_iter().enumerate().map(|(at, row)| (key(&row), at, row)).collect();
        drop(key);
        let wanted = page.as_ref().map_or(0..usize::MAX, Page::wanted);
        rows = sorted(keyed, wanted, reverse);
    }
    let columns = Columns::of(query);
    let Some(page) = page else {
        return Ok(stream::list(rows.into_iter().map(move |row| shown(&kind, &row, &columns))));
    };
    let filtered = rows.len();
    let rows = page.take(rows)?;
    json(page.wrap(total, filtered, items(query, &page, &kind, rows.iter(), &columns)))
}

/// The items of a page: rows, or the keys that another member asks for.
fn items<'a, R: Rows>(
    query: &Query,
    page: &Page,
    kind: &R,
    rows: impl Iterator<Item = &'a R::Row>,
    columns: &Columns,
) -> Vec<Value> {
    if !page.is_of_keys() {
        return rows.map(|row| shown(kind, row, columns).into_value()).collect();
    }
    let key = kind.key_by(given(query, "sort").unwrap_or_default());
    rows.map(|row| key(row).row(kind.tie(row))).collect()
}

/// A row with the columns that are asked for; no others are made.
pub(crate) fn shown<R: Rows>(kind: &R, row: &R::Row, columns: &Columns) -> Shown {
    match columns.are_all() {
        true => kind.show(row),
        false => Shown::Value(columns.of_row(|column| kind.cell(row, column), || kind.show(row).into_value())),
    }
}

/// The requested order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sorting {
    /// Unsorted.
    No,
    ByName {
        reverse: bool,
    },
    Otherwise,
}

impl Sorting {
    pub(crate) fn of(query: &Query) -> Self {
        match query.get("sort").map(String::as_str) {
            None | Some("") => Self::No,
            Some("name") => Self::ByName { reverse: is_reversed(query) },
            Some(_) => Self::Otherwise,
        }
    }
}

fn is_reversed(query: &Query) -> bool {
    query.get("sort_reverse").is_some_and(|value| value == "true")
}

/// The page requested by a query for all of the rows, in the order in which `pick` returns the rows of a range, so
/// that other rows aren't touched. `None` if the query asks for something else than a page of all rows.
pub(crate) fn page<R: Rows>(
    query: &Query,
    kind: &R,
    total: usize,
    pick: impl FnOnce(Range<usize>) -> Vec<R::Row>,
) -> Option<HandlerResult> {
    let page = match Page::of(query) {
        Ok(page) => page?,
        Err(error) => return Some(Err(error)),
    };
    if !matches!(Filter::of(query), Filter::All) || RowFilter::is_asked(query) {
        return None;
    }
    if let Err(error) = page.check(total) {
        return Some(Err(error));
    }
    let Range { start, end } = page.wanted();
    let rows = pick(start.min(total)..end.min(total));
    let columns = Columns::of(query);
    let items = rows.iter().map(|row| shown(kind, row, &columns).into_value()).collect();
    Some(json(page.wrap(total, total, items)))
}

/// The page requested by a query for these rows, sorted by a column: no row is copied. `None` if the query asks for
/// something else.
pub(crate) fn sorted_page<'a, R: Rows>(
    query: &Query,
    kind: &R,
    rows: impl ExactSizeIterator<Item = &'a R::Row>,
) -> Option<HandlerResult> {
    let path = query.get("sort").filter(|path| !path.is_empty() && !RowFilter::is_asked(query))?;
    let page = match Page::of(query) {
        Ok(page) => page?,
        Err(error) => return Some(Err(error)),
    };
    let (total, filter, key) = (rows.len(), Filter::of(query), kind.key_by(path));
    let wanted = rows.filter(|row| matches!(filter, Filter::All) || filter.matches(kind.name(row)));
    let keyed = wanted.enumerate().map(|(at, row)| {
        if at % ROWS_AT_A_STRETCH == 0 {
            make_way();
        }
        (key(row), at, row)
    });
    let keyed = keyed.collect();
    make_way();
    let tie = |row: &&R::Row, other: &&R::Row| match page.part {
        Some(_) => kind.tie(row).cmp(&kind.tie(other)),
        None => Ordering::Equal,
    };
    let rows = sorted_with(keyed, page.wanted(), is_reversed(query), tie);
    make_way();
    let (filtered, columns) = (rows.len(), Columns::of(query));
    Some(
        page.take(rows)
            .and_then(|rows| json(page.wrap(total, filtered, items(query, &page, kind, rows.into_iter(), &columns)))),
    )
}

/// Whether a query asks for all rows in their original order.
///
/// # Errors
/// It asks for an invalid page.
pub(crate) fn is_whole(query: &Query) -> Result<bool, Error> {
    Ok(Page::of(query)?.is_none() && query.get("sort").is_none_or(String::is_empty) && !RowFilter::is_asked(query))
}

/// The rows in the order of their keys; equal keys keep their order. Only the rows in the range `wanted` are in their
/// final place: a page of 100,000 rows doesn't require sorting all of them.
fn sorted<R>(keyed: Vec<(Key, usize, R)>, wanted: Range<usize>, reverse: bool) -> Vec<R> {
    sorted_with(keyed, wanted, reverse, |_, _| Ordering::Equal)
}

/// As [`sorted`], but `tie` orders rows with equal keys, as far as it does.
fn sorted_with<R>(
    mut keyed: Vec<(Key, usize, R)>,
    wanted: Range<usize>,
    reverse: bool,
    tie: impl Fn(&R, &R) -> Ordering,
) -> Vec<R> {
    let order = |a: &(Key, usize, R), b: &(Key, usize, R)| {
        let by_key = if reverse { b.0.order(&a.0) } else { a.0.order(&b.0) };
        by_key.then_with(|| tie(&a.2, &b.2)).then(a.1.cmp(&b.1))
    };
    let (start, end) = (wanted.start.min(keyed.len()), wanted.end.min(keyed.len()));
    if end < keyed.len() {
        keyed.select_nth_unstable_by(end, order);
    }
    if 0 < start && start < end {
        keyed[..end].select_nth_unstable_by(start, order);
    }
    keyed[start..end].sort_unstable_by(order);
    keyed.into_iter().map(|(_, _, row)| row).collect()
}

/// The response for a short list that is complete already.
pub(crate) fn values(query: &Query, values: Vec<Value>) -> HandlerResult {
    struct Made;
    impl Rows for Made {
        type Row = Value;
        fn name<'a>(&'a self, row: &'a Value) -> &'a str {
            row.get("name").and_then(Value::as_str).unwrap_or("")
        }
        fn show(&self, row: &Value) -> Shown {
            Shown::Value(row.clone())
        }
    }
    answer(query, Made, values)
}

/// One page of a list.
pub(crate) struct Page {
    number: usize,
    size: usize,
    /// The rows that another member asks for instead.
    part: Option<ListPart>,
}

impl Page {
    /// The page requested by a query, if any.
    ///
    /// # Errors
    /// The page is invalid for any list.
    pub(crate) fn of(query: &Query) -> Result<Option<Self>, Error> {
        if let Some(part) = ListPart::of(query)? {
            return Ok(Some(Page { number: 1, size: part.len(), part: Some(part) }));
        }
        let Some(page) = query.get("page") else { return Ok(None) };
        let wrong = || Error::BadRequest("Pagination parameters are invalid".to_owned());
        let number: usize = page.parse().map_err(|_| wrong())?;
        let size = query.get("page_size").map(|size| size.parse::<usize>().map_err(|_| wrong())).transpose()?;
        if number == 0 || size.is_some_and(|size| size == 0 || size > PAGE_SIZE_MAX) {
            let size = size.map_or("undefined".to_owned(), |size| size.to_string());
            let reason = format!("Invalid pagination parameters: page number {number}, page size {size}");
            return Err(Error::Of(StatusCode::BAD_REQUEST, "invalid_pagination_parameters", reason));
        }
        Ok(Some(Page { number, size: size.unwrap_or(PAGE_SIZE_DEFAULT), part: None }))
    }

    /// The page's part of all rows.
    ///
    /// # Errors
    /// The list is too short.
    pub(crate) fn take<T>(&self, rows: Vec<T>) -> Result<Vec<T>, Error> {
        self.check(rows.len())?;
        let (wanted, step) = (self.wanted(), self.part.as_ref().map_or(1, ListPart::step));
        Ok(rows.into_iter().skip(wanted.start).take(wanted.len()).step_by(step).collect())
    }

    /// Whether keys are asked for instead of rows.
    pub(crate) fn is_of_keys(&self) -> bool {
        self.part.as_ref().is_some_and(ListPart::is_of_keys)
    }

    /// Checks that a list of this length has the page.
    pub(crate) fn check(&self, length: usize) -> Result<(), Error> {
        let first = self.wanted().start;
        if self.part.is_none() && first > 0 && first >= length {
            let reason = format!("Page out of range, page: {} page size: {}, len: {length}", self.number, self.size);
            return Err(Error::Of(StatusCode::BAD_REQUEST, "page_out_of_range", reason));
        }
        Ok(())
    }

    /// The range of rows of the page.
    pub(crate) fn wanted(&self) -> Range<usize> {
        if let Some(part) = &self.part {
            return part.range();
        }
        let first = (self.number - 1).saturating_mul(self.size);
        first..first.saturating_add(self.size)
    }

    /// The response with these items.
    pub(crate) fn wrap(&self, total: usize, filtered: usize, items: Vec<Value>) -> Value {
        json!({
            "total_count": total,
            "filtered_count": filtered,
            "item_count": items.len(),
            "page": self.number,
            "page_size": self.size,
            "page_count": filtered.div_ceil(self.size),
            "items": items,
        })
    }
}

/// The filter of names.
pub(crate) enum Filter {
    All,
    Nothing,
    Part(String),
    Pattern(RegularExpression),
}

impl Filter {
    /// An invalid pattern matches nothing, as in RabbitMQ.
    pub(crate) fn of(query: &Query) -> Self {
        let Some(name) = given(query, "name") else { return Filter::All };
        if query.get("use_regex").is_none_or(|value| value != "true") {
            return Filter::Part(name.to_lowercase());
        }
        RegularExpression::without_case(name).map_or(Filter::Nothing, Filter::Pattern)
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Nothing => false,
            Filter::Part(part) => name.to_lowercase().contains(part),
            Filter::Pattern(pattern) => pattern.matches(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Query {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn invalid_pages_are_refused() {
        let refused = |pairs: &[(&str, &str)]| match Page::of(&query(pairs)) {
            Err(Error::Of(_, error, _)) => error.to_owned(),
            Err(Error::BadRequest(reason)) => reason,
            _ => String::new(),
        };
        assert_eq!(refused(&[("page", "0")]), "invalid_pagination_parameters");
        assert_eq!(refused(&[("page", "1"), ("page_size", "501")]), "invalid_pagination_parameters");
        assert_eq!(refused(&[("page", "1"), ("page_size", "x")]), "Pagination parameters are invalid");
        assert_eq!(refused(&[("page", "1"), ("page_size", "500")]), "");
        let page = Page { number: 2, size: 2, part: None };
        assert_eq!(page.take(vec![1, 2, 3]).expect("is there"), [3]);
        assert!(matches!(page.take(vec![1, 2]), Err(Error::Of(_, "page_out_of_range", _))));
        assert!(Page { number: 1, size: 2, part: None }.take(Vec::<u8>::new()).expect("is empty").is_empty());
    }

    #[test]
    fn a_page_of_sorted_rows_is_that_of_all_of_them() {
        let keyed = || (0..1000).map(|at: usize| (Key::Number(((at * 37) % 100) as f64), at, at)).collect::<Vec<_>>();
        for reverse in [false, true] {
            let all = sorted(keyed(), 0..usize::MAX, reverse);
            let mut stable = keyed();
            stable.sort_by(|(a, ..), (b, ..)| if reverse { b.order(a) } else { a.order(b) });
            assert_eq!(all, stable.iter().map(|(_, _, row)| *row).collect::<Vec<_>>());
            for wanted in [0..10, 500..600, 990..1000, 990..1090, 1000..1100, 2000..2100] {
                let page = sorted(keyed(), wanted.clone(), reverse);
                let (start, end) = (wanted.start.min(1000), wanted.end.min(1000));
                assert_eq!(page[start..end], all[start..end], "{wanted:?}");
                assert_eq!(page.len(), 1000);
            }
        }
    }

    #[test]
    fn names_are_compared_without_case() {
        let matches = |pairs: &[(&str, &str)], name: &str| Filter::of(&query(pairs)).matches(name);
        assert!(matches(&[("name", "B")], "abc"));
        assert!(!matches(&[("name", "^b")], "abc"));
        assert!(matches(&[("name", "^A"), ("use_regex", "true")], "abc"));
        assert!(matches(&[("name", "^(?!B)"), ("use_regex", "true")], "abc"));
        assert!(!matches(&[("name", "^(?!A)"), ("use_regex", "true")], "abc"));
        assert!(!matches(&[("name", "("), ("use_regex", "true")], "("));
    }

    #[test]
    fn missing_columns_count_as_zero() {
        let row = json!({"a": {"b": 5}, "c": "text", "d": null});
        assert_eq!(Key::of(&row, "a.b"), Key::Number(5.0));
        assert_eq!(Key::of(&row, "c"), Key::Text("text".to_owned()));
        assert_eq!(Key::of(&row, "a.none"), Key::Number(0.0));
        assert_eq!(Key::Number(9.0).order(&Key::Text("1".to_owned())), Ordering::Less);
    }
}
