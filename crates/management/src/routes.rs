use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};

use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;
use crate::{health, maintenance, overview, queues, topic_permissions};

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// First words of RabbitMQ's routes that aren't built yet.
const NOT_BUILT: &[&str] = &[
    "aliveness-test",
    "all-configuration",
    "auth",
    "bindings",
    "channels",
    "cluster-name",
    "config",
    "connections",
    "consumers",
    "definitions",
    "deprecated-features",
    "exchanges",
    "extensions",
    "feature-flags",
    "federation-links",
    "global-parameters",
    "health",
    "healthchecks",
    "login",
    "node",
    "nodes",
    "operator-policies",
    "parameters",
    "permissions",
    "policies",
    "queues",
    "rebalance",
    "reset",
    "shovels",
    "stream",
    "topic-permissions",
    "user-limits",
    "users",
    "version",
    "vhost-limits",
    "vhosts",
];

/// The routes of the HTTP API.
pub fn api(api: Api) -> Router {
    Router::new()
        .route("/api/overview", get(overview::overview))
        .route("/api/whoami", get(overview::whoami))
        .route("/api/health/checks/alarms", get(health::alarms))
        .route("/api/health/checks/local-alarms", get(health::local_alarms))
        .route("/api/health/checks/is-in-service", get(health::in_service))
        .route("/api/health/checks/node-is-quorum-critical", get(health::quorum_critical))
        .route("/api/health/checks/ready-to-serve-clients", get(health::ready))
        .route("/api/health/checks/virtual-hosts", get(health::virtual_hosts))
        .route("/api/health/checks/certificate-expiration/{within}/{unit}", get(health::certificates))
        .route("/api/health/checks/port-listener/{port}", get(health::port))
        .route("/api/health/checks/protocol-listener/{*protocol}", get(health::protocol))
        .route(
            "/api/nodes/{node}/maintenance",
            get(maintenance::show).put(maintenance::drain).delete(maintenance::revive),
        )
        .route("/api/queues", get(queues::list))
        .route("/api/queues/{vhost}", get(queues::list_of_vhost))
        .route("/api/queues/{vhost}/{name}", get(queues::show).put(queues::declare).delete(queues::delete))
        .route("/api/queues/{vhost}/{name}/contents", delete(queues::purge))
        .route("/api/topic-permissions", get(topic_permissions::list))
        .route(
            "/api/topic-permissions/{vhost}/{user}",
            get(topic_permissions::show).put(topic_permissions::put).delete(topic_permissions::delete),
        )
        .route("/api/vhosts/{vhost}/topic-permissions", get(topic_permissions::list_of_vhost))
        .route("/api/users/{user}/topic-permissions", get(topic_permissions::list_of_user))
        .fallback(other)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(api)
}

/// What no route matched. A route of RabbitMQ's that isn't built says so, to those who may come in.
async fn other(uri: Uri, identity: Result<Identity, Error>) -> Response {
    let word = uri.path().strip_prefix("/api/").and_then(|rest| rest.split('/').next());
    if !word.is_some_and(|word| NOT_BUILT.contains(&word)) {
        return Error::NotFound.into_response();
    }
    match identity {
        Ok(_) => Error::NotImplemented(format!("{} is not built yet", uri.path())).into_response(),
        Err(error) => error.into_response(),
    }
}
