//! Messages as they come in: checked, and cut into what routing needs and what is stored.

mod amqp091;
mod amqp10;
mod plain;

pub use amqp10::{BodyCheck, Incoming, InvalidMessage, amqp10, amqp10_sections, amqp10_start};
pub use amqp091::{FurtherKeys, InvalidKeys, without_blind_copies};
pub use plain::Plain;
