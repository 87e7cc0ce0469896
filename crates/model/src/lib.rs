//! model
/// What to do above the length limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Drop from the head.
    #[default]
    DropHead,
    /// Refuse publishes.
    RejectPublish,
}
/// Effective arguments of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueOptions {
    /// Ready messages at most.
    pub max_length: Option<u64>,
    /// Ready bytes at most.
    pub max_length_bytes: Option<u64>,
    /// Above the limit.
    pub overflow: Overflow,
}
