//! Everything that waits, by reason and severity, and lists that are limited to it.

use leveret_tests::http::Http;
use leveret_tests::wire::publish;
use serde_json::{Value, json};

use crate::stage::Staged;

fn get(http: &Http, path: &str) -> Value {
    let answer = http.get(path).expect("an answer");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().expect("a list").iter().filter_map(|item| item["name"].as_str()).collect()
}

/// Number of objects with this reason, apart from notes.
fn counted(answer: &Value, code: &str) -> u64 {
    let reasons = answer["reasons"].as_array().expect("a list");
    let of_code = reasons.iter().filter(|reason| reason["code"] == *code && reason["severity"] != "note");
    of_code.filter_map(|reason| reason["objects"].as_u64()).sum()
}

/// Thirty archives that nobody reads, a queue that refuses publishes, and one that waits to retry.
fn staged() -> Staged {
    let mut stage = Staged::new();
    for at in 0..30 {
        stage.queue(&format!("archive{at}"), json!({}));
        stage.publish(&format!("archive{at}"), 15);
    }
    let back = json!({"x-message-ttl": 600_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "archive0"});
    stage.queue("retry", back);
    stage.publish("retry", 1000);
    stage.queue("orders", json!({"x-max-length": 5, "x-overflow": "reject-publish"}));
    stage.queue("idle", json!({}));
    for _ in 0..10 {
        stage.wire.send(&publish(1, "", "orders", b"message", false, true));
    }
    stage.says("queues/%2F/orders", "full", "refuses what is published");
    stage.says("queues/%2F/archive29", "no_consumers", "15 ready messages");
    stage
}

#[test]
fn the_worst_is_named_first_however_short_it_is() {
    let stage = staged();
    let http = stage.http();
    // No consumer for a moment is ordinary.
    stage.wait_until(|| counted(&get(&http, "/api/attention?limit=5"), "no_consumers") == 31);
    let answer = get(&http, "/api/attention?limit=5");
    assert_eq!(
        (&answer["items"][0]["name"], &answer["items"][0]["code"]),
        (&json!("orders"), &json!("full")),
        "{answer}"
    );
    assert_eq!(answer["items"][0]["kind"], "queue");
    assert!(answer["items"][0]["text"].as_str().is_some_and(|text| text.contains("refuses")), "{answer}");
    assert_eq!(answer["items"].as_array().map(Vec::len), Some(5));
    assert!(names(&answer)[1..].iter().all(|name| name.starts_with("archive")), "{answer}");
    let seconds: Vec<f64> =
        answer["items"].as_array().expect("a list")[1..].iter().filter_map(|item| item["seconds"].as_f64()).collect();
    assert!(seconds.is_sorted_by(|one, next| one >= next), "the oldest first: {seconds:?}");
    assert_eq!(answer["reasons"][0]["severity"], "bad");
    assert_eq!((&answer["total_count"], counted(&answer, "full")), (&json!(31), 1), "orders has no consumer, too");
    assert_eq!(names(&get(&http, "/api/attention?severity=bad")), ["orders"]);
    assert!(names(&get(&http, "/api/attention?severity=note")).contains(&"retry"));
    assert_eq!(names(&get(&http, "/api/attention?why=waits_to_retry")), ["retry"]);
    assert_eq!(names(&get(&http, "/api/attention?vhost=other")), [""; 0]);
    assert_eq!(http.get("/api/attention?severity=worst").expect("an answer").status, 400);
    stage.ends();
}

#[test]
fn a_list_is_limited_to_a_reason_or_a_severity() {
    let stage = staged();
    let http = stage.http();
    let full = get(&http, "/api/queues?why=full&page=1");
    assert_eq!((names(&full), &full["filtered_count"], &full["total_count"]), (vec!["orders"], &json!(1), &json!(33)));
    assert_eq!(names(&get(&http, "/api/queues?severity=bad&page=1&sort=messages")), ["orders"]);
    assert_eq!(names(&get(&http, "/api/queues/%2F?why=waits_to_retry&page=1")), ["retry"]);
    let whole = get(&http, "/api/queues?why=no_consumers&sort=name&columns=name");
    assert_eq!(whole.as_array().map(Vec::len), Some(31), "{whole}");
    stage.ends();
}

#[test]
fn a_list_is_searched_for_what_stands_in_its_rows() {
    let stage = staged();
    let http = stage.http();
    stage.put(
        "policies/%2F/Golden",
        json!({"pattern": "^idle$", "definition": {"expires": 9_000_000}, "apply-to": "queues"}),
    );
    for (text, name) in
        [("1,000", "retry"), ("dead letters", "retry"), ("refuse", ""), ("golden", "idle"), ("idl", "idle")]
    {
        let found = get(&http, &format!("/api/queues?page=1&search={}", text.replace(' ', "%20").replace(',', "%2C")));
        let expected = if name.is_empty() { Vec::new() } else { vec![name] };
        assert_eq!(names(&found), expected, "{text}");
    }
    let only = get(&http, "/api/queues?page=1&search=1%2C000&columns=name,state");
    assert_eq!(names(&only), [""; 0], "the number isn't shown");
    let full = get(&http, "/api/queues?page=1&search=full&columns=name,why");
    assert_eq!(names(&full), ["orders"], "by the short name of a reason");
    stage.ends();
}

#[test]
fn the_worst_is_named_among_very_many_that_wait() {
    const MANY: u64 = 1500;
    let mut stage = Staged::new();
    let queue = |n: u64| json!({"name": format!("many{n}"), "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    let document = json!({"queues": (0..MANY).map(queue).collect::<Vec<_>>()});
    assert_eq!(stage.http().post("/api/definitions", &document).expect("an answer").status, 204);
    for n in 0..MANY {
        stage.publish(&format!("many{n}"), 1);
    }
    stage.queue("zebra", json!({"x-max-length": 1, "x-overflow": "reject-publish"}));
    for _ in 0..3 {
        stage.wire.send(&publish(1, "", "zebra", b"message", false, true));
    }
    let http = stage.http();
    stage.says("queues/%2F/zebra", "full", "refuses what is published");
    stage.wait_until(|| counted(&get(&http, "/api/attention?limit=1"), "no_consumers") == MANY + 1);
    let answer = get(&http, "/api/attention?limit=1");
    assert_eq!((names(&answer), &answer["counted_only"]), (vec!["zebra"], &json!(500)), "{answer}");
    assert_eq!((&answer["total_count"], &answer["passed_over"]), (&json!(1001), &json!(0)));
    let page = get(&http, "/api/queues?severity=bad&page=1&columns=name");
    assert_eq!((names(&page), &page["total_count"]), (vec!["zebra"], &json!(1501)));
    stage.ends();
}
