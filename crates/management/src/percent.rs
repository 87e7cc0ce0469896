//! Percent-encoded segments of paths and queries.

/// The beginning of a segment that is a name, whatever the rest would mean without it. `;` never comes from a name: encoders write
/// `%3B`. Clients and proxies that shorten `.` and `..`, also when these are percent-encoded, leave `;=..` alone.
const NAME: &str = ";=";

/// Names that need [`NAME`] before them: none, those that are shortened, and the words that routes have where others have a name.
const MEAN_ELSE: [&str; 17] = [
    "",
    ".",
    "..",
    "bulk-delete",
    "channels",
    "connections",
    "detailed",
    "node",
    "publishers",
    "quorum",
    "sessions",
    "status",
    "super-streams",
    "tracking",
    "transfers",
    "username",
    "without-permissions",
];

/// A segment of a path or query that can't be decoded: the original text, and the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotText {
    /// A percent sign without two hexadecimal digits.
    #[error("'{0}' has a percent sign without two hexadecimal digits behind it; %25 stands for the sign itself")]
    Escape(String),
    /// Bytes that aren't UTF-8.
    #[error("'{0}' isn't UTF-8 once its percent signs are decoded, and names are UTF-8")]
    Encoding(String),
}

/// Decodes a segment of a path or query.
///
/// # Errors
/// It can't be decoded. It must not be used as it is, or different names could refer to the same object.
pub(crate) fn decoded(text: &str) -> Result<String, NotText> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digit = |at: usize| rest.get(at).and_then(|digit| (*digit as char).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(NotText::Escape(text.to_owned())) };
        out.push((high * 16 + low) as u8);
        rest = &rest[2..];
    }
    String::from_utf8(out).map_err(|_| NotText::Encoding(text.to_owned()))
}

/// The decoded keys and values of a query.
///
/// # Errors
/// One of them can't be decoded.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = Result<(String, String), NotText>> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(&key.replace('+', " "))?, decoded(&value.replace('+', " "))?))
    })
}

/// The text of a query with these parameters.
pub(crate) fn encoded_pairs<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let encoded =
        pairs.into_iter().map(|(key, value)| format!("{}={}", quoted(key.as_bytes()), quoted(value.as_bytes())));
    encoded.collect::<Vec<_>>().join("&")
}

/// The name that a segment of a path stands for.
///
/// # Errors
/// It can't be decoded.
pub(crate) fn name(segment: &str) -> Result<String, NotText> {
    decoded(segment.strip_prefix(NAME).unwrap_or(segment))
}

/// Whether a name alone, as a segment of a path, would mean something else.
pub(crate) fn means_else(name: &str) -> bool {
    MEAN_ELSE.contains(&name)
}

/// A name as a segment of a path that reaches it over any client.
pub(crate) fn segment(name: &str) -> String {
    match means_else(name) {
        true => format!("{NAME}{}", quoted(name.as_bytes())),
        false => quoted(name.as_bytes()),
    }
}

/// Bytes with everything percent-encoded except letters, digits and `-._~`.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => out.push(char::from(*byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_from_its_segment() {
        let names = ["a", "/", "%2e", ";=..", ";", "a;b", "?", "#", "\u{0}", "ö", "~", "-"];
        for name_given in names.into_iter().chain(MEAN_ELSE) {
            let segment = segment(name_given);
            assert_eq!(name(&segment).as_deref(), Ok(name_given), "{segment}");
            let shortened = segment.replace("%2E", ".").replace("%2e", ".");
            assert!(!["", ".", ".."].contains(&&*shortened), "{segment} is left alone");
        }
        assert_eq!(segment("queue"), "queue");
        // Clients that wrote `;` as it is have always meant the name.
        assert_eq!((name(";a"), name("a;=b")), (Ok(";a".to_owned()), Ok("a;=b".to_owned())));
        assert_eq!(name(";=%ff"), Err(NotText::Encoding("%ff".to_owned())));
    }
}
