//! The shell around `broker`: cores, sockets, disk threads, timers, the clock and the file system.
//!
//! A [`Node`] locks its data directory, lets the broker recover from it, and then moves bytes. Each core is a thread
//! with a runtime of its own. Each connection is one task on the core that had the least to do when it was accepted. A
//! task reads into its core's buffer, gives the bytes to the broker's `Connection`, and writes its output. Disk work is
//! done by three threads that core threads never wait for. The log has a thread per output.
//!
//! It must not know frames, queues, messages or users. It never looks into the bytes it moves.
//!
//! Reading order: [`Node`], `cores` (`cores/connection.rs` is the heart), `disk`; [`offline`] is for directories without a node.

mod alarms;
mod clock;
mod clock_follower;
mod cluster;
mod clustering;
mod configuration;
mod cores;
mod data_link;
mod descriptors;
mod disk;
mod first_start;
mod first_user;
mod http;
mod identity;
mod incoming;
pub mod listener_kind;
mod local_socket;
mod lock;
mod logging;
mod memory;
mod next_start;
mod node;
pub mod offline;
mod population;
mod ports;
mod random;
mod signals;
mod standby;
mod start_watch;
mod terminal;
mod tls;
mod volume;

pub use alarms::AlarmLimits;
pub use clock::Clock;
pub use cluster::gossip::ToldByMember;
pub use cluster::page_sessions::PageSessions;
pub use cluster::view::{ClusterFigures, ClusterSeen, ClusterView, LinkFigures, MemberLinks};
pub use clustering::{ClusterOptions, FOUND_CLUSTER};
pub use configuration::{
    alarm_limits, amqp_addresses, amqps_addresses, cluster_addresses, http_address, mqtt_addresses, node_name,
    stream_addresses,
};
pub use cores::{Listener, SocketOptions};
pub use descriptors::{Descriptors, HttpDescriptor};
pub use disk::FsDisk;
pub use first_user::FirstUser;
pub use identity::IdentityError;
pub use incoming::next as next_connection;
pub use leveret_backends::{BackendsError, LoopbackUsers, Passwords};
pub use leveret_cluster::{ReplicaRole, ReplicaStatus};
pub use leveret_peer::{
    FORWARDED_BYTES_MAX, ForwardedIdentity, ForwardedRequest, ForwardedResponse, Gossip, GossipCount,
    GossipEndedSession, GossipListener, GossipReplica, GossipSetting, TokenKey,
};
pub use listener_kind::ListenerKind;
pub use local_socket::{LocalSocket, LocalSocketError};
pub use lock::{DirectoryLock, LockError};
pub use logging::{Log, LogError, RecentLine, Tail};
pub use memory::{allowed_memory_bytes, refuse_huge_pages};
pub use next_start::{Joined, NextStart, NextStartError, START_ANEW};
pub use node::{Node, NodeHandle, NodeOptions, StartError};
pub use ports::{Listening, Ports};
pub use signals::{asked_to_end, handle_signals};
pub use standby::{START_APP, STOP_APP, Standby};
pub use terminal::harmless;
pub use tls::{HttpsStream, Tls, TlsError, cipher_suites, tls_versions};
pub use volume::SmallVolume;
