//! A request's target: path segments and query (RFC 3986, 3.3 and 3.4). Both are used unnormalized: a queue may be
//! called `..`.

use super::refusal::{Refusal, Result};
use crate::address::percent_decode;

/// Largest target in bytes: three names of 255 bytes with every byte escaped, and the rest of a path, are well below.
const TARGET_BYTES_MAX: usize = 8192;
/// Largest number of segments of any route.
const SEGMENTS_MAX: usize = 4;

/// A target that was split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    segments: [&'a str; SEGMENTS_MAX],
    count: usize,
    query: &'a str,
}

impl<'a> Path<'a> {
    /// Splits a target.
    ///
    /// # Errors
    /// 400 if it isn't one, or is too long.
    pub(crate) fn parse(target: &'a str) -> Result<Self> {
        if target.len() > TARGET_BYTES_MAX {
            return Err(Refusal::bad_request(format!(
                "request target has {} bytes, at most {TARGET_BYTES_MAX} are allowed",
                target.len()
            )));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Some(path) = path.strip_prefix('/') else {
            return Err(Refusal::bad_request(format!("request target '{target}' does not begin with '/'")));
        };
        let mut segments = [""; SEGMENTS_MAX];
        let mut count = 0;
        for (at, segment) in path.splitn(SEGMENTS_MAX, '/').enumerate() {
            segments[at] = segment;
            count = at + 1;
        }
        Ok(Self { segments, count, query })
    }

    /// The segments as received, percent-encoded.
    pub(crate) fn segments(&self) -> &[&'a str] {
        &self.segments[..self.count]
    }

    /// The last value of this key in the query, decoded.
    ///
    /// # Errors
    /// 400 for a bad escape.
    pub(crate) fn query(&self, key: &str) -> Result<Option<String>> {
        let value = self.query.split('&').rev().find_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name == key).then_some(value)
        });
        // The query has the form of HTML forms, where a plus sign is a space.
        value.map(|value| decode(&value.replace('+', " "))).transpose()
    }
}

/// Decodes a name.
///
/// # Errors
/// 400 for a bad escape or bytes that aren't UTF-8.
pub(crate) fn decode(segment: &str) -> Result<String> {
    percent_decode(segment).ok_or_else(|| {
        Refusal::bad_request(format!("failed to normalize URI '{segment}': invalid percent encoding, or not UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::refusal::Status;

    #[test]
    fn segments_keep_their_escapes_and_names_lose_them() {
        let path = Path::parse("/queues/a%2Fb%20%C3%BC+/messages").unwrap();
        assert_eq!(path.segments(), ["queues", "a%2Fb%20%C3%BC+", "messages"]);
        assert_eq!(decode(path.segments()[1]).unwrap(), "a/b ü+");
        assert_eq!(Path::parse("/queues/").unwrap().segments(), ["queues", ""]);
        assert_eq!(Path::parse("/").unwrap().segments(), [""]);
        assert_eq!(Path::parse("/a/b/c/d/e").unwrap().segments(), ["a", "b", "c", "d/e"]);
    }

    #[test]
    fn a_query_is_a_form() {
        let path = Path::parse("/bindings?src=x%26y&key=a+b&key=c%2Bd&empty=&bad=%zz").unwrap();
        assert_eq!(path.segments(), ["bindings"]);
        assert_eq!(path.query("src").unwrap().as_deref(), Some("x&y"));
        assert_eq!(path.query("key").unwrap().as_deref(), Some("c+d"));
        assert_eq!(path.query("empty").unwrap().as_deref(), Some(""));
        assert_eq!(path.query("none").unwrap(), None);
        assert!(path.query("bad").is_err());
    }

    #[test]
    fn an_invalid_target_is_a_bad_request() {
        for wrong in ["", "queues/q", &format!("/queues/{}", "q".repeat(TARGET_BYTES_MAX))] {
            assert!(matches!(Path::parse(wrong), Err(Refusal::Answer(Status::BadRequest, _))), "{wrong}");
        }
        assert!(decode("%ff").is_err());
    }
}
