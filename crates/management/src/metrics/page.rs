//! One answer: chapters that are written while it is sent, so that only a piece of it is ever in memory.

use std::collections::VecDeque;
use std::time::Instant;

use axum::response::Response;
use leveret_metrics::{CONTENT_TYPE, Text};

use super::telemetry::Telemetry;
use crate::stream;

/// A piece is about this long.
pub(super) const PIECE_BYTES: usize = 32 << 10;

/// Writes its next piece; true when that was the last.
pub(super) type Chapter = Box<dyn FnMut(&mut Text) -> bool + Send>;

/// See the module.
pub(super) struct Page {
    chapters: VecDeque<Chapter>,
}

impl Page {
    pub(super) fn new() -> Self {
        Page { chapters: VecDeque::new() }
    }

    /// What is short is written at once.
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

    /// Sends it. At its end `telemetry` learns how long and large it was.
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
