//! Publishers that wait: those that are held back, and those that are paced to the consumers.

mod held;
mod pacing;

pub(crate) use held::HeldPublishers;
pub(crate) use pacing::Pacing;
pub use pacing::{PublishSlot, SmoothRate};
