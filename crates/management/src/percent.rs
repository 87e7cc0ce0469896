//! Percent-encoded segments of paths and queries.

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
