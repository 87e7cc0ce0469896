use std::borrow::Cow;

/// The name of a queue or an exchange without carriage returns and line feeds. RabbitMQ removes them from every name
/// that is declared, bound or deleted over AMQP 0-9-1 and HTTP, so it would look for another name than ours if we
/// kept them.
#[must_use]
pub fn without_line_ends(name: &str) -> Cow<'_, str> {
    match name.contains(['\r', '\n']) {
        true => Cow::Owned(name.replace(['\r', '\n'], "")),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_ends_are_removed() {
        assert_eq!(without_line_ends("\na\r\nb\tc "), "ab\tc ");
        assert!(matches!(without_line_ends("ab"), Cow::Borrowed("ab")));
    }
}
