//! `access.request`, which clients of AMQP 0-8 still send.

use leveret_amqp091::method::access;
use leveret_amqp091::{Method, encode_method};

use crate::stage::Stage;

#[test]
fn an_access_request_always_gets_a_ticket() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let connection = &mut stage.links[link].connection;
    let mut input = Vec::new();
    encode_method(&mut input, 1, &Method::AccessRequest(access::Request { read: true, ..Default::default() }));
    connection.receive(&input, stage.now);
    connection.turn(stage.now);
    let mut answer = Vec::new();
    encode_method(&mut answer, 1, &Method::AccessRequestOk(access::RequestOk { ticket: 1 }));
    assert_eq!(connection.output().pending(), answer);
}
