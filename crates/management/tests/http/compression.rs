//! Compression of the API and of metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use flate2::read::GzDecoder;

use crate::exchange::exchange;
use crate::stage::HttpStage;

const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// Head and body of an answer to a client of HTTP/1.0, which gets no chunks.
fn answer(address: SocketAddr, path: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("connects");
    write!(stream, "GET {path} HTTP/1.0\r\nhost: test\r\n{headers}\r\n").expect("is sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an answer");
    let split = all.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&all[..split]).to_ascii_lowercase(), all[split + 4..].to_vec())
}

fn text(body: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(body).read_to_string(&mut text).expect("gzip");
    text
}

#[test]
fn metrics_and_lists_come_compressed_if_asked_for() {
    let stage = HttpStage::new();
    for at in 0..200 {
        assert_eq!(stage.ask("PUT", &format!("/api/queues/v/q{at}"), r#"{"durable": true}"#).0, 201);
    }
    for (address, path) in [
        (stage.prometheus, "/metrics"),
        (stage.prometheus, "/metrics/per-object"),
        (stage.prometheus, "/metrics/detailed?family=queue_metrics"),
        (stage.http, "/api/queues?columns=name,vhost,arguments"),
        (stage.http, "/api/queues/v?page=1&page_size=100"),
        (stage.http, "/api/definitions"),
        (stage.http, "/api/openapi.json"),
        (stage.http, "/api/overview"),
    ] {
        let (head, plain) = answer(address, path, GUEST);
        assert!(!head.contains("content-encoding") && head.contains("vary: accept-encoding"), "{path}: {head}");
        let (head, packed) = answer(address, path, &format!("{GUEST}accept-encoding: br, gzip;q=0.8\r\n"));
        assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{path}: {head}");
        let text = text(&packed);
        assert!(packed.len() * 2 < plain.len(), "{path}: {} of {}", packed.len(), plain.len());
        // Counters and times move on between the two.
        assert_eq!(
            text.lines().count(),
            plain.split(|byte| *byte == b'\n').count() - usize::from(plain.ends_with(b"\n")),
            "{path}"
        );
    }
    stage.node.stop("test");
}

#[test]
fn short_answers_heads_and_known_versions_stay_as_they_are() {
    let stage = HttpStage::new();
    let packed = format!("{GUEST}accept-encoding: gzip\r\n");
    for path in ["/api/whoami", "/api/queues", "/api/queues/v/none"] {
        let answer = exchange(stage.http, "GET", path, &packed, "");
        assert_eq!(answer.header("content-encoding"), None, "{path}");
    }
    assert_eq!(exchange(stage.http, "HEAD", "/api/overview", &packed, "").body, "");
    let (head, _) = answer(stage.http, "/api/definitions", &packed);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    assert!(tag.starts_with("w/"), "{tag}");
    let known = exchange(
        stage.http,
        "GET",
        "/api/definitions",
        &format!("{packed}if-none-match: {}\r\n", tag.replace("w/", "W/")),
        "",
    );
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    stage.node.stop("test");
}
