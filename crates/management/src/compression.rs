//! Compression of responses for clients that ask for it, as Prometheus and browsers do.
//!
//! It runs on the thread of the HTTP API, piece by piece, never on one that serves messages. The fastest level takes a tenth of what
//! the text itself costs, and leaves a twentieth of it.

use std::io::Write;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody, to_bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_lite::{StreamExt, stream};

use crate::accepted::takes;
use crate::stream::make_way;

/// Shorter bodies are sent as they are, as by RabbitMQ: the headers would outweigh the gain.
const BODY_BYTES_MIN: u64 = 300;

/// Size of a piece that is sent of a long response, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Bytes that are compressed at a stretch.
const STRETCH_BYTES: usize = 64 << 10;

/// The response as this client wants it. Event streams aren't compressed, because each event has to leave at once.
pub(crate) async fn compressed(asked: &HeaderMap, mut response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_text = kind.starts_with("application/json") || kind.starts_with("text/plain");
    if !is_text || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let length = response.body().size_hint().exact();
    if response.status() == StatusCode::NOT_MODIFIED || length.is_some_and(|length| length < BODY_BYTES_MIN) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !takes(asked, "gzip") {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.remove(header::CONTENT_LENGTH);
    // A strong tag would promise the same bytes without compression.
    if let Some(tag) = head.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok())
        && !tag.starts_with("W/")
        && let Ok(weak) = HeaderValue::from_str(&format!("W/{tag}"))
    {
        head.headers.insert(header::ETAG, weak);
    }
    let mut pieces = body.into_data_stream();
    let body = match length {
        Some(_) => whole(pieces).await,
        None => match beginning(&mut pieces).await {
            Beginning::Long(begun) => in_pieces(begun, pieces),
            Beginning::Whole(short) => {
                head.headers.remove(header::CONTENT_ENCODING);
                return Response::from_parts(head, Body::from(short));
            }
        },
    };
    Response::from_parts(head, body)
}

/// A body that is in memory already.
async fn whole(pieces: BodyDataStream) -> Body {
    let plain = to_bytes(Body::from_stream(pieces), usize::MAX).await.unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    for stretch in plain.chunks(STRETCH_BYTES) {
        write(&mut encoder, stretch);
        make_way();
        tokio::task::yield_now().await;
    }
    Body::from(end(encoder))
}

/// The first pieces of a body whose length isn't known.
enum Beginning {
    /// It goes on, or may do so.
    Long(Vec<u8>),
    /// It is short.
    Whole(Vec<u8>),
}

async fn beginning(pieces: &mut BodyDataStream) -> Beginning {
    let mut begun = Vec::new();
    while (begun.len() as u64) < BODY_BYTES_MIN {
        match pieces.next().await {
            Some(Ok(piece)) => begun.extend_from_slice(&piece),
            // An error comes again with the rest.
            Some(Err(_)) => return Beginning::Long(begun),
            None => return Beginning::Whole(begun),
        }
    }
    Beginning::Long(begun)
}

/// A body that is generated while it is sent.
fn in_pieces(begun: Vec<u8>, pieces: BodyDataStream) -> Body {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    write(&mut encoder, &begun);
    let state = (pieces, Some(encoder));
    Body::from_stream(stream::unfold(state, |(mut pieces, mut encoder)| async move {
        loop {
            let mut open = encoder.take()?;
            match pieces.next().await {
                Some(Ok(piece)) => {
                    write(&mut open, &piece);
                    make_way();
                }
                Some(Err(error)) => return Some((Err(error), (pieces, None))),
                None => return Some((Ok(Bytes::from(end(open))), (pieces, None))),
            }
            let full = open.get_ref().len() >= PIECE_BYTES;
            let piece = if full { std::mem::take(open.get_mut()) } else { Vec::new() };
            encoder = Some(open);
            if full {
                return Some((Ok(Bytes::from(piece)), (pieces, encoder)));
            }
            // Others on this thread have their turn.
            tokio::task::yield_now().await;
        }
    }))
}

fn write(encoder: &mut GzEncoder<Vec<u8>>, bytes: &[u8]) {
    encoder.write_all(bytes).expect("a vector takes everything");
}

fn end(encoder: GzEncoder<Vec<u8>>) -> Vec<u8> {
    encoder.finish().expect("a vector takes everything")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use serde_json::{Value, json};

    use super::*;

    fn asking(codings: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(codings));
        headers
    }

    fn json_of(text: String) -> Response {
        let mut response = Response::new(Body::from(text));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ETAG, HeaderValue::from_static("\"1\""));
        response
    }

    async fn plain(response: Response) -> (usize, String) {
        let sent = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        let mut text = String::new();
        GzDecoder::new(&*sent).read_to_string(&mut text).expect("gzip");
        (sent.len(), text)
    }

    #[tokio::test]
    async fn a_body_in_memory_and_one_in_pieces_come_compressed() {
        let rows: Vec<Value> = (0..20_000).map(|at| json!({"name": format!("queue-{at}"), "messages": at})).collect();
        let text = Value::from(rows.clone()).to_string();
        let response = compressed(&asking("br, gzip"), json_of(text.clone())).await;
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(response.headers()[header::VARY], "accept-encoding");
        assert_eq!(response.headers()[header::ETAG], "W/\"1\"");
        let (sent, read) = plain(response).await;
        assert!(read == text && sent < text.len() / 5, "{sent} of {}", text.len());
        let response = compressed(&asking("gzip"), crate::stream::list(rows.into_iter())).await;
        let (sent, read) = plain(response).await;
        assert!(read == text && sent < text.len() / 5, "{sent} of {}", text.len());
    }

    #[tokio::test]
    async fn short_bodies_and_clients_that_do_not_ask_get_plain_text() {
        let long = "x".repeat(1000);
        for (codings, text) in [("gzip", "x".repeat(299)), ("identity", long.clone()), ("gzip;q=0", long.clone())] {
            let response = compressed(&asking(codings), json_of(text.clone())).await;
            assert!(!response.headers().contains_key(header::CONTENT_ENCODING), "{codings}");
            assert_eq!(to_bytes(response.into_body(), usize::MAX).await.expect("a body"), text);
        }
        let mut events = json_of(long);
        events.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        let response = compressed(&asking("gzip"), events).await;
        assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
    }
}
