//! Chunks: written from messages of both protocols and read again, damaged, and those of a segment of RabbitMQ.

mod damage;
mod rabbitmq;
mod round_trip;

use bytes::Bytes;
use leveret_message::chunk::{Chunk, ChunkBuilder};
use leveret_message::deliver::{Delivery, to_amqp10};
use leveret_message::{Batch, BatchBuilder, StoredMessage};

pub(crate) const NOW_MS: u64 = 1_700_000_000_000;

/// A batch of these messages.
pub(crate) fn batch<'m>(messages: impl IntoIterator<Item = StoredMessage<'m>>) -> Batch {
    let mut builder = BatchBuilder::default();
    messages.into_iter().for_each(|message| builder.push_message(&message));
    builder.finish()
}

/// The chunk of a batch, with a Bloom filter of the usual size.
pub(crate) fn chunk_of(batch: &Batch) -> Chunk {
    let mut builder = ChunkBuilder::new(16);
    builder.push_all(batch, 0..batch.len()).unwrap();
    builder.finish()
}

/// The sections that a receiver over AMQP 1.0 gets when the message was just received.
pub(crate) fn sections_of(message: &StoredMessage<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    let now_ms = message.envelope.received_ms;
    to_amqp10(message, &Delivery { now_ms, ..Delivery::default() }, &mut payload);
    payload
}

/// A chunk of these entries, whatever they are.
pub(crate) fn chunk_of_entries(messages: &[&[u8]]) -> Bytes {
    let mut builder = ChunkBuilder::new(16);
    for message in messages {
        builder.push_sections(message, None, NOW_MS).unwrap();
    }
    builder.finish().to_bytes()
}
