//! The one table of routes. Access, the description of the API, responses to other methods, and the test that calls
//! every route as every kind of user are derived from it.

use leveret_model::{Permission, TopicPermission};

use crate::call::{Call, HandlerResult, json};
use crate::route::{Route, route};
use crate::{
    attention, auth, bindings, cluster, connections, consumers, damage, definitions, deprecated_features, exchanges,
    feature_flags, granted, health, limits, maintenance, missing, nodes, openapi, overview, parameters, past,
    permissions, policies, publish, queues, stream_clients, super_streams, tap, topic_permissions, traces, transfers,
    users, vhosts, watch,
};

/// All routes.
#[rustfmt::skip]
pub(crate) static ROUTES: &[Route] = &[
    route!(Get "/api/openapi.json" Public document, "This description of the API"),
    route!(Get "/api/overview" Management overview::overview, "Totals and rates of the whole node"),
    route!(Get "/api/attention" Management attention::all, "What waits or goes wrong, by reason and severity, the worst first; limit, why, severity, vhost"),
    route!(Get "/api/watch" Management watch::watch, "Sends the answers of GET routes (path=/api/..., up to 16 times) as server-sent events, again when they have changed"),
    route!(Get "/api/tap/queues/{vhost}/{queue}" Vhost tap::queue, "Sends messages as they come to a queue and leave it, as server-sent events; rate, body_bytes, decode"),
    route!(Get "/api/tap/exchanges/{vhost}/{exchange}" Vhost tap::exchange, "Sends messages as clients publish them to an exchange, as server-sent events; rate, body_bytes, decode"),
    route!(Get "/api/history/node" Monitor past::node, "Numbers of the node by the minute; from and to in milliseconds since 1970"),
    route!(Get "/api/history/queues/{vhost}/{queue}" Vhost past::queue, "Numbers of a queue by the minute; from and to in milliseconds since 1970"),
    route!(Get "/api/events" Monitor past::events, "What happened to the node: starts, alarms, policies, many disconnects; from and to in milliseconds since 1970"),
    route!(Get "/api/whoami" Management overview::whoami, "The user of the request"),
    route!(Get "/api/version" Public overview::version, "The version of RabbitMQ that this node is compatible with"),
    route!(Get "/api/cluster/status" Monitor cluster::status, "The members of the cluster, and which of them run"),
    route!(Get "/api/cluster/peers" Monitor cluster::peers, "The nodes that discovery finds"),
    route!(Get "/api/cluster/metadata" Monitor cluster::metadata, "The members' replicas of the metadata, with their indexes"),
    route!(Put "/api/cluster/join" Administrator cluster::join, "Makes the node a member of another one's cluster"),
    route!(Put "/api/cluster/reset" Administrator cluster::reset, "Takes the node out of its cluster, and removes its data"),
    route!(Get "/api/cluster/change" Administrator cluster::change, "The state of such a change"),
    route!(Delete "/api/cluster/nodes/{node}" Administrator cluster::forget, "Strikes a member that doesn't run"),
    route!(Get "/api/cluster-name" Management parameters::cluster_name, "The cluster's name"),
    route!(Put "/api/cluster-name" Administrator parameters::put_cluster_name, "Sets the cluster's name"),
    route!(Get "/api/extensions" Management overview::extensions, "Scripts of the web page"),
    route!(Get "/api/config/effective" Administrator overview::configuration, "The node's configuration as text, without passwords"),
    route!(Delete "/api/reset" Administrator overview::reset, "Forgets statistics"),
    route!(Delete "/api/reset/{node}" Administrator overview::reset, "Forgets statistics of a node"),
    route!(Post "/api/rebalance/queues" Administrator overview::rebalance, "Spreads leaders of queues over nodes"),

    route!(Get "/api/nodes" Monitor nodes::all, "Nodes"),
    route!(Get "/api/nodes/{node}" Monitor nodes::one, "A node"),
    route!(Get "/api/nodes/{node}/memory" Monitor nodes::memory, "Memory of a node by use"),
    route!(Get "/api/nodes/{node}/memory/ets" Monitor nodes::tables, "Tables of Erlang; there are none"),
    route!(Get "/api/nodes/{node}/log" Administrator nodes::log, "The last lines of a node's log, from its memory: lines, level"),
    route!(Get "/api/nodes/{node}/maintenance" Monitor maintenance::show, "Whether a node is in maintenance"),
    route!(Put "/api/nodes/{node}/maintenance" Administrator maintenance::drain, "Puts a node into maintenance"),
    route!(Delete "/api/nodes/{node}/maintenance" Administrator maintenance::revive, "Ends a node's maintenance"),

    route!(Get "/api/connections" Management connections::all, "Open connections"),
    route!(Get "/api/vhosts/{vhost}/connections" Vhost connections::of_vhost, "Open connections in a vhost"),
    route!(Get "/api/connections/{connection}" Management connections::one, "An open connection"),
    route!(Delete "/api/connections/{connection}" Management connections::close, "Closes a connection, with the reason of the header X-Reason"),
    route!(Get "/api/connections/{connection}/channels" Management connections::channels_of, "Channels of a connection"),
    route!(Get "/api/connections/{connection}/sessions" Management connections::sessions_of, "AMQP 1.0 sessions of a connection with their links"),
    route!(Get "/api/connections/username/{user}" UserOrMonitor connections::of_user, "Open connections of a user"),
    route!(Delete "/api/connections/username/{user}" UserOrAdministrator connections::close_of_user, "Closes all connections of a user"),
    route!(Get "/api/channels" Management connections::channels, "Open channels"),
    route!(Get "/api/vhosts/{vhost}/channels" Vhost connections::channels_of_vhost, "Open channels in a vhost"),
    route!(Get "/api/channels/{channel}" Management connections::channel, "An open channel"),
    route!(Get "/api/consumers" Management consumers::all, "Consumers"),
    route!(Get "/api/consumers/{vhost}" VhostOrMonitor consumers::of_vhost, "Consumers in a vhost"),

    route!(Get "/api/exchanges" Management exchanges::all, "Exchanges"),
    route!(Get "/api/exchanges/{vhost}" Vhost exchanges::of_vhost, "Exchanges of a vhost"),
    route!(Get "/api/exchanges/{vhost}/{exchange}" Vhost exchanges::one, "An exchange"),
    route!(Put "/api/exchanges/{vhost}/{exchange}" Vhost exchanges::put, "Declares an exchange"),
    route!(Delete "/api/exchanges/{vhost}/{exchange}" Vhost exchanges::delete, "Deletes an exchange; if-unused=true"),
    route!(Post "/api/exchanges/{vhost}/{exchange}/publish" Vhost publish::publish, "Publishes a message"),
    route!(Get "/api/exchanges/{vhost}/{exchange}/bindings/source" Vhost bindings::of_source, "Bindings that lead out of an exchange"),
    route!(Get "/api/exchanges/{vhost}/{exchange}/bindings/destination" Vhost bindings::of_exchange, "Bindings that lead to an exchange"),

    route!(Get "/api/queues" Management queues::list, "Queues"),
    route!(Get "/api/queues/detailed" Management queues::detailed, "Queues with all their fields"),
    route!(Get "/api/queues/{vhost}" Vhost queues::list_of_vhost, "Queues of a vhost"),
    route!(Get "/api/queues/{vhost}/{queue}" Vhost queues::show, "A queue with its consumers"),
    route!(Put "/api/queues/{vhost}/{queue}" Vhost queues::declare, "Declares a queue"),
    route!(Delete "/api/queues/{vhost}/{queue}" Vhost queues::delete, "Deletes a queue; if-unused=true, if-empty=true"),
    route!(Delete "/api/queues/{vhost}/{queue}/contents" Vhost queues::purge, "Removes all ready messages"),
    route!(Post "/api/queues/{vhost}/{queue}/get" Vhost queues::get, "Takes messages"),
    route!(Get "/api/queues/{vhost}/{queue}/browse" Vhost queues::browse, "Reads messages without taking them; offset, count, encoding, truncate, decode; of a stream, offset as for consumers, timestamp, filter, value"),
    route!(Get "/api/queues/{vhost}/{queue}/parked" Vhost queues::set_aside::parked, "Messages of a quorum queue at their delivery limit; offset, count, encoding, truncate, decode"),
    route!(Delete "/api/queues/{vhost}/{queue}/parked" Vhost queues::set_aside::delete_parked, "Deletes such messages: all, or those with numbers from first to last"),
    route!(Post "/api/queues/{vhost}/{queue}/parked/move" Vhost queues::move_parked, "Moves such messages to the end of their queue, to another one (to), or through an exchange (exchange, routing_key): all, or those with numbers from first to last"),
    route!(Get "/api/queues/{vhost}/{queue}/delayed" Vhost queues::set_aside::delayed, "Messages of a quorum queue that wait for a time; offset, count, encoding, truncate, decode"),
    route!(Delete "/api/queues/{vhost}/{queue}/delayed" Vhost queues::set_aside::delete_delayed, "Deletes such messages: all, or those with numbers from first to last"),
    route!(Get "/api/queues/{vhost}/{queue}/transfers" Vhost transfers::of_queue, "Moves and copies of a queue's messages that run or have ended"),
    route!(Post "/api/queues/{vhost}/{queue}/transfers" Vhost transfers::begin, "Begins to move ready messages to another queue (to) or through an exchange (exchange, routing_key), or with copy=true to copy them: all, or those with numbers from first to last"),
    route!(Delete "/api/queues/{vhost}/{queue}/transfers/{id}" Vhost transfers::end, "Cancels such a transfer, or forgets one that has ended"),
    route!(Get "/api/transfers" Management transfers::all, "Moves and copies of messages between queues that run or have ended"),
    route!(Post "/api/queues/{vhost}/{queue}/convert" Vhost queues::convert, "Gives a queue another type and other arguments with the messages that it has; dry_run=true only checks"),
    route!(Post "/api/queues/{vhost}/{queue}/actions" Administrator queues::actions, "Actions on mirrors; there are none"),
    route!(Get "/api/queues/{vhost}/{queue}/bindings" Vhost bindings::of_queue, "Bindings that lead to a queue"),
    route!(Get "/api/queues/quorum/{vhost}/{queue}/status" Vhost queues::quorum_status, "The member of a quorum queue"),
    route!(Post "/api/queues/quorum/{vhost}/{queue}/replicas/add" Administrator queues::members::add, "Adds a member of a quorum queue on a node (node), which the only node has already"),
    route!(Delete "/api/queues/quorum/{vhost}/{queue}/replicas/delete" Administrator queues::members::delete, "Removes a member of a quorum queue from a node (node); the last one stays"),
    route!(Post "/api/queues/quorum/replicas/on/{node}/grow" Administrator queues::members::grow, "Gives quorum queues of one member the others that they are to have, with one on this node (strategy, vhost_pattern, queue_pattern)"),
    route!(Delete "/api/queues/quorum/replicas/on/{node}/shrink" Administrator queues::members::shrink, "Removes the members of quorum queues from a node; the last ones stay"),

    route!(Get "/api/bindings" Management bindings::all, "Bindings"),
    route!(Get "/api/bindings/{vhost}" Vhost bindings::of_vhost, "Bindings of a vhost"),
    route!(Get "/api/bindings/{vhost}/e/{source}/{kind}/{destination}" Vhost bindings::between, "Bindings from an exchange to a queue (q) or exchange (e)"),
    route!(Post "/api/bindings/{vhost}/e/{source}/{kind}/{destination}" Vhost bindings::post, "Binds a queue (q) or exchange (e) to an exchange"),
    route!(Get "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Vhost bindings::one, "A binding by its properties_key"),
    route!(Delete "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Vhost bindings::delete, "Deletes a binding"),

    route!(Get "/api/vhosts" Management vhosts::all, "Virtual hosts"),
    route!(Get "/api/vhosts/{vhost}" Administrator vhosts::one, "A virtual host"),
    route!(Put "/api/vhosts/{vhost}" Administrator vhosts::put, "Creates or changes a virtual host"),
    route!(Delete "/api/vhosts/{vhost}" Administrator vhosts::delete, "Deletes a virtual host and everything in it"),
    route!(Post "/api/vhosts/{vhost}/deletion/protection" Administrator vhosts::protect, "Protects a virtual host from deletion"),
    route!(Delete "/api/vhosts/{vhost}/deletion/protection" Administrator vhosts::unprotect, "Ends the protection of a virtual host from deletion"),
    route!(Post "/api/vhosts/{vhost}/start/{node}" Administrator vhosts::start, "Starts a virtual host on a node"),
    route!(Get "/api/vhosts/{vhost}/permissions" Administrator granted::of_vhost::<Permission>, "Permissions in a virtual host"),
    route!(Get "/api/vhosts/{vhost}/topic-permissions" Administrator granted::of_vhost::<TopicPermission>, "Topic permissions in a virtual host"),

    route!(Get "/api/users" Administrator users::all, "Users"),
    route!(Get "/api/users/without-permissions" Administrator users::without_permissions, "Users without access to any virtual host"),
    route!(Post "/api/users/bulk-delete" Administrator users::delete_many, "Deletes several users"),
    route!(Get "/api/users/{user}" Administrator users::one, "A user"),
    route!(Put "/api/users/{user}" Administrator users::put, "Creates or changes a user"),
    route!(Delete "/api/users/{user}" Administrator users::delete, "Deletes a user"),
    route!(Get "/api/users/{user}/permissions" Administrator granted::of_user::<Permission>, "Permissions of a user"),
    route!(Get "/api/users/{user}/topic-permissions" Administrator granted::of_user::<TopicPermission>, "Topic permissions of a user"),
    route!(Get "/api/users/{user}/queues" Management queues::list_of_user, "Queues of a user"),
    route!(Get "/api/permissions" Administrator granted::all::<Permission>, "Permissions"),
    route!(Get "/api/permissions/{vhost}/{user}" Administrator permissions::one, "A user's permissions in a virtual host"),
    route!(Put "/api/permissions/{vhost}/{user}" Administrator permissions::put, "Sets a user's permissions in a virtual host"),
    route!(Delete "/api/permissions/{vhost}/{user}" Administrator permissions::delete, "Removes a user's permissions in a virtual host"),
    route!(Get "/api/topic-permissions" Administrator granted::all::<TopicPermission>, "Topic permissions"),
    route!(Get "/api/topic-permissions/{vhost}/{user}" Administrator topic_permissions::one, "A user's topic permissions in a virtual host"),
    route!(Put "/api/topic-permissions/{vhost}/{user}" Administrator topic_permissions::put, "Limits a user's routing keys at a topic exchange"),
    route!(Delete "/api/topic-permissions/{vhost}/{user}" Administrator topic_permissions::delete, "Lifts these limits"),
    route!(Get "/api/topic-permissions/{vhost}/{user}/{exchange}" Administrator topic_permissions::one, "A user's topic permissions in a virtual host"),
    route!(Put "/api/topic-permissions/{vhost}/{user}/{exchange}" Administrator topic_permissions::put, "Limits a user's routing keys at the body's exchange"),
    route!(Delete "/api/topic-permissions/{vhost}/{user}/{exchange}" Administrator topic_permissions::delete, "Lifts these limits at one exchange"),
    route!(Get "/api/vhost-limits" Management limits::of_vhosts, "Limits of virtual hosts"),
    route!(Get "/api/vhost-limits/{vhost}" VhostOrMonitor limits::of_vhost, "Limits of a virtual host"),
    route!(Put "/api/vhost-limits/{vhost}/{name}" Administrator limits::put_of_vhost, "Sets max-connections or max-queues"),
    route!(Delete "/api/vhost-limits/{vhost}/{name}" Administrator limits::delete_of_vhost, "Lifts a limit"),
    route!(Get "/api/user-limits" Administrator limits::of_users, "Limits of users"),
    route!(Get "/api/user-limits/{user}" UserOrMonitor limits::of_user, "Limits of a user"),
    route!(Put "/api/user-limits/{user}/{name}" Administrator limits::put_of_user, "Sets max-connections or max-channels"),
    route!(Delete "/api/user-limits/{user}/{name}" Administrator limits::delete_of_user, "Lifts a limit"),

    route!(Get "/api/parameters" Policymaker parameters::all, "Parameters of components"),
    route!(Get "/api/parameters/{component}" Policymaker parameters::all, "Parameters of a component"),
    route!(Get "/api/parameters/{component}/{vhost}" Policymaker parameters::all, "Parameters of a component in a virtual host"),
    route!(Get "/api/parameters/{component}/{vhost}/{name}" Policymaker parameters::one, "A parameter"),
    route!(Put "/api/parameters/{component}/{vhost}/{name}" Policymaker parameters::put, "Sets a parameter, which is an operator policy: there are no other components yet"),
    route!(Delete "/api/parameters/{component}/{vhost}/{name}" Policymaker parameters::delete, "Deletes a parameter, which is an operator policy"),
    route!(Get "/api/global-parameters" Policymaker parameters::global, "Parameters of the whole cluster"),
    route!(Get "/api/global-parameters/{name}" Policymaker parameters::global_one, "A parameter of the whole cluster"),
    route!(Put "/api/global-parameters/{name}" Policymaker parameters::put_global, "Sets a parameter of the whole cluster"),
    route!(Delete "/api/global-parameters/{name}" Policymaker parameters::delete_global, "Deletes a parameter of the whole cluster"),
    route!(Get "/api/policies" Management policies::list, "Policies"),
    route!(Get "/api/policies/{vhost}" Vhost policies::list, "Policies of a virtual host"),
    route!(Get "/api/policies/{vhost}/{name}" Policymaker policies::one, "A policy"),
    route!(Put "/api/policies/{vhost}/{name}" Policymaker policies::put, "Sets a policy; `dry_run=true` says what it would change"),
    route!(Delete "/api/policies/{vhost}/{name}" Policymaker policies::delete, "Deletes a policy; `dry_run=true` says what that would change"),
    route!(Get "/api/operator-policies" Management policies::list_operator, "Operator policies"),
    route!(Get "/api/operator-policies/{vhost}" Vhost policies::list_operator, "Operator policies of a virtual host"),
    route!(Get "/api/operator-policies/{vhost}/{name}" Administrator policies::one_operator, "An operator policy"),
    route!(Put "/api/operator-policies/{vhost}/{name}" Administrator policies::put_operator, "Sets an operator policy; `dry_run=true` says what it would change"),
    route!(Delete "/api/operator-policies/{vhost}/{name}" Administrator policies::delete_operator, "Deletes an operator policy; `dry_run=true` says what that would change"),
    route!(Get "/api/shovels" Management missing::none, "Not built: shovels"),
    route!(Get "/api/shovels/{vhost}" Vhost missing::none, "Not built: shovels of a virtual host"),
    route!(Get "/api/federation-links" Management missing::none, "Not built: federation links"),
    route!(Get "/api/federation-links/{vhost}" Vhost missing::none, "Not built: federation links of a virtual host"),
    route!(Get "/api/stream/connections" Management stream_clients::connections, "Connections of the stream protocol"),
    route!(Get "/api/stream/connections/{vhost}" VhostOrMonitor stream_clients::connections_of_vhost, "Connections of the stream protocol in a virtual host"),
    route!(Get "/api/stream/publishers" Management stream_clients::publishers, "Publishers of the stream protocol"),
    route!(Get "/api/stream/publishers/{vhost}" VhostOrMonitor stream_clients::publishers_of_vhost, "Publishers of the stream protocol in a virtual host"),
    route!(Get "/api/stream/consumers" Management stream_clients::consumers, "Consumers of the stream protocol"),
    route!(Get "/api/stream/consumers/{vhost}" VhostOrMonitor stream_clients::consumers_of_vhost, "Consumers of the stream protocol in a virtual host"),
    route!(Get "/api/stream/connections/{vhost}/{name}" Management stream_clients::connection, "A connection of the stream protocol"),
    route!(Delete "/api/stream/connections/{vhost}/{name}" Management stream_clients::close, "Closes a connection of the stream protocol, with the reason in the header X-Reason"),
    route!(Get "/api/stream/connections/{vhost}/{name}/publishers" Management stream_clients::publishers_of, "Publishers of a connection"),
    route!(Get "/api/stream/connections/{vhost}/{name}/consumers" Management stream_clients::consumers_of, "Consumers of a connection"),
    route!(Get "/api/stream/publishers/{vhost}/{stream}" Vhost stream_clients::publishers_of_stream, "Publishers of a stream"),
    route!(Get "/api/stream/super-streams" Management super_streams::all, "Super streams with their partitions"),
    route!(Get "/api/stream/super-streams/{vhost}" Vhost super_streams::of_vhost, "Super streams of a virtual host"),
    route!(Get "/api/stream/super-streams/{vhost}/{name}" Vhost super_streams::one, "A super stream"),
    route!(Put "/api/stream/super-streams/{vhost}/{name}" Vhost super_streams::put, "Creates an exchange with streams as its partitions: partitions or binding-keys, arguments"),
    route!(Delete "/api/stream/super-streams/{vhost}/{name}" Vhost super_streams::delete, "Deletes a super stream with its partitions"),
    route!(Get "/api/stream/{vhost}/{queue}/tracking" Vhost queues::stream_tracking, "Offsets of consumers and sequences of publishers that a stream keeps; type=offset, type=writer"),

    route!(Get "/api/traces" Administrator traces::all, "Traces of messages that are written to files"),
    route!(Get "/api/traces/node/{node}" Administrator traces::of_node, "The same of a node"),
    route!(Get "/api/traces/{vhost}" Administrator traces::of_vhost, "The same of a virtual host"),
    route!(Get "/api/traces/node/{node}/{vhost}" Administrator traces::of_node_and_vhost, "The same of a virtual host on a node"),
    route!(Get "/api/traces/node/{node}/{vhost}/{name}" Administrator traces::one_of_node, "A trace on a node"),
    route!(Put "/api/traces/node/{node}/{vhost}/{name}" Administrator traces::put_on_node, "Starts a trace on a node"),
    route!(Delete "/api/traces/node/{node}/{vhost}/{name}" Administrator traces::delete_on_node, "Stops a trace on a node"),
    route!(Get "/api/traces/{vhost}/{name}" Administrator traces::one, "A trace"),
    route!(Put "/api/traces/{vhost}/{name}" Administrator traces::put, "Starts a trace: format (text or json), pattern, max_payload_bytes"),
    route!(Delete "/api/traces/{vhost}/{name}" Administrator traces::delete, "Stops a trace; its file stays"),
    route!(Get "/api/trace-files" Administrator traces::all_files, "Files of traces"),
    route!(Get "/api/trace-files/node/{node}" Administrator traces::files_of_node, "The same of a node"),
    route!(Get "/api/trace-files/node/{node}/{name}" Administrator traces::file_of_node, "A trace file of a node"),
    route!(Delete "/api/trace-files/node/{node}/{name}" Administrator traces::delete_file_of_node, "Deletes a trace file of a node"),
    route!(Get "/api/trace-files/{name}" Administrator traces::file, "The content of a trace file"),
    route!(Delete "/api/trace-files/{name}" Administrator traces::delete_file, "Deletes a trace file"),

    route!(Get "/api/definitions" Administrator definitions::all, "Everything that is declared"),
    route!(Post "/api/definitions" Administrator definitions::import, "Imports definitions; skip_unsupported=true leaves out unsupported objects"),
    route!(Get "/api/definitions/{vhost}" Administrator definitions::of_vhost, "Definitions of a virtual host"),
    route!(Post "/api/definitions/{vhost}" Administrator definitions::import_into, "Imports definitions into a virtual host"),
    route!(Get "/api/all-configuration" Administrator definitions::all, "The older name of definitions"),
    route!(Post "/api/all-configuration" Administrator definitions::import, "The older name of definitions"),
    route!(Get "/api/feature-flags" Management feature_flags::all, "Feature flags"),
    route!(Put "/api/feature-flags/{name}/enable" Administrator feature_flags::enable, "Enables a feature flag"),
    route!(Get "/api/deprecated-features" Management deprecated_features::all, "Deprecated features"),
    route!(Get "/api/deprecated-features/used" Management deprecated_features::used, "Deprecated features that are in use"),
    route!(Get "/api/auth/attempts/{node}" Monitor auth::attempts, "Logins by protocol"),
    route!(Delete "/api/auth/attempts/{node}" Administrator auth::forget_attempts, "Forgets logins"),
    route!(Get "/api/auth/attempts/{node}/source" Monitor auth::attempts_by_source, "Logins by source"),
    route!(Delete "/api/auth/attempts/{node}/source" Administrator auth::forget_attempts, "Forgets logins by source"),
    route!(Get "/api/auth/hash_password/{password}" Administrator users::hash, "The hash of a password"),
    route!(Post "/api/login" Public auth::login, "Begins a session of the page, whose cookie stands for username and password"),
    route!(Post "/api/logout" Public auth::logout, "Ends the session of the page"),

    route!(Get "/api/aliveness-test/{vhost}" Vhost health::aliveness, "The old check of a virtual host, which does nothing"),
    route!(Get "/api/healthchecks/node" Management health::node, "The old check of a node, which does nothing"),
    route!(Get "/api/healthchecks/node/{node}" Management health::node, "The old check of a node, which does nothing"),
    route!(Get "/api/health/checks/alarms" Management health::alarms, "Whether no alarm is raised in the cluster"),
    route!(Get "/api/health/checks/local-alarms" Management health::local_alarms, "Whether no alarm is raised on this node"),
    route!(Get "/api/health/checks/certificate-expiration/{within}/{unit}" Management health::certificates, "Whether no certificate expires within a number of days, weeks, months or years"),
    route!(Get "/api/health/checks/port-listener/{port}" Management health::port, "Whether a listener has this port"),
    route!(Get "/api/health/checks/protocol-listener/{*protocol}" Management health::protocol, "Whether each of these protocols has a listener"),
    route!(Get "/api/health/checks/virtual-hosts" Management health::virtual_hosts, "Whether every virtual host is up"),
    route!(Get "/api/health/checks/node-is-quorum-critical" Management health::quorum_critical, "Whether the metadata keeps its majority without the node"),
    route!(Get "/api/health/checks/is-in-service" Public health::in_service, "Whether the node isn't in maintenance"),
    route!(Get "/api/health/checks/ready-to-serve-clients" Public health::ready, "Whether clients can be served"),
    route!(Get "/api/health/checks/below-node-connection-limit" Public health::connection_limit, "Whether the node accepts more connections"),
    route!(Get "/api/health/checks/storage" Monitor damage::check, "Whether no queue was stopped because of damage, and every log has an owner"),
    route!(Get "/api/unowned-logs" Monitor damage::unowned, "Logs with messages that no queue in the metadata owns"),
    route!(Delete "/api/unowned-logs/{log}" Administrator damage::delete_unowned, "Deletes such a log, with its messages"),
    route!(Get "/api/health/checks/reached-target-cluster-size" Public health::cluster_size, "Whether the cluster has its target size"),
    route!(Get "/api/health/checks/metadata-store/initialized" Management health::metadata, "Whether objects can be looked up"),
    route!(Get "/api/health/checks/metadata-store/initialized/with-data" Management health::metadata_with_data, "Whether there are virtual hosts"),
    route!(Get "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts" Management health::always, "Whether every quorum queue has a leader"),
    route!(Get "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}" Management health::always, "Whether every quorum queue of such a name has a leader"),
    route!(Get "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}" VhostOrMonitor health::always, "Whether every quorum queue of a virtual host has a leader"),
    route!(Get "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}" VhostOrMonitor health::always, "Whether every quorum queue of such a name has a leader"),
];

/// GET: the description of the API.
async fn document(call: Call) -> HandlerResult {
    json(openapi::describe(ROUTES, &call.api.broker().settings.version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent::means_else;

    #[test]
    fn words_of_routes_are_no_plain_names() {
        let is_parameter = |word: &str| word.starts_with('{');
        for route in ROUTES {
            for other in ROUTES {
                let (words, others): (Vec<&str>, Vec<&str>) =
                    (route.path.split('/').collect(), other.path.split('/').collect());
                let is_same = |(one, two): (&&str, &&str)| is_parameter(one) || is_parameter(two) || one == two;
                if words.len() != others.len() || !words.iter().zip(&others).all(is_same) {
                    continue;
                }
                for (word, other_word) in words.iter().zip(&others) {
                    let hides = !is_parameter(word) && is_parameter(other_word);
                    assert!(!hides || means_else(word), "{} hides {}", route.path, other.path);
                }
            }
        }
    }
}
