//! Requests that another member of the cluster has forwarded, with the rights of the user that it names.

use leveret_management::answer_forwarded;
use leveret_model::{Glob, Grants, Identity, Right, ScopeRule, Scopes};
use leveret_node::{ForwardedIdentity, ForwardedRequest};
use serde_json::Value;

use crate::stage::HttpStage;

/// Status and body of a forwarded request; no user is the machine.
fn ask(stage: &HttpStage, user: Option<&str>, method: &str, target: &str) -> (u16, Value) {
    let identity = user.map_or(ForwardedIdentity::Machine, |user| ForwardedIdentity::User(user.to_owned()));
    ask_as(stage, identity, method, target)
}

fn ask_as(stage: &HttpStage, identity: ForwardedIdentity, method: &str, target: &str) -> (u16, Value) {
    let request = ForwardedRequest {
        identity,
        method: method.to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: b"".to_vec().into(),
    };
    let response = stage.node.side_runtime().block_on(answer_forwarded(stage.api.clone(), request));
    (response.status, serde_json::from_slice(&response.body).unwrap_or_default())
}

#[test]
fn rights_are_checked_again() {
    let stage = HttpStage::new();
    assert_eq!(ask(&stage, Some("guest"), "GET", "/api/users").0, 200);
    let (status, body) = ask(&stage, Some("user"), "GET", "/api/users");
    assert_eq!((status, &body["reason"]), (401, &"Not administrator user".into()));
    assert_eq!(ask(&stage, Some("user"), "PUT", "/api/vhosts/more").0, 401);
    assert_eq!(ask(&stage, Some("plain"), "GET", "/api/overview").0, 401, "it has no tag");
    assert_eq!(ask(&stage, Some("nobody"), "GET", "/api/overview").0, 401);
    assert_eq!(ask(&stage, Some("user"), "GET", "/api/queues/%2F").0, 404, "it can't see the vhost");
    assert_eq!(ask(&stage, Some("user"), "GET", "/api/queues/v?page=1&page_size=5").1["total_count"], 0);
    stage.node.stop("test");
}

#[test]
fn routes_of_the_local_socket_are_the_machines_alone() {
    let stage = HttpStage::new();
    assert_eq!(ask(&stage, None, "GET", "/local/node").0, 200);
    assert_eq!(ask(&stage, Some("guest"), "GET", "/local/node").0, 404);
    assert_eq!(ask(&stage, None, "GET", "/api/nowhere").0, 404);
    assert_eq!(ask(&stage, None, "GET", "no target").0, 400);
    stage.node.stop("test");
}

#[test]
fn an_identity_that_is_no_user_keeps_its_own_rights() {
    let stage = HttpStage::new();
    let all = || Glob::parse("*").expect("is a pattern");
    let rule = ScopeRule { right: Right::Read, vhost: Glob::literal("v"), name: all(), routing_key: None };
    let scopes = || Grants::Scopes(Scopes::new(vec![rule.clone()]));
    let encoded = |who: Identity| ForwardedIdentity::Encoded(who.encode().expect("is short"));
    let who = |tag: &str| Identity::new("robot", vec![tag.into()], scopes(), "oauth2");
    let ask = |who: Identity, target: &str| ask_as(&stage, encoded(who), "GET", target);
    let (status, body) = ask(who("management"), "/api/whoami");
    assert_eq!(
        (status, &body["name"], &body["tags"], &body["is_internal_user"]),
        (200, &"robot".into(), &serde_json::json!(["management"]), &false.into())
    );
    assert_eq!(ask(who("management"), "/api/queues/v").0, 200);
    assert_eq!(ask(who("management"), "/api/queues/%2F").0, 404, "it can't see the vhost");
    assert_eq!(ask(who("management"), "/api/users").0, 401);
    assert_eq!(ask(who("administrator"), "/api/users").0, 200);
    assert_eq!(ask(who("other"), "/api/overview").0, 401, "it has no tag that gives access");
    assert_eq!(ask(who("administrator").ending_at(1), "/api/users").0, 401, "it has ended");
    assert_eq!(ask_as(&stage, ForwardedIdentity::Encoded(b"?".to_vec()), "GET", "/api/whoami").0, 401);
    stage.node.stop("test");
}
