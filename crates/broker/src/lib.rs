//! The broker: sessions, the control plane's registry, queues behind their locks, and commit streams.
//!
//! It turns clients' bytes into calls on queues, turns the effects of these calls into bytes, and provides disk work as jobs.
//! The embedding program provides threads, sockets and time: [`Connection`] is driven by its task, [`Broker::next_job`] and
//! [`Broker::next_read`] by disk threads.
//!
//! This crate must not know threads, sockets, files, clocks or tokio.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod alarms;
pub mod allowance;
pub mod asked;
pub mod authenticate;
pub mod bodies;
pub mod broker;
pub mod claims;
pub mod clients;
pub mod connection;
pub mod connection_state;
pub mod consumer_timeout;
mod dead_letter;
mod decision_answer;
pub mod deferred;
mod deferred_turn;
pub mod direct;
pub mod encryption;
pub mod events;
pub mod exchange_counters;
pub mod expiration;
mod expire;
pub mod firehose;
pub mod foreign;
mod gathering;
pub mod group;
pub mod headers;
pub mod held_answers;
mod held_messages;
pub mod history_copy;
mod holders;
mod id_hash;
pub mod inquiry;
mod letters_in_memory;
pub mod log_lines;
pub mod mailbox;
mod moves;
pub mod names;
pub mod notices;
mod offered_chunk;
pub mod offline;
pub mod outbox;
pub mod output;
mod own_exchanges;
mod own_messages;
pub mod partial;
pub mod peer;
pub mod placed;
mod placed_entries;
pub mod planted;
mod policies;
mod policy_walk;
pub mod protocol;
mod protocol_info;
pub mod publish_origin;
mod published;
mod publisher_sequence;
mod questions;
pub mod queue_handle;
pub mod queue_metrics;
mod queue_stream;
pub mod quota;
pub mod reads;
mod recent_history;
pub mod records;
mod recovered_logs;
pub mod recovered_shared;
pub mod recovery;
pub mod registry;
pub mod remote;
pub mod replicas;
pub mod reply;
pub mod reply_to;
pub mod route;
mod scan;
pub mod search;
pub mod services;
pub mod settings;
pub mod settlement;
pub mod shared_messages;
pub mod spare_capacity;
mod spreading;
pub mod stats;
mod stopping_panic;
mod stored_messages;
pub mod streams;
pub mod taps;
pub mod ticket;
pub mod time;
pub mod traffic;
pub mod transfer;
pub mod turn_budget;
pub mod unauthenticated;
mod unconverted;
mod unfinished;
mod unowned;
pub mod unreadable;
pub mod views;
pub mod wait_for;
mod wall_time;

pub use alarms::{AlarmSource, Alarms};
pub use authenticate::Authenticate;
pub use bodies::BodyJob;
pub use broker::{Broker, Setup, StartError};
pub use connection::Connection;
pub use connection_state::{ConnectionState, ConnectionStatus};
pub use encryption::{Encryption, PeerCertificate};
pub use foreign::Foreign;
pub use log_lines::category;
pub use outbox::Wake;
pub use output::Output;
pub use peer::Peer;
pub use protocol::{Protocol, Protocols, Session};
pub use quota::{CountsElsewhere, Quota};
pub use reads::ReadJob;
pub use settings::Settings;
pub use time::{Nanos, Now};
pub use unauthenticated::{Handshake, Unauthenticated};
pub use unowned::UnownedLog;
pub use wall_time::{Reading, TimeSource, WallStep, WallTime};

/// Types that listings of queues and consumers use.
pub use leveret_queue::{
    Activity, ConsumerMode, ConsumerStatus, Count as QueueCount, DeleteIf, Epoch, GetOutcome, GroupStatus, KeptOffset,
    Peeked, QueueCounts, QueueGauges, QueueRates, QueueState, QueueStatus, QueueWait, QuorumStatus, SetAside,
    StreamStatus, WaitReason,
};

/// The reason why a message died.
pub use leveret_message::Reason as Death;
