//! Sessions of the page: login, cookies, the header of changes, and what ends a session.

use serde_json::{Value, json};

use crate::exchange::{Exchanged, exchange, watched};
use crate::stage::HttpStage;

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";
const JSON: &str = "content-type: application/json\r\n";
const OWN: &str = "x-leveret-request: 1\r\n";

fn log_in(stage: &HttpStage, user: &str) -> String {
    let body = format!("username={user}&password={user}");
    let answer = exchange(stage.http, "POST", "/api/login", FORM, &body);
    assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{}", answer.body);
    let cookie = answer.header("set-cookie").expect("a cookie");
    cookie.split(';').next().expect("a pair").to_owned()
}

fn ask(stage: &HttpStage, cookie: &str, method: &str, path: &str, more: &str) -> Exchanged {
    exchange(stage.http, method, path, &format!("cookie: other=1; {cookie}\r\n{more}"), "")
}

/// The user that the cookie stands for; none if it is refused.
fn who(stage: &HttpStage, cookie: &str) -> Option<String> {
    let answer = ask(stage, cookie, "GET", "/api/whoami", OWN);
    match answer.status {
        200 => Some(answer.json()["name"].as_str().expect("a name").to_owned()),
        401 => None,
        other => panic!("{other}: {}", answer.body),
    }
}

