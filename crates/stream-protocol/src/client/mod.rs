//! The client's side of the protocol: requests are encoded, answers are decoded. For tests and load generators.

mod lists;
mod prepared;
mod publishing;
pub mod request;
mod server_command;

pub use lists::{Brokers, Ids, PublishErrors, Stats, StreamMetadataEntry, StreamsMetadata};
pub use prepared::PreparedPublish;
pub use publishing::{Publishing, SentSubBatch};
pub use server_command::ServerCommand;
