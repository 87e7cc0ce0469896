//! A chunk as it is offered to a stream.

use std::sync::Arc;

use leveret_message::chunk::SharedChunk;

use crate::stream_state::WriterRun;

/// A chunk as it is offered to a stream.
#[derive(Debug, Clone, Copy)]
pub struct OfferedChunk<'a> {
    /// The chunk.
    pub chunk: &'a Arc<SharedChunk>,
    /// Its messages as their publisher numbers them, if that has a name.
    pub writer: Option<&'a WriterRun>,
}

impl<'a> OfferedChunk<'a> {
    /// A chunk of a publisher without a name.
    pub fn unnamed(chunk: &'a Arc<SharedChunk>) -> Self {
        Self { chunk, writer: None }
    }
}
