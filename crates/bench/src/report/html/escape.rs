//! Escapes text for HTML.

/// Escapes a text for use in an element and in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_ends_a_text_or_an_attribute() {
        assert_eq!(escape("a <b c=\"d\" e='f'> & g"), "a &lt;b c=&quot;d&quot; e=&#39;f&#39;&gt; &amp; g");
        assert_eq!(escape("µs, 5 × 3"), "µs, 5 × 3");
    }
}
