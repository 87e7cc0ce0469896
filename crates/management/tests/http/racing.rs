//! Deletions of one queue that race: one finds it, and the others are told that it isn't there any more.

use std::thread;

use leveret_stream_protocol::client::request;

use crate::stage::{HttpStage, request as http_request};
use crate::stream_client::StreamClient;

/// The name and password of `guest`.
const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

const OK: u16 = 1;
const STREAM_DOES_NOT_EXIST: u16 = 2;

#[test]
fn of_racing_deletions_over_http_one_finds_the_queue() {
    for stage in [HttpStage::new(), HttpStage::with_late_answers()] {
        for _ in 0..20 {
            assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
            let http = stage.http;
            let mut answers = thread::scope(|scope| {
                let delete = move || http_request(http, "DELETE", "/api/queues/%2F/q", GUEST, "").0;
                let askers = [(); 4].map(|()| scope.spawn(delete));
                askers.map(|asker| asker.join().expect("an answer"))
            });
            answers.sort_unstable();
            assert_eq!(answers, [204, 404, 404, 404]);
        }
        stage.node.stop("test");
    }
}

#[test]
fn of_racing_deletions_by_stream_clients_one_finds_the_stream() {
    for stage in [HttpStage::new(), HttpStage::with_late_answers()] {
        let mut clients = [(); 3].map(|()| StreamClient::connect(stage.stream, "guest", "/"));
        for _ in 0..20 {
            let made = clients[0].call(|out, correlation| request::create(out, correlation, "s", []));
            assert_eq!(made, OK);
            let mut answers = thread::scope(|scope| {
                let askers = clients.each_mut().map(|client| {
                    scope.spawn(|| client.call(|out, correlation| request::delete(out, correlation, "s")))
                });
                askers.map(|asker| asker.join().expect("an answer"))
            });
            answers.sort_unstable();
            assert_eq!(answers, [OK, STREAM_DOES_NOT_EXIST, STREAM_DOES_NOT_EXIST]);
        }
        drop(clients);
        stage.node.stop("test");
    }
}
