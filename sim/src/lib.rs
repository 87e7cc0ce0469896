//! The deterministic simulator: the shipped code on simulated parts, every choice taken from a seed.
//!
//! So far the disk. It must not know a real clock, thread, file or socket.

pub mod disk;
pub mod random;
