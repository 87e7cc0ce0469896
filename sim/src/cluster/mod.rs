//! Placements of many nodes in one thread: an executor whose next task the seed picks, links, nodes that lose power, and a judge.

mod bare;
mod channels;
mod counter;
mod direct;
mod executor;
mod files;
mod forming;
mod judge;
mod lanes;
mod members;
mod metadata;
mod nemesis;
mod node;
mod runtime;
pub mod schedule;
mod world;

pub use bare::bare_commits;
pub use counter::{AppliedEntries, Counted, Counter};
pub use direct::{direct_commits, real_commits};
pub use executor::{now, polls};
pub use forming::run_forming_seed;
pub use metadata::{MetadataCounts, run_forgetful_leader, run_lagging_node, run_metadata_seed};
pub use nemesis::{Faults, run_seed};
pub use world::{Acknowledged, Cluster, small_files};
