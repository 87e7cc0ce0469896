//! Another Raft, raft-rs, in a simulation with the same links, disks, clients and faults as the placements of `leveret-sim`. What it does
//! under a schedule shows what can be asked of an engine: a promise that it keeps, or a time after which it goes on, isn't too much.

#![forbid(unsafe_code)]

mod cluster;
mod node;

pub use cluster::run_schedule;
