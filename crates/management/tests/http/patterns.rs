//! Refused regular expressions: the response names the object, the part and the pattern.

use serde_json::{Value, json};

use crate::stage::HttpStage;

/// Refused patterns, and a part of the reason.
fn refused_patterns() -> [(String, &'static str); 4] {
    [
        ("[".to_owned(), "unclosed character class"),
        ("^(?!amq".to_owned(), "without closing parenthesis"),
        (r"^(?!a)\h".to_owned(), "isn't taken: write the characters that it stands for"),
        (r"\w{5000}".to_owned(), "exceeds size limit"),
    ]
}

fn reason(stage: &HttpStage, method: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = stage.ask(method, path, &body.to_string());
    assert_eq!((status, &answer["error"]), (400, &json!("bad_request")), "{answer}");
    answer["reason"].clone()
}

#[test]
fn a_refused_permission_names_user_vhost_part_and_pattern() {
    let stage = HttpStage::new();
    let before = stage.ask("GET", "/api/permissions/v/user", "");
    for (pattern, why) in refused_patterns() {
        for part in ["configure", "write", "read"] {
            let mut body = json!({"configure": ".*", "write": "", "read": "^a"});
            body[part] = json!(pattern);
            let reason = reason(&stage, "PUT", "/api/permissions/v/user", &body);
            assert_eq!((&reason[0], &reason[1]), (&json!("invalid_regexp"), &json!(pattern)), "{part}");
            let begin = format!("invalid {part} pattern '{pattern}' of user 'user' in vhost 'v': ");
            let text = reason[2].as_str().expect("a text");
            assert!(text.starts_with(&begin) && text.contains(why), "{text}");
        }
    }
    assert_eq!(stage.ask("GET", "/api/permissions/v/user", ""), before, "nothing has changed");
}

#[test]
fn a_refused_topic_permission_names_its_exchange_as_well() {
    let stage = HttpStage::new();
    for (pattern, why) in refused_patterns() {
        for part in ["write", "read"] {
            let mut body = json!({"exchange": "amq.topic", "write": "", "read": "^a"});
            body[part] = json!(pattern);
            let reason = reason(&stage, "PUT", "/api/topic-permissions/v/user", &body);
            let begin =
                format!("invalid {part} pattern '{pattern}' of user 'user' for exchange 'amq.topic' in vhost 'v': ");
            let text = reason.as_str().expect("a text");
            assert!(text.starts_with(&begin) && text.contains(why), "{text}");
        }
    }
    assert_eq!(stage.ask("GET", "/api/topic-permissions", ""), (200, json!([])));
}

#[test]
fn definitions_with_a_refused_pattern_change_nothing() {
    let stage = HttpStage::new();
    let before = stage.ask("GET", "/api/permissions", "");
    let (pattern, why) = &refused_patterns()[1];
    let permissions = json!([
        {"user": "user", "vhost": "v", "configure": "new", "write": "", "read": ""},
        {"user": "user", "vhost": "/", "configure": "", "write": pattern, "read": ""},
    ]);
    let reason = reason(&stage, "POST", "/api/definitions", &json!({"permissions": permissions}));
    let text = reason.as_str().expect("a text");
    assert!(text.contains(&format!("invalid write pattern '{pattern}' of user 'user' in vhost '/': ")), "{text}");
    assert!(text.contains(why), "{text}");
    assert_eq!(stage.ask("GET", "/api/permissions", ""), before);
}

#[test]
fn a_pattern_of_a_policy_is_refused_with_the_reason() {
    let stage = HttpStage::new();
    for (pattern, why) in refused_patterns() {
        let body = json!({"pattern": pattern, "definition": {"max-length": 1}});
        for path in ["policies", "operator-policies"] {
            let reason = reason(&stage, "PUT", &format!("/api/{path}/v/p"), &body);
            let text = reason.as_str().expect("a text");
            assert!(text.contains("pattern should be regular expression but is invalid: "), "{text}");
            assert!(text.contains(why) && text.contains(&format!("received '{pattern}'")), "{text}");
        }
    }
    assert_eq!(stage.ask("GET", "/api/policies", "").1, json!([]));
}
