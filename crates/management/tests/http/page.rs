//! The page's own files; what is in them is tested where they are embedded.

use crate::exchange::exchange;
use crate::stage::{HttpStage, request};

#[test]
fn the_page_needs_no_login_and_has_strict_headers() {
    let stage = HttpStage::new();
    let page = exchange(stage.http, "GET", "/", "", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert!(page.header("content-security-policy").expect("a policy").starts_with("default-src 'none';"));
    let head = exchange(stage.http, "HEAD", "/", "accept-encoding: br\r\n", "");
    assert_eq!((head.status, head.body.as_str(), head.header("content-encoding")), (200, "", Some("br")));
    assert_eq!(head.header("etag"), page.header("etag"));
    let length: usize = head.header("content-length").and_then(|length| length.parse().ok()).expect("a length");
    assert!(0 < length && length < page.body.len());
    let again = format!("if-none-match: {}\r\n", page.header("etag").expect("a tag"));
    assert_eq!(exchange(stage.http, "GET", "/", &again, "").status, 304);
    assert_eq!(exchange(stage.http, "POST", "/", "", "").status, 405);
    assert_eq!(request(stage.http, "GET", "/ui/0123456789abcdef/main.js", "", "").0, 404);
    stage.node.stop("test");
}

#[test]
fn addresses_of_rabbitmqs_page_lead_on() {
    let stage = HttpStage::new();
    for (path, place) in [
        ("/api", "/#/api"),
        ("/api/", "/#/api"),
        ("/api/index.html", "/#/api"),
        ("/doc/stats.html", "/#/api"),
        ("/cli", "/"),
        ("/cli/", "/"),
        ("/cli/index.html", "/"),
        ("/login", "/"),
    ] {
        let answer = exchange(stage.http, "GET", path, "", "");
        assert_eq!((answer.status, answer.header("location")), (301, Some(place)), "{path}");
    }
    for (path, kind) in [("/index.html", "text/html; charset=utf-8"), ("/favicon.ico", "image/svg+xml")] {
        let answer = exchange(stage.http, "GET", path, "", "");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{path}");
    }
    assert_eq!(exchange(stage.http, "GET", "/api/nonsense", "", "").status, 404);
    stage.node.stop("test");
}

#[test]
fn a_configured_policy_replaces_the_pages_own() {
    let stage = HttpStage::with("management.csp.policy=default-src 'self'");
    let page = exchange(stage.http, "GET", "/", "", "");
    assert_eq!(page.header("content-security-policy"), Some("default-src 'self'"));
    stage.node.stop("test");
}
