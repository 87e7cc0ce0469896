//! The parameters of a request's query.

use std::collections::HashMap;

/// The parameters of a query.
pub(crate) type Query = HashMap<String, String>;

/// The value of a parameter of a query, if it has one.
pub(crate) fn given<'a>(query: &'a Query, key: &str) -> Option<&'a str> {
    query.get(key).map(String::as_str).filter(|text| !text.is_empty())
}
