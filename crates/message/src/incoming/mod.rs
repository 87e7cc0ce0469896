//! Messages as they come in: checked, and cut into what routing needs and what is stored.

mod amqp091;
mod amqp10;

pub use amqp10::{Incoming, InvalidMessage, amqp10};
pub use amqp091::{FurtherKeys, InvalidKeys, without_blind_copies};
