//! The deterministic simulator: the shipped broker, queues, log and model on virtual cores, with clients, disk and time
//! in memory. Every choice comes from a seed.
//!
//! A [`world::World`] is a broker with its tasks and disk lanes. A [`workload::Workload`] is the clients' operations on
//! it. The [`ledger::Ledger`] records what the clients were promised. After a power cut an [`audit`] reads what is
//! there, and the [`verdict`] compares both. The same seed gives the same run, bit for bit.
//!
//! This crate must not know a real clock, thread, file or socket.
#![forbid(unsafe_code)]

pub mod amqp091;
pub mod amqp10;
pub mod audit;
pub mod backend;
mod backlog;
pub mod body;
pub mod clock;
pub mod cluster;
pub mod content;
pub mod cores;
#[cfg(feature = "planted-bugs")]
pub mod cuts;
pub mod disk;
pub mod event_hash;
pub mod failure;
pub mod lanes;
pub mod ledger;
pub mod life;
pub mod link;
pub mod net;
pub mod peer;
pub mod pipe;
pub mod placed;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod quiet;
pub mod random;
mod restart;
pub mod seed;
pub mod sightings;
pub mod stream_protocol;
pub mod streams;
pub mod tally;
pub mod task;
pub mod topology;
pub mod trouble;
pub mod verdict;
pub mod workload;
pub mod world;
pub mod worlds;
