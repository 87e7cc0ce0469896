//! The client of RabbitMQ's stream protocol.
//!
//! It logs in by itself; commands follow once [`StreamEvent::Connected`] was received. What it checks: frames, the order of the handshake,
//! confirms of ids that were published and not confirmed, chunks within the credit, dense offsets, and the checksum of every chunk.

mod client;

pub use client::{ChunkEntries, Client, Span, StreamEvent, StreamOptions};
