//! A response in chapters, which are generated while it is sent, so that only one piece is ever in memory.

use std::collections::VecDeque;
use std::time::Instant;

use axum::response::Response;
use leveret_metrics::{CONTENT_TYPE, Text};

use super::telemetry::Telemetry;
use crate::stream;

/// Approximate size of a piece, in bytes.
pub(super) const PIECE_BYTES: usize = 32 << 10;

/// Writes the next piece of a chapter; returns true after the last one.
pub(super) type Chapter = Box<dyn FnMut(&mut Text) -> bool + Send>;

/// A response in chapters.
pub(super) struct Page {
    chapters: VecDeque<Chapter>,
}

impl Page {
    pub(super) fn new() -> Self {
        Page { chapters: VecDeque::new() }
    }

    /// Writes a short part at once.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Text)) {
        let mut text = Text::default();
        write(&mut text);
        let mut written = std::mem::take(text.bytes());
        self.chapters.push_back(Box::new(move |text| {
            text.bytes().append(&mut written);
            true
        }));
    }

    pub(super) fn add(&mut self, chapter: Chapter) {
        self.chapters.push_back(chapter);
    }

    /// Sends the page. At its end its duration and size are recorded in `telemetry`.
    pub(super) fn send(mut self, telemetry: Telemetry, began: Instant) -> Response {
        let mut bytes = 0;
        let mut told = false;
        stream::text(CONTENT_TYPE, move |piece| {
            let mut text = Text::default();
            while text.bytes().len() < PIECE_BYTES
                && let Some(chapter) = self.chapters.front_mut()
            {
                if chapter(&mut text) {
                    self.chapters.pop_front();
                }
            }
            bytes += text.bytes().len() as u64;
            piece.append(text.bytes());
            if piece.is_empty() && !std::mem::replace(&mut told, true) {
                telemetry.add(bytes, began.elapsed());
            }
        })
    }
}
