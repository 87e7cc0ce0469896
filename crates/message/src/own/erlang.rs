//! Headers as Erlang shows them, in which RabbitMQ writes them where it has no better form.

use std::fmt::Write;

use super::{HeaderTable, HeaderValue};

/// The pairs of a table, each such as `{<<"name">>,longstr,<<"text">>}`.
pub fn pairs(table: &HeaderTable) -> impl Iterator<Item = String> {
    table.iter().map(|(name, value)| {
        let mut text = String::new();
        pair(&mut text, name, value);
        text
    })
}

/// A list of texts, such as `[<<"a">>,<<"b">>]`.
pub fn binaries<'a>(texts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut list = String::new();
    separated(&mut list, texts, binary);
    list
}

fn pair(out: &mut String, name: &str, value: &HeaderValue) {
    out.push('{');
    binary(out, name.as_bytes());
    out.push(',');
    out.push_str(type_name(value));
    out.push(',');
    term(out, value);
    out.push('}');
}

fn type_name(value: &HeaderValue) -> &'static str {
    match value {
        HeaderValue::Bool(_) => "bool",
        HeaderValue::Int(_) => "signedint",
        HeaderValue::Long(_) => "long",
        HeaderValue::Double(_) => "double",
        HeaderValue::Text(_) => "longstr",
        HeaderValue::List(_) => "array",
        HeaderValue::Table(_) | HeaderValue::Terms(_) => "table",
    }
}

fn term(out: &mut String, value: &HeaderValue) {
    // Writing into memory doesn't fail.
    let _ = match value {
        HeaderValue::Bool(value) => write!(out, "{value}"),
        HeaderValue::Int(value) => write!(out, "{value}"),
        HeaderValue::Long(value) => write!(out, "{value}"),
        HeaderValue::Double(value) => write!(out, "{value:?}"),
        HeaderValue::Text(bytes) => return binary(out, bytes),
        HeaderValue::List(values) => {
            return separated(out, values.iter(), |out, value| {
                let _ = write!(out, "{{{},", type_name(value));
                term(out, value);
                out.push('}');
            });
        }
        HeaderValue::Table(table) | HeaderValue::Terms(table) => {
            return separated(out, table.iter(), |out, (name, value)| pair(out, name, value));
        }
    };
}

fn separated<T>(out: &mut String, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// `<<"text">>`, or the numbers of bytes that can't be shown as text.
fn binary(out: &mut String, bytes: &[u8]) {
    out.push_str("<<");
    match std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control)) {
        Some(text) => {
            out.push('"');
            for character in text.chars() {
                if matches!(character, '"' | '\\') {
                    out.push('\\');
                }
                out.push(character);
            }
            out.push_str(if text.is_ascii() { "\"" } else { "\"/utf8" });
        }
        None => {
            let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
            out.push_str(&numbers.join(","));
        }
    }
    out.push_str(">>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_look_as_in_rabbitmq() {
        let inner =
            vec![("z".into(), HeaderValue::Bool(true)), ("l".into(), HeaderValue::List(vec![HeaderValue::text("x")]))];
        let table: HeaderTable = vec![
            ("x-max-length".into(), HeaderValue::Int(5)),
            ("big".into(), HeaderValue::Long(1 << 40)),
            ("f".into(), HeaderValue::Double(2.5)),
            ("q\"".into(), HeaderValue::text("ä\\")),
            ("b".into(), HeaderValue::Text(vec![0, 255])),
            ("t".into(), HeaderValue::Table(inner)),
        ];
        let expected = [
            r#"{<<"x-max-length">>,signedint,5}"#,
            r#"{<<"big">>,long,1099511627776}"#,
            r#"{<<"f">>,double,2.5}"#,
            r#"{<<"q\"">>,longstr,<<"ä\\"/utf8>>}"#,
            r#"{<<"b">>,longstr,<<0,255>>}"#,
            r#"{<<"t">>,table,[{<<"z">>,bool,true},{<<"l">>,array,[{longstr,<<"x">>}]}]}"#,
        ];
        assert_eq!(pairs(&table).collect::<Vec<_>>(), expected);
        assert_eq!(binaries([&b"a"[..], b"b"].into_iter()), r#"[<<"a">>,<<"b">>]"#);
    }
}
