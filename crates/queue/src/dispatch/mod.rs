//! The dispatcher: consumers, whose turn each is, and what it may get.

mod comebacks;
mod consumer;
mod consumers;
mod deliveries;
mod order;
mod portion;
mod seeker;
mod single_active;

pub(crate) use comebacks::Comebacks;
pub(crate) use consumer::Consumer;
pub use consumer::{ConsumerFlow, ConsumerMode, ConsumerOptions, CreditState, Flow, LatencyBuckets, Unsent};
pub(crate) use consumers::Consumers;
pub use deliveries::Deliveries;
pub use portion::Portion;
pub(crate) use seeker::Seeker;
pub use single_active::Activity;
pub(crate) use single_active::SingleActive;
