//! The answers of a RabbitMQ 4.3.6 to filters on a stream, recorded by `tests/golden/filters.py`.

use crate::message::{Message, Owned};
use leveret_selector::{Budget, Dialect, MessageField, PropertyFilter, Reference, Selector, Verdict};
use serde_json::Value as Json;

/// The time of evaluations, after all times in the messages but one. UTC() is compared with nothing else.
const NOW_MS: u64 = 1_800_000_000_000;

/// Expressions whose messages differ, each with ours and the reason.
const OTHER_MATCHES: &[(&str, &[&str], &str)] = &[
    // LIKE: RabbitMQ's `_` and its second `%` don't stand for a line feed, and it ignores one at the end of a string.
    ("lines LIKE 'a_b'", &["text"], "a line feed is a character"),
    ("lines LIKE '%a%b%'", &["text"], "a line feed is a character"),
    ("ended LIKE 'a_c'", &[], "the string has four characters"),
    ("ended LIKE 'a_c_'", &["text"], "a line feed is a character"),
    ("ended LIKE '%b%c'", &[], "the string ends with a line feed"),
];
/// Expressions that RabbitMQ refuses or ends the session for, which are accepted here, and their messages.
const ACCEPTED_HERE: &[(&str, &[&str], &str)] = &[
    ("huge + huge > 1", &[], "a sum that is out of range is unknown, and doesn't end the session"),
    ("huge * huge > 1", &[], "as before"),
    ("huge * -2 < 1", &[], "as before"),
];
fn recorded() -> Json {
    serde_json::from_str(include_str!("rabbitmq.json")).unwrap()
}

fn owned(typed: &Json) -> Owned {
    let value = &typed[1];
    let text = || value.as_str().unwrap().to_owned();
    match typed[0].as_str().unwrap() {
        "null" | "decimal32" => Owned::Null,
        "boolean" => Owned::Bool(value.as_bool().unwrap()),
        "float" => Owned::Float(f64::from(value.as_f64().unwrap() as f32)),
        "double" => Owned::Float(value.as_f64().unwrap()),
        "char" => Owned::Int(text().chars().next().unwrap() as i128),
        "string" | "symbol" => Owned::Bytes(text().into_bytes()),
        "binary" => Owned::Bytes(hexadecimal(&text())),
        "uuid" => Owned::Uuid(hexadecimal(&text()).try_into().unwrap()),
        _ => Owned::Int(value.as_i64().map_or_else(|| text().parse().unwrap(), i128::from)),
    }
}

fn hexadecimal(text: &str) -> Vec<u8> {
    let digits = text.replace('-', "");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn messages(recorded: &Json) -> Vec<(String, Message)> {
    let read = |(name, given): (&String, &Json)| {
        let mut message = Message::default();
        if let Some(priority) = given["priority"].as_u64() {
            message = message.with(MessageField::Priority, Owned::Int(priority.into()));
        }
        for (name, typed) in given["properties"].as_object().unwrap() {
            message = message.with(MessageField::of_symbol(&name.replace('_', "-")).unwrap(), owned(typed));
        }
        for (name, typed) in given["application"].as_object().unwrap() {
            // RabbitMQ has no decimals, so such a property is missing.
            if typed[0] != "decimal32" {
                message = message.application(name, owned(typed));
            }
        }
        (name.clone(), message)
    };
    recorded["messages"].as_object().unwrap().iter().map(read).collect()
}

fn matching(messages: &[(String, Message)], evaluate: impl Fn(&Message, &mut Budget) -> Verdict) -> Vec<String> {
    let matches = |message| evaluate(message, &mut Budget::new(1)) == Verdict::Match;
    messages.iter().filter(|(_, message)| matches(message)).map(|(name, _)| name.clone()).collect()
}

fn names(list: &Json) -> Vec<String> {
    let mut names: Vec<String> =
        list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn expressions_match_as_in_rabbitmq() {
    let recorded = recorded();
    let messages = messages(&recorded);
    let mut wrong = Vec::new();
    let mut differences = 0;
    for case in recorded["expressions"].as_array().unwrap() {
        let text = case["sql"].as_str().unwrap();
        let parsed = Selector::parse(text, Dialect::Amqp);
        let ours = parsed
            .as_ref()
            .map(|selector| matching(&messages, |message, budget| selector.evaluate(message, NOW_MS, budget)));
        let theirs = case["accepted"].as_bool().unwrap().then(|| names(&case["matches"]));
        let known = OTHER_MATCHES.iter().chain(ACCEPTED_HERE).find(|(known, _, _)| *known == text);
        let expected = match known {
            Some((_, matches, _)) => Some(matches.iter().map(|name| (*name).to_owned()).collect()),
            None => theirs.clone(),
        };
        differences += usize::from(expected != theirs);
        if ours.as_ref().ok() != expected.as_ref() {
            wrong.push(format!("{text:.80}\n    expected {expected:?}\n    ours {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(differences, OTHER_MATCHES.len() + ACCEPTED_HERE.len());
}

fn reference<'a>(typed: &'a Json, bytes: &'a [u8]) -> Reference<'a> {
    match (typed[0].as_str().unwrap(), owned(typed)) {
        ("string", _) => Reference::String(typed[1].as_str().unwrap()),
        ("symbol", _) => Reference::Symbol(typed[1].as_str().unwrap()),
        ("binary", _) => Reference::Binary(bytes),
        (_, Owned::Uuid(bytes)) => Reference::Uuid(bytes),
        ("uint", Owned::Int(value)) => Reference::Uint(value.try_into().unwrap()),
        ("ulong", Owned::Int(value)) => Reference::Ulong(value.try_into().unwrap()),
        ("timestamp", Owned::Int(value)) => Reference::Timestamp(value.try_into().unwrap()),
        ("null", _) => Reference::Null,
        (_, Owned::Bool(value)) => Reference::Bool(value),
        (_, Owned::Int(value)) => Reference::Int(value.try_into().unwrap()),
        (_, Owned::Float(value)) => Reference::Float(value),
        _ => Reference::Other,
    }
}

#[test]
fn property_filters_match_as_in_rabbitmq() {
    let recorded = recorded();
    let messages = messages(&recorded);
    let mut wrong = Vec::new();
    for case in recorded["property_filters"].as_array().unwrap() {
        let fields = case["fields"].as_object().unwrap();
        let bytes: Vec<Vec<u8>> = fields
            .values()
            .map(|typed| if let Owned::Bytes(bytes) = owned(typed) { bytes } else { Vec::new() })
            .collect();
        let references =
            fields.iter().zip(&bytes).map(|((name, typed), bytes)| (name.as_str(), reference(typed, bytes)));
        let filter = match case["section"].as_str().unwrap() {
            "properties" => PropertyFilter::properties(references),
            _ => PropertyFilter::application_properties(references),
        };
        let ours =
            filter.as_ref().map(|filter| matching(&messages, |message, budget| filter.evaluate(message, budget)));
        let theirs = case["accepted"].as_bool().unwrap().then(|| names(&case["matches"]));
        if ours.as_ref().ok() != theirs.as_ref() {
            wrong.push(format!("{case}\n    ours {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
