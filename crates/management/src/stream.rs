//! Streams long lists: at most one piece is in memory besides the socket's buffer.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_lite::stream;
use serde::Serialize;

/// Approximate size of a piece, in bytes.
const PIECE_BYTES: usize = 32 << 10;

/// A JSON list of these values.
pub(crate) fn list(mut values: impl Iterator<Item: Serialize> + Send + 'static) -> Response {
    let (mut opened, mut closed) = (false, false);
    text("application/json", move |piece| {
        if closed {
            return;
        }
        if !std::mem::replace(&mut opened, true) {
            piece.push(b'[');
            match values.next() {
                Some(first) => write(piece, &first),
                None => closed = true,
            }
        }
        while !closed && piece.len() < PIECE_BYTES {
            match values.next() {
                Some(value) => {
                    piece.push(b',');
                    write(piece, &value);
                }
                None => closed = true,
            }
        }
        if closed {
            piece.push(b']');
        }
    })
}

/// A text in pieces: `next` appends one, or nothing at the end.
pub(crate) fn text(content_type: &'static str, mut next: impl FnMut(&mut Vec<u8>) + Send + 'static) -> Response {
    let pieces = std::iter::from_fn(move || {
        make_way();
        let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        next(&mut piece);
        (!piece.is_empty()).then(|| Ok::<_, Infallible>(Bytes::from(piece)))
    });
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(stream::iter(pieces))).into_response()
}

/// Yields to threads that wait for this processor. Linux lets a thread use up its time slice of some milliseconds
/// even if one of higher priority wakes up, which would delay a core that serves messages.
pub(crate) fn make_way() {
    std::thread::yield_now();
}

fn write(piece: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(piece, value).expect("a value has a JSON form");
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    async fn body(response: Response) -> (usize, Vec<u8>) {
        use futures_lite::StreamExt;
        let mut pieces = response.into_body().into_data_stream();
        let (mut count, mut all) = (0, Vec::new());
        while let Some(piece) = pieces.next().await {
            let piece = piece.expect("a piece");
            assert!(piece.len() < 2 * PIECE_BYTES);
            count += 1;
            all.extend_from_slice(&piece);
        }
        (count, all)
    }

    #[tokio::test]
    async fn a_long_list_comes_in_pieces_and_is_one_list() {
        for length in [0, 1, 2, 20_000] {
            let values: Vec<Value> = (0..length).map(|at| serde_json::json!({"number": at})).collect();
            let (pieces, text) = body(list(values.clone().into_iter())).await;
            assert_eq!(serde_json::from_slice::<Vec<Value>>(&text).expect("a list"), values);
            assert_eq!(pieces > 5, length > 1000, "{pieces} pieces for {length}");
        }
    }
}
