//! Content codings that a client takes (RFC 9110, 12.5.3).

use axum::http::{HeaderMap, header};

/// The headers of a request that say which codings of a response its client takes.
pub(crate) fn codings_of(headers: &HeaderMap) -> HeaderMap {
    let asked = headers.get_all(header::ACCEPT_ENCODING).iter();
    asked.map(|value| (header::ACCEPT_ENCODING, value.clone())).collect()
}

/// Whether the client takes this coding.
pub(crate) fn takes(asked: &HeaderMap, coding: &str) -> bool {
    let quality_of = |wanted: &str| {
        let lines = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        let qualities = lines.flat_map(|line| line.split(',')).filter_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let is_named = parts.next().is_some_and(|named| named.eq_ignore_ascii_case(wanted));
            let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |text| text.parse().ok());
            is_named.then(|| quality.unwrap_or(0.0_f32))
        });
        qualities.reduce(f32::max)
    };
    quality_of(coding).or_else(|| quality_of("*")).is_some_and(|quality| quality > 0.0)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_coding_is_taken_by_name_or_by_the_star() {
        for (line, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("gzip;q=x", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_str(line).expect("a value"));
            assert_eq!(takes(&headers, "gzip"), expected, "{line}");
        }
        assert!(!takes(&HeaderMap::new(), "gzip"));
    }
}
