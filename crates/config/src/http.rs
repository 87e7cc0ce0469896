//! Settings of HTTP: times and limits of its listeners, and limits, restrictions and headers of the management API.

use std::collections::BTreeMap;

/// How long connections of a listener for HTTP may do nothing, and how many there may be. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// `request_timeout`: how long the head of a request may take, and how long a client may be connected without having
    /// logged in.
    pub request_timeout_ms: u64,
    /// `idle_timeout`: how long a client that has logged in may be silent between requests, and how long any client may
    /// be between two pieces of a request's body.
    pub idle_timeout_ms: u64,
    /// `inactivity_timeout`: how long a client may take nothing of an answer that waits for it.
    pub inactivity_timeout_ms: u64,
    /// `max_keepalive`: requests after which a connection is closed.
    pub max_keepalive: u64,
    /// `max_connections`: connections of the listener; `None` for no limit.
    pub max_connections: Option<u32>,
    /// `max_connections_per_address`: the same of one address.
    pub max_connections_per_address: Option<u32>,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            request_timeout_ms: 5_000,
            idle_timeout_ms: 60_000,
            inactivity_timeout_ms: 300_000,
            max_keepalive: 1_000,
            max_connections: Some(4_096),
            max_connections_per_address: Some(1_024),
        }
    }
}

/// Limits and restrictions of the management API, and headers of its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementApi {
    /// `management.http.max_body_size`: bytes of a request's body.
    pub max_body_size: u64,
    /// `management.http.max_definitions_size`: bytes of definitions.
    pub max_definitions_size: u64,
    /// `management.http.max_bodies_size`: bytes of the bodies of all requests that are under way.
    pub max_bodies_size: u64,
    /// `management.disable_basic_auth`: whether names and passwords let nobody in.
    pub disable_basic_auth: bool,
    /// `management.require_auth_for_api_reference`.
    pub require_auth_for_api_reference: bool,
    /// `management.http.hide_allow_header`: whether only answers with the status 405 name the methods of a path.
    pub hide_allow_header: bool,
    /// `management.definitions.require_json_extension`: whether a form's file of definitions has to be called so.
    pub require_json_extension: bool,
    /// `management.restrictions.operator_policy_changes.disabled`.
    pub operator_policy_changes_disabled: bool,
    /// `management.restrictions.quorum_queue_replica_operations.disabled`.
    pub quorum_queue_replica_operations_disabled: bool,
    /// Headers of every answer, by their names in small letters: `management.csp.policy` and the like.
    pub headers: BTreeMap<&'static str, String>,
}

impl Default for ManagementApi {
    fn default() -> Self {
        Self {
            max_body_size: 10_000_000,
            max_definitions_size: 64 << 20,
            max_bodies_size: 128 << 20,
            disable_basic_auth: false,
            require_auth_for_api_reference: false,
            hide_allow_header: false,
            require_json_extension: false,
            operator_policy_changes_disabled: false,
            quorum_queue_replica_operations_disabled: false,
            headers: BTreeMap::new(),
        }
    }
}
