//! The cache before a service.

use std::thread;
use std::time::Duration;

use leveret_tests::node::Node;

use crate::service::{Service, ServiceReply};
use crate::stage::{amqp091, asking_at, ctl};

fn cached(service: &Service) -> leveret_tests::node::Options {
    asking_at(service.port).set("auth_backends.1", "cache").set("auth_cache.cached_backend", "rabbit_auth_backend_http")
}

fn log_in(node: &Node, user: &str, password: &str) -> bool {
    match amqp091(node.amqp(), user, password) {
        Ok(mut wire) => {
            wire.declare(1, "q", false);
            wire.close();
            true
        }
        Err(_) => false,
    }
}

#[test]
fn answers_are_kept_for_their_time() {
    let service = Service::start(|asked| match asked.field("password") {
        "wrong-1" => ServiceReply::Text("deny"),
        _ => ServiceReply::Text("allow"),
    });
    let node = Node::start(cached(&service).set("auth_cache.cache_ttl", 2000));
    for _ in 0..5 {
        assert!(log_in(&node, "robot", "of-metal"));
    }
    assert_eq!((service.count("/user"), service.count("/vhost"), service.count("/resource")), (1, 1, 1));
    for _ in 0..3 {
        assert!(!log_in(&node, "robot", "wrong-1"));
    }
    assert_eq!(service.count("/user"), 4, "refusals aren't kept");
    thread::sleep(Duration::from_millis(2100));
    assert!(log_in(&node, "robot", "of-metal"));
    assert_eq!(service.count("/user"), 5);
}

#[test]
fn refusals_are_kept_if_asked_for() {
    let service = Service::start(|_| ServiceReply::Text("deny"));
    let node = Node::start(cached(&service).set("auth_cache.cache_refusals", true));
    for _ in 0..3 {
        assert!(!log_in(&node, "robot", "of-metal"));
    }
    assert_eq!(service.count("/user"), 1);
}

#[test]
fn one_question_is_asked_for_many_logins_at_once() {
    let service = Service::start(|asked| match &*asked.path {
        "/user" => ServiceReply::After(Duration::from_millis(500), "allow"),
        _ => ServiceReply::Text("allow"),
    });
    let node = Node::start(cached(&service));
    let address = node.amqp();
    let logins: Vec<_> =
        (0..50).map(|_| thread::spawn(move || amqp091(address, "robot", "of-metal").is_ok())).collect();
    assert!(logins.into_iter().all(|login| login.join().expect("no panic")));
    assert_eq!(service.count("/user"), 1);
}

#[test]
fn a_command_forgets_all_answers() {
    let service = Service::start(|_| ServiceReply::Text("allow"));
    let node = Node::start(cached(&service));
    assert!(log_in(&node, "robot", "of-metal") && log_in(&node, "robot", "of-metal"));
    let (status, text) = ctl(&node, &["clear_auth_backend_cache"]);
    assert!(status == 0 && text.contains("Will clear rabbitmq_auth_backend_cache plugin's cache"), "{text}");
    assert!(log_in(&node, "robot", "of-metal"));
    assert_eq!(service.count("/user"), 2);
    let node = Node::start(asking_at(service.port));
    let (status, text) = ctl(&node, &["clear_auth_backend_cache"]);
    assert!(status != 0 && text.contains("no cache is set up"), "{text}");
}
