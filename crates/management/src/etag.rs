//! Entity tags (RFC 9110, 8.8.3): what a client has already isn't sent again.

use axum::http::{HeaderMap, header};

/// Whether the client has the version with this tag (`If-None-Match`).
pub(crate) fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    // A weak comparison (13.1.2): the mark of weak tags doesn't count.
    let bare = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let lines = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).any(|known| known == "*" || bare(known) == bare(tag))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_tag_is_found_among_others() {
        for (line, found) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(line).expect("a value"));
            assert_eq!(is_known(&headers, "\"a\""), found, "{line}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"a\""));
    }
}
