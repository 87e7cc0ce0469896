//! JSON values as RabbitMQ prints them in error texts: as terms of Erlang.

use serde_json::Value;

/// The value as a term.
pub(super) fn of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => binary(text),
        Value::Array(values) => format!("[{}]", values.iter().map(of).collect::<Vec<_>>().join(",")),
        Value::Object(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{} => {}", binary(key), of(value))).collect();
            format!("#{{{}}}", pairs.join(","))
        }
    }
}

/// A list of pairs.
pub(super) fn pairs<'a>(pairs: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{{{},{}}}", binary(key), of(value))).collect();
    format!("[{}]", pairs.join(","))
}

fn binary(text: &str) -> String {
    let encoding = if text.is_ascii() { "" } else { "/utf8" };
    format!("<<\"{}\"{encoding}>>", text.replace('\\', "\\\\").replace('"', "\\\""))
}
