use std::borrow::Cow;

/// An assignment `key = value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// Parses a line of a file: an assignment, or nothing.
///
/// As in RabbitMQ, `#` begins a comment anywhere except within single quotes, and blanks around key and value are
/// ignored.
pub(crate) fn line(line: &str) -> Result<Option<Assignment<'_>>, String> {
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return Ok(None);
    }
    assignment(trimmed).map(Some)
}

/// Parses an assignment in a line or after `--set`.
pub(crate) fn assignment(text: &str) -> Result<Assignment<'_>, String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("expected 'key = value', got '{}'", text.trim()))?;
    let key = key.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '\\' | ':');
    if key.is_empty() || key.split('.').any(str::is_empty) || !key.chars().all(allowed) {
        return Err(format!("'{key}' is no key: expected words of letters, digits, '_' and '-' with dots between"));
    }
    let value = value.trim();
    let value = match value.strip_prefix('\'') {
        Some(quoted) => {
            let (inside, after) =
                quoted.split_once('\'').ok_or_else(|| format!("the quote in the value of '{key}' isn't closed"))?;
            let after = after.trim_start();
            if !after.is_empty() && !after.starts_with('#') {
                return Err(format!("unexpected '{after}' after the quoted value of '{key}'"));
            }
            return Ok(Assignment { key, value: inside });
        }
        None => value.split('#').next().unwrap_or("").trim_end(),
    };
    if value.is_empty() {
        return Err(format!("'{key}' has no value; an empty one is written ''"));
    }
    Ok(Assignment { key, value })
}

/// The value with each `$(NAME)` replaced by the value of `variable`. Inserted text isn't scanned again: it may
/// contain any character.
///
/// # Errors
/// A name is malformed or isn't set.
pub(crate) fn interpolated<'a>(
    assignment: Assignment<'a>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, String> {
    let Assignment { key, value } = assignment;
    let mut rest = value;
    let mut out = String::new();
    while let Some((before, name, after)) =
        rest.split_once("$(").and_then(|(before, rest)| rest.split_once(')').map(|(name, after)| (before, name, after)))
    {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!("{key}: '$({name})' names no environment variable"));
        }
        let found = variable(name).ok_or_else(|| {
            format!("'{key}' substitution requires a config variable '{name}' to be set: the environment has no {name}")
        })?;
        out.push_str(before);
        out.push_str(&found);
        rest = after;
    }
    Ok(if rest.len() == value.len() { Cow::Borrowed(value) } else { Cow::Owned(out + rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(&str, &str)> {
        line(text).unwrap().map(|assignment| (assignment.key, assignment.value))
    }

    #[test]
    fn lines() {
        assert_eq!(parsed("  ## a comment"), None);
        assert_eq!(parsed(""), None);
        assert_eq!(parsed("listeners.tcp.default = 5672"), Some(("listeners.tcp.default", "5672")));
        assert_eq!(parsed("\tdefault_pass=a b  # why"), Some(("default_pass", "a b")));
        assert_eq!(parsed("default_pass = 'a#b ' # why"), Some(("default_pass", "a#b ")));
        assert_eq!(parsed("default_pass = ''"), Some(("default_pass", "")));
    }

    #[test]
    fn malformed_lines_have_specific_errors() {
        for (text, part) in [
            ("heartbeat", "expected 'key = value', got 'heartbeat'"),
            ("heart beat = 5", "'heart beat' is no key"),
            ("a..b = 5", "'a..b' is no key"),
            ("heartbeat =", "'heartbeat' has no value"),
            ("heartbeat = # none", "'heartbeat' has no value"),
            ("default_pass = 'a", "isn't closed"),
            ("default_pass = 'a' b", "unexpected 'b'"),
        ] {
            let error = line(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn variables_are_replaced_and_unset_ones_are_errors() {
        let known = |name: &str| match name {
            "NAME" => Some("a#b $(NAME)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let put_in = |value| interpolated(Assignment { key: "k", value }, &known).map(Cow::into_owned);
        assert_eq!(put_in("x-$(NAME)$(EMPTY)-$(EMPTY)y").unwrap(), "x-a#b $(NAME)-y");
        for text in ["$NAME", "$(NAME", "100$", "NAME)"] {
            assert_eq!(put_in(text).unwrap(), text);
        }
        let unset = put_in("x$(NONE)").unwrap_err();
        assert!(unset.starts_with("'k' substitution requires a config variable 'NONE' to be set"), "{unset}");
        for text in ["$()", "$(A-B)", "$(a.b)", "$(1A)"] {
            assert!(put_in(text).unwrap_err().contains("names no environment variable"), "{text}");
        }
    }
}
