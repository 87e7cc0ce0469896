//! The metadata of a node: vhosts, users, permissions, policies, exchanges, queues and bindings.
//!
//! [`Model`] is a deterministic state machine: a [`Command`] is validated against the state left by all earlier
//! commands, takes effect at once and yields the [`Change`]s in order, together with the record to log if one of them
//! survives a restart. [`Topology`] is the state as an immutable snapshot with shared structure. Only [`authorize`]
//! yields the [`Permit`] that every command requires.
//!
//! This crate must not know of sockets, disks, clocks, protocols or messages, and it draws no random numbers: the
//! same commands give the same state on every node and in every replay.

mod arguments;
mod authorize;
mod binding;
mod change;
mod command;
mod deduplication;
mod deprecated;
mod digests;
mod earlier_priorities;
mod exchange;
mod hash_on;
mod home;
mod id;
mod identity;
mod judged_again;
mod leader_locator;
mod limits;
mod line_ends;
mod member;
mod model;
mod permission;
mod placement;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod policy;
mod queue;
mod queue_arguments;
mod queue_counts;
mod queue_type;
mod record;
mod redeclare_mismatch;
mod refused;
mod regular_expression;
pub mod super_stream;
mod topic_permission;
mod topology;
mod user;
mod value;
mod vhost;
mod vhost_defaults;

pub use arguments::{ARGUMENT_DEPTH_MAX, Arguments};
pub use authorize::{Action, Permit, Resource, authorize, authorize_client, authorize_local};
pub use binding::{Binding, Destination, TOPIC_HASHES_MAX};
pub use change::{Change, CommandOutcome, Submitted};
pub use command::{
    Bind, Command, ConvertQueue, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, DestinationName, PutUser,
    SetPermissions, SetTopicPermissions,
};
pub use deduplication::Deduplication;
pub use deprecated::DeprecatedFeatures;
pub use earlier_priorities::EarlierPriorities;
pub use exchange::{Exchange, ExchangeType, HeadersMatch};
pub use hash_on::{HashOn, HashProperty, hash_weight};
pub use home::Home;
pub use id::{ConnectionId, ExchangeId, MemberNumber, QueueId};
pub use identity::{
    AskedGrants, Glob, GrantAnswer, GrantQuestion, Grants, IDENTITY_BYTES_MAX, INTERNAL_BACKEND, Identity, Right,
    ScopeRule, Scopes,
};
pub use leader_locator::LeaderLocator;
pub use limits::Limits;
pub use line_ends::without_line_ends;
pub use member::{AppliedEntry, Member, PutMember};
pub use model::Model;
pub use permission::{Pattern, Permission};
pub use placement::{PlacementNumber, QueuePlacement};
pub use policy::{
    ApplyTo, EffectiveArgument, EffectiveQueue, MatchedPolicies, NamePattern, OBSOLETE_KEYS, Policy, PolicyKind,
    SetPolicy, ValueSource,
};
pub use queue::{
    DeadLetterOptions, DelayedRetry, Durability, Overflow, Queue, QueueOptions, RECORDS_PREFIX, RetryType,
};
pub use queue_arguments::stream::duration_ms;
pub use queue_arguments::{check_consumer_arguments, consumer_priority, consumer_timeout_ms};
pub use queue_type::{EnabledTypes, QueueType};
pub use record::{JoinedRecords, RecordError, entry_of, record_of_applied};
pub use redeclare_mismatch::RedeclareMismatch;
pub use refused::{Refused, RefusedKind};
pub use regular_expression::RegularExpression;
pub use topic_permission::TopicPermission;
pub use topology::{BindingsBetween, BindingsOfSource, KnownObjects, Topology};
pub use user::User;
pub use value::Value;
pub use vhost::{LimitOwner, LimitValues, MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES, VhostSettings};
pub use vhost_defaults::{VhostDefaults, VhostUser};
