//! Settings of HTTP: timeouts and limits of its listeners, and limits, restrictions and headers of the management
//! API.

use std::collections::BTreeMap;

/// Timeouts of an HTTP listener's connections, in milliseconds, and limits of their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// `request_timeout`: longest time for receiving the head of a request, and between connection and login.
    pub request_timeout_ms: u64,
    /// `idle_timeout`: longest time between two requests of an authenticated client, and between two pieces of any
    /// request's body.
    pub idle_timeout_ms: u64,
    /// `inactivity_timeout`: longest time in which a client receives nothing of a response that is waiting for it.
    pub inactivity_timeout_ms: u64,
    /// `max_keepalive`: number of requests after which a connection is closed.
    pub max_keepalive: u64,
    /// `max_connections`: limit of the listener's connections; `None` for no limit.
    pub max_connections: Option<u32>,
    /// `max_connections_per_address`: limit of the connections from one address; `None` for no limit.
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

/// Limits and restrictions of the management API, and headers of its responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementApi {
    /// `management.http.max_body_size`: limit of a request's body in bytes.
    pub max_body_size: u64,
    /// `management.http.max_definitions_size`: limit of definitions in bytes.
    pub max_definitions_size: u64,
    /// `management.http.max_bodies_size`: limit of the bodies of all requests in progress, in bytes.
    pub max_bodies_size: u64,
    /// `management.disable_basic_auth`: whether logins with name and password are refused, except for
    /// sessions of the page.
    pub disable_basic_auth: bool,
    /// `management.login_session_timeout`: time after which a session of the page ends, in minutes.
    pub login_session_timeout_min: u64,
    /// `management.require_auth_for_api_reference`.
    pub require_auth_for_api_reference: bool,
    /// `management.http.hide_allow_header`: whether only responses with the status 405 list the methods of a path.
    pub hide_allow_header: bool,
    /// `management.definitions.require_json_extension`: whether an uploaded file of definitions needs the extension
    /// `.json`.
    pub require_json_extension: bool,
    /// `management.restrictions.operator_policy_changes.disabled`.
    pub operator_policy_changes_disabled: bool,
    /// `management.restrictions.quorum_queue_replica_operations.disabled`.
    pub quorum_queue_replica_operations_disabled: bool,
    /// Headers of every response, by lower-case names: `management.csp.policy` and similar keys.
    pub headers: BTreeMap<&'static str, String>,
}

impl Default for ManagementApi {
    fn default() -> Self {
        Self {
            max_body_size: 10_000_000,
            max_definitions_size: 64 << 20,
            max_bodies_size: 128 << 20,
            disable_basic_auth: false,
            login_session_timeout_min: 480,
            require_auth_for_api_reference: false,
            hide_allow_header: false,
            require_json_extension: false,
            operator_policy_changes_disabled: false,
            quorum_queue_replica_operations_disabled: false,
            headers: BTreeMap::new(),
        }
    }
}
