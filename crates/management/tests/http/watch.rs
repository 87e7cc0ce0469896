//! Responses as server-sent events.

use serde_json::json;

use crate::exchange::{exchange, watched};
use crate::stage::HttpStage;

const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
const USER: &str = "authorization: Basic dXNlcjp1c2Vy\r\n";

#[test]
fn a_response_comes_at_once_and_again_when_it_has_changed() {
    let stage = HttpStage::new();
    let path = "%2Fapi%2Fqueues%2Fv%3Fpage%3D1%26columns%3Dname%2Ctype";
    let mut watch = watched(stage.http, &format!("/api/watch?path={path}&path=version"), GUEST);
    let first = watch.data();
    assert_eq!(first["path"], "/api/queues/v?page=1&columns=name,type");
    assert_eq!((&first["status"], &first["body"]["items"]), (&json!(200), &json!([])));
    let version = watch.data();
    assert_eq!((&version["path"], &version["status"]), (&json!("version"), &json!(200)));
    assert_eq!(stage.ask("PUT", "/api/queues/v/q", "{}").0, 201);
    // The version hasn't changed, so the next event is the list's.
    assert_eq!(watch.data()["body"]["items"], json!([{"name": "q", "type": "classic"}]));
    assert_eq!(stage.ask("DELETE", "/api/queues/v/q", "").0, 204);
    assert_eq!(watch.data()["body"]["items"], json!([]));
    stage.node.stop("test");
}

#[test]
fn a_watcher_sees_what_its_user_may_see_at_that_moment() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/v/xq", "{}").0, 201);
    let paths = "path=/api/queues/v/xq?columns=name&path=/api/users";
    let mut watch = watched(stage.http, &format!("/api/watch?{paths}"), USER);
    assert_eq!(watch.data()["body"], json!({"name": "xq"}));
    let users = watch.data();
    assert_eq!((&users["status"], &users["body"]["error"]), (&json!(401), &json!("not_authorised")));
    assert_eq!(stage.ask("DELETE", "/api/permissions/v/user", "").0, 204);
    let gone = watch.data();
    assert_eq!((&gone["path"], &gone["status"]), (&json!("/api/queues/v/xq?columns=name"), &json!(404)));
    assert_eq!(stage.ask("PUT", "/api/users/user", r#"{"password": "other", "tags": "management"}"#).0, 204);
    assert!(watch.event().starts_with("event: end\n"));
    assert_eq!(watch.rest(), "");
    stage.node.stop("test");
}

#[test]
fn other_paths_and_too_many_of_them_are_refused() {
    let stage = HttpStage::new();
    let status = |query: &str| exchange(stage.http, "GET", &format!("/api/watch{query}"), GUEST, "").status;
    assert_eq!(status(""), 400);
    assert_eq!(status(&format!("?{}", "path=overview&".repeat(17))), 400);
    assert_eq!(status("?path=/metrics"), 400);
    assert_eq!(status("?path=/api/watch"), 400);
    assert_eq!(exchange(stage.http, "GET", "/api/watch?path=overview", "", "").status, 401);
    let mut watch = watched(stage.http, "/api/watch?path=/api/none&path=/api/reset&path=/api/openapi.json", GUEST);
    assert_eq!(watch.data()["status"], 404);
    assert_eq!(watch.data()["status"], 404, "it has no GET");
    let document = watch.data();
    assert_eq!(document["body"]["openapi"], "3.1.0");
    stage.node.stop("test");
}

#[test]
fn a_long_response_is_given_up() {
    let stage = HttpStage::new();
    for at in 0..40 {
        let body = json!({"pattern": "none", "definition": {"dead-letter-routing-key": "x".repeat(30_000)}});
        assert_eq!(stage.ask("PUT", &format!("/api/policies/v/p{at}"), &body.to_string()).0, 201);
    }
    let mut watch = watched(stage.http, "/api/watch?path=policies&path=policies?columns=name", GUEST);
    let long = watch.data();
    assert_eq!((&long["status"], &long["body"]["error"]), (&json!(413), &json!("too_large")));
    assert_eq!(watch.data()["body"].as_array().map(Vec::len), Some(40));
    assert_eq!(stage.ask("DELETE", "/api/policies/v/p0", "").0, 204);
    let next = watch.data();
    assert_eq!((&next["path"], next["body"].as_array().map(Vec::len)), (&json!("policies?columns=name"), Some(39)));
    stage.node.stop("test");
}

#[test]
fn streams_of_a_user_have_a_limit_that_closed_ones_free() {
    let stage = HttpStage::new();
    let open = || watched(stage.http, "/api/watch?path=version", USER);
    let mut own: Vec<_> = (0..16).map(|_| open()).collect();
    let status = |user: &str| exchange(stage.http, "GET", "/api/watch?path=version", user, "").status;
    assert_eq!(status(USER), 503);
    drop(watched(stage.http, "/api/watch?path=version", GUEST));
    own.pop();
    // The node notices the end of a connection on its own.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while exchange(stage.http, "HEAD", "/api/watch?path=version", USER, "").status == 503 {
        assert!(std::time::Instant::now() < deadline, "the place isn't free again");
        std::thread::yield_now();
    }
    stage.node.stop("test");
}
