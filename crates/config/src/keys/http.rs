//! The keys of HTTP listeners, the same after each of their prefixes, and those of the management API.

use super::Key;
use super::tls::{management, prometheus};
use super::working::{in_bytes, key, listener};
use crate::config::Config;
use crate::http::HttpLimits;
use crate::units::{boolean, integer, milliseconds};

/// Longest timeout: ten days.
const TIMEOUT_MS_MAX: u64 = 864_000_000;

/// Longest session: a year.
const SESSION_MINUTES_MAX: u64 = 525_600;

fn time(value: &str) -> Result<u64, String> {
    match milliseconds(value, 1)? {
        0 => Err("0 would close every connection at once; expected milliseconds, or a time such as 10s".to_owned()),
        long if long > TIMEOUT_MS_MAX => {
            Err(format!("'{value}' is more than ten days ({TIMEOUT_MS_MAX} milliseconds)"))
        }
        time => Ok(time),
    }
}

fn number(value: &str) -> Result<Option<u32>, String> {
    if value == "infinity" { Ok(None) } else { Ok(Some(integer(value, 0, u64::from(u32::MAX))? as u32)) }
}

/// The keys after `$prefix`, which set fields of `$limits`.
macro_rules! times {
    ($prefix:literal, $limits:expr) => {
        [
            key(
                concat!($prefix, ".request_timeout"),
                "milliseconds",
                "5000",
                "time that the head of a request may take, and that a client without a login may stay",
                |config, _, value| {
                    $limits(config).request_timeout_ms = time(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".idle_timeout"),
                "milliseconds",
                "60000",
                "time that a client may be silent between requests, or between two pieces of a request's body",
                |config, _, value| {
                    $limits(config).idle_timeout_ms = time(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".inactivity_timeout"),
                "milliseconds",
                "300000",
                "time that a client may read nothing of an answer that waits for it",
                |config, _, value| {
                    $limits(config).inactivity_timeout_ms = time(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".max_keepalive"),
                "integer",
                "1000",
                "requests after which a connection is closed",
                |config, _, value| {
                    $limits(config).max_keepalive = integer(value, 1, u64::MAX)?;
                    Ok(())
                },
            ),
        ]
    };
}

/// The keys with limits of connections, after `$prefix`.
macro_rules! numbers {
    ($prefix:literal, $limits:expr) => {
        [
            key(
                concat!($prefix, ".max_connections"),
                "integer or infinity",
                "4096",
                "connections of this listener; the limit of open files may allow fewer",
                |config, _, value| {
                    $limits(config).max_connections = number(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".max_connections_per_address"),
                "integer or infinity",
                "1024",
                "connections of one address; raise it behind a proxy, whose address all clients share",
                |config, _, value| {
                    $limits(config).max_connections_per_address = number(value)?;
                    Ok(())
                },
            ),
        ]
    };
}

fn management_tcp(config: &mut Config) -> &mut HttpLimits {
    &mut config.management.limits
}

fn management_ssl(config: &mut Config) -> &mut HttpLimits {
    &mut management(config).endpoint.limits
}

fn prometheus_tcp(config: &mut Config) -> &mut HttpLimits {
    &mut config.prometheus.limits
}

fn prometheus_ssl(config: &mut Config) -> &mut HttpLimits {
    &mut prometheus(config).endpoint.limits
}

/// Timeouts and limits of every listener.
pub(super) const LISTENERS: [&[Key]; 9] = [
    &times!("management.tcp", management_tcp),
    &numbers!("management.tcp", management_tcp),
    &times!("management.ssl", management_ssl),
    &numbers!("management.ssl", management_ssl),
    // Older names of the keys of management.tcp.
    &times!("management.listener.server", management_tcp),
    &times!("prometheus.tcp", prometheus_tcp),
    &numbers!("prometheus.tcp", prometheus_tcp),
    &times!("prometheus.ssl", prometheus_ssl),
    &numbers!("prometheus.ssl", prometheus_ssl),
];

/// Sets a header of every response.
fn header(config: &mut Config, name: &'static str, value: &str) -> Result<(), String> {
    if value.is_empty() || value.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) {
        return Err(format!("'{}' is no value of a header: expected printable ASCII", value.escape_debug()));
    }
    config.management_api.headers.insert(name, value.to_owned());
    Ok(())
}

macro_rules! header_key {
    ($name:literal, $header:literal) => {
        key(
            $name,
            "text",
            "",
            concat!("the header ", $header, " of every answer of the HTTP API"),
            |config, _, value| header(config, $header, value),
        )
    };
}

macro_rules! flag_key {
    ($name:literal, $field:ident, $doc:literal) => {
        key($name, "boolean", "false", $doc, |config, _, value| {
            config.management_api.$field = boolean(value)?;
            Ok(())
        })
    };
}

/// Keys of the management API.
pub(super) const API: &[Key] = &[
    key("management.http.max_body_size", "bytes", "10000000", "largest body of a request", |config, _, value| {
        config.management_api.max_body_size = in_bytes(value, 0, 1 << 40)?;
        Ok(())
    }),
    key(
        "management.http.max_definitions_size",
        "bytes",
        "67108864",
        "largest definitions that may be imported; management.http.max_body_size may allow more",
        |config, _, value| {
            config.management_api.max_definitions_size = in_bytes(value, 0, 1 << 40)?;
            Ok(())
        },
    ),
    key(
        "management.http.max_bodies_size",
        "bytes",
        "134217728",
        "bodies of all requests at the same time; a request that doesn't fit is answered with 503, unless it is the only one. Reading a body takes up to four times its length",
        |config, _, value| {
            config.management_api.max_bodies_size = in_bytes(value, 0, 1 << 40)?;
            Ok(())
        },
    ),
    flag_key!(
        "management.disable_basic_auth",
        disable_basic_auth,
        "whether the HTTP API refuses names and passwords in requests; a login with the form of the page begins a session, and the local socket of the command line stays open"
    ),
    flag_key!(
        "management.oauth_disable_basic_auth",
        disable_basic_auth,
        "the older name of management.disable_basic_auth"
    ),
    key(
        "management.login_session_timeout",
        "minutes",
        "480",
        "time after which a session of the page ends and asks for the password again",
        |config, _, value| {
            config.management_api.login_session_timeout_min = integer(value, 1, SESSION_MINUTES_MAX)?;
            Ok(())
        },
    ),
    flag_key!(
        "management.require_auth_for_api_reference",
        require_auth_for_api_reference,
        "whether the description of the API requires a login"
    ),
    flag_key!(
        "management.http.hide_allow_header",
        hide_allow_header,
        "whether only the answer 405 names the methods of a path"
    ),
    flag_key!(
        "management.definitions.require_json_extension",
        require_json_extension,
        "whether a file of definitions that a browser sends has to have a name that ends in .json"
    ),
    flag_key!(
        "management.restrictions.operator_policy_changes.disabled",
        operator_policy_changes_disabled,
        "whether the HTTP API refuses to set and delete operator policies"
    ),
    flag_key!(
        "management.restrictions.quorum_queue_replica_operations.disabled",
        quorum_queue_replica_operations_disabled,
        "whether the HTTP API refuses to add and remove members of quorum queues"
    ),
    header_key!("management.csp.policy", "content-security-policy"),
    header_key!("management.hsts.policy", "strict-transport-security"),
    header_key!("management.headers.content_type_options", "x-content-type-options"),
    header_key!("management.headers.xss_protection", "x-xss-protection"),
    header_key!("management.headers.frame_options", "x-frame-options"),
    header_key!("management.headers.referrer_policy", "referrer-policy"),
    key(
        "prometheus.tcp.listener",
        "none or [address:]port",
        "15692",
        "listener of the metrics without TLS; none disables it",
        |config, _, value| {
            config.prometheus_is_off = value == "none";
            if !config.prometheus_is_off {
                let listener = listener(value)?;
                config.prometheus.port = listener.port;
                config.prometheus.ip = listener.host.or(config.prometheus.ip.take());
            }
            Ok(())
        },
    ),
];
