//! The protocol-independent part of a client's connection: identity, login, vhost, publishes that wait for the disk,
//! confirms, transactions, the pace of deliveries.
//!
//! Each protocol's crate holds a [`ClientConnection`] in its own session, adds its states, and turns frames into calls and
//! effects into frames.
//!
//! This crate must not know codecs, threads, sockets or clocks.
#![forbid(unsafe_code)]

pub mod client_connection;
pub mod commit;
pub mod confirms;
pub mod consumer_turns;
pub mod driven;
pub mod early_signals;
pub mod fan_out;
#[cfg(test)]
mod fixture;
pub mod gone;
pub mod overdue;
pub mod pace;
pub mod silence;
pub mod stream_start;
pub mod transaction;
pub mod undurable;

pub use client_connection::ClientConnection;