#[test]
fn a_login_gives_a_cookie_that_stands_for_the_user() {
    let stage = HttpStage::new();
    let login = exchange(stage.http, "POST", "/api/login", JSON, r#"{"username": "guest", "password": "guest"}"#);
    assert_eq!(login.status, 204);
    let cookie = login.header("set-cookie").expect("a cookie");
    let (pair, rest) = cookie.split_once("; ").expect("attributes");
    assert_eq!(rest, "Path=/; Max-Age=28800; HttpOnly; SameSite=Strict");
    assert_eq!(pair.strip_prefix("leveret_session=").map(str::len), Some(64));
    assert_eq!(who(&stage, pair).as_deref(), Some("guest"));
    let user = log_in(&stage, "user");
    assert_ne!(user, pair);
    assert_eq!(who(&stage, &user).as_deref(), Some("user"));
    assert_eq!(ask(&stage, &user, "GET", "/api/users", "").status, 401, "rights are the user's");
    stage.node.stop("test");
}

#[test]
fn a_wrong_login_is_refused_and_counted() {
    let stage = HttpStage::new();
    let refused = |body: &str, reason: &str| {
        let answer = exchange(stage.http, "POST", "/api/login", FORM, body);
        assert_eq!(answer.header("set-cookie"), None);
        assert!(answer.header("www-authenticate").is_none());
        assert_eq!(answer.json()["reason"], reason, "{body}");
        answer.status
    };
    assert_eq!(refused("username=guest&password=wrong", "Not_Authorized"), 401);
    assert_eq!(refused("username=guest%00&password=guest", "Not_Authorized"), 401);
    assert_eq!(refused("username=plain&password=plain", "Not management user"), 401);
    assert_eq!(refused("access_token=abc", "Not_Authorized"), 401);
    assert_eq!(refused("username=guest", "Not_Authorized"), 401);
    let (_, attempts) = stage.ask("GET", "/api/auth/attempts/leveret@localhost", "");
    let http =
        attempts.as_array().expect("a list").iter().find(|row| row["protocol"] == "http").expect("a row").clone();
    assert_eq!(http["auth_attempts_failed"], 1, "names with a zero byte don't reach the check: {http}");
    let foreign = format!("{FORM}sec-fetch-site: cross-site\r\n");
    let answer = exchange(stage.http, "POST", "/api/login", &foreign, "username=guest&password=guest");
    assert_eq!((answer.status, answer.header("set-cookie")), (403, None));
    stage.node.stop("test");
}

#[test]
fn a_change_by_a_session_needs_the_header() {
    let stage = HttpStage::new();
    let cookie = log_in(&stage, "guest");
    for method in ["PUT", "DELETE"] {
        let refused = ask(&stage, &cookie, method, "/api/queues/v/q", "");
        assert_eq!((refused.status, refused.json()["error"].clone()), (403, json!("forbidden")));
    }
    assert_eq!(ask(&stage, &cookie, "PUT", "/api/queues/v/q", OWN).status, 201);
    assert_eq!(ask(&stage, &cookie, "HEAD", "/api/queues/v/q", "").status, 200);
    assert_eq!(ask(&stage, &cookie, "DELETE", "/api/queues/v/q", OWN).status, 204);
    // A password in the request is enough, as ever, and wins.
    let basic = "authorization: Basic dXNlcjp1c2Vy\r\n";
    assert_eq!(ask(&stage, &cookie, "GET", "/api/whoami", basic).json()["name"], "user");
    stage.node.stop("test");
}

#[test]
fn a_session_ends_by_logout_and_with_its_user() {
    let stage = HttpStage::new();
    let cookie = log_in(&stage, "guest");
    assert_eq!(ask(&stage, &cookie, "POST", "/api/logout", "").status, 403);
    let ended = ask(&stage, &cookie, "POST", "/api/logout", OWN);
    assert_eq!(ended.status, 204);
    assert!(ended.header("set-cookie").expect("a cookie").starts_with("leveret_session=; Path=/; Max-Age=0;"));
    assert_eq!(who(&stage, &cookie), None);
    assert_eq!(ask(&stage, &cookie, "POST", "/api/logout", OWN).status, 204);

    let cookie = log_in(&stage, "user");
    let put = |body: Value| assert!(stage.ask("PUT", "/api/users/user", &body.to_string()).0 < 300);
    put(json!({"password": "user", "tags": "management,monitoring"}));
    assert_eq!(who(&stage, &cookie), None, "another hash of the same password ends it");
    let cookie = log_in(&stage, "user");
    assert_eq!(stage.ask("DELETE", "/api/users/user", "").0, 204);
    assert_eq!(who(&stage, &cookie), None);
    put(json!({"password": "user", "tags": "management"}));
    assert_eq!(who(&stage, &cookie), None, "another user of the same name");
    stage.node.stop("test");
}

#[test]
fn a_refused_request_of_the_page_opens_no_dialogue() {
    let stage = HttpStage::new();
    let cookie = "leveret_session=0000";
    for path in ["/api/whoami", "/api/none"] {
        assert!(ask(&stage, cookie, "GET", path, OWN).header("www-authenticate").is_none());
    }
    let answer = ask(&stage, cookie, "GET", "/api/whoami", "");
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").is_some());
    stage.node.stop("test");
}

#[test]
fn sessions_work_without_basic_authentication() {
    let stage = HttpStage::with_all(&["management.disable_basic_auth=true", "management.login_session_timeout=5"]);
    assert_eq!(stage.ask("GET", "/api/whoami", "").0, 401);
    let login = exchange(stage.http, "POST", "/api/login", FORM, "username=guest&password=guest");
    let cookie = login.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("Max-Age=300;"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(who(&stage, pair).as_deref(), Some("guest"));
    let ended = ask(&stage, "leveret_session=00", "GET", "/api/whoami", "");
    assert_eq!((ended.status, ended.header("www-authenticate")), (401, None));
    stage.node.stop("test");
}

#[test]
fn a_watch_ends_with_its_session() {
    let stage = HttpStage::new();
    let cookie = log_in(&stage, "guest");
    let mut watch = watched(stage.http, "/api/watch?path=%2Fapi%2Fwhoami", &format!("cookie: {cookie}\r\n"));
    assert_eq!(watch.data()["body"]["name"], "guest");
    assert_eq!(ask(&stage, &cookie, "POST", "/api/logout", OWN).status, 204);
    let end = watch.event();
    assert!(end.starts_with("event: end\ndata: {"), "{end}");
    assert!(end.contains("\"status\":401"), "{end}");
    assert_eq!(watch.rest(), "", "the stream closes");
    stage.node.stop("test");
}
