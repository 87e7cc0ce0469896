//! The Erlang applications whose terms are allowed in an advanced.config.

use crate::suggest;

/// The treatment of an application's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Application {
    /// RabbitMQ itself: terms are keys without a prefix.
    Rabbit,
    /// An HTTP listener, whose keys have this prefix.
    Http(&'static str),
    /// A plugin that isn't supported: its terms are treated as the keys with this prefix in rabbitmq.conf.
    Family(&'static str),
    /// A backend of logins: terms are keys with this prefix.
    Backend(&'static str),
    /// Its terms have no effect, for this reason.
    Foreign(&'static str),
}

const ERLANG: Application = Application::Foreign("there is no such application here");
const NO_SETTINGS: Application = Application::Foreign("this plugin is built in and has no settings");
const DISCOVERY: Application = Application::Foreign("its settings are the keys cluster_formation.*");
const NOT_BUILT: Application = Application::Foreign("this plugin isn't built yet");

/// Applications by name.
const APPLICATIONS: &[(&str, Application)] = &[
    ("rabbit", Application::Rabbit),
    ("rabbitmq_management", Application::Http("management")),
    ("rabbitmq_prometheus", Application::Http("prometheus")),
    ("amqp10_client", Application::Family("amqp10_client")),
    ("amqp_client", Application::Family("amqp_client")),
    ("rabbitmq_amqp1_0", Application::Family("amqp1_0")),
    ("rabbitmq_auth_backend_cache", Application::Backend("auth_cache")),
    ("rabbitmq_auth_backend_http", Application::Backend("auth_http")),
    ("rabbitmq_auth_backend_ldap", Application::Family("auth_ldap")),
    ("rabbitmq_auth_backend_oauth2", Application::Backend("auth_oauth2")),
    ("rabbitmq_aws", Application::Family("aws")),
    ("rabbitmq_event_exchange", Application::Family("event_exchange")),
    ("rabbitmq_exchange_federation", Application::Family("federation")),
    ("rabbitmq_federation", Application::Family("federation")),
    ("rabbitmq_mqtt", Application::Family("mqtt")),
    ("rabbitmq_peer_discovery_aws", DISCOVERY),
    ("rabbitmq_peer_discovery_common", DISCOVERY),
    ("rabbitmq_peer_discovery_consul", DISCOVERY),
    ("rabbitmq_peer_discovery_etcd", DISCOVERY),
    ("rabbitmq_peer_discovery_k8s", DISCOVERY),
    ("rabbitmq_queue_federation", Application::Family("federation")),
    ("rabbitmq_shovel", Application::Family("shovel")),
    ("rabbitmq_stomp", Application::Family("stomp")),
    ("rabbitmq_stream", Application::Family("stream")),
    ("rabbitmq_tracing", Application::Family("tracing")),
    ("rabbitmq_trust_store", Application::Family("trust_store")),
    ("rabbitmq_web_dispatch", Application::Family("http_dispatch")),
    ("rabbitmq_web_mqtt", Application::Family("web_mqtt")),
    ("rabbitmq_web_stomp", Application::Family("web_stomp")),
    ("rabbitmq_consistent_hash_exchange", NO_SETTINGS),
    ("rabbitmq_delayed_message_exchange", NO_SETTINGS),
    ("rabbitmq_federation_management", NOT_BUILT),
    ("rabbitmq_federation_prometheus", NOT_BUILT),
    ("rabbitmq_jms_topic_exchange", NOT_BUILT),
    ("rabbitmq_random_exchange", NO_SETTINGS),
    ("rabbitmq_recent_history_exchange", NO_SETTINGS),
    ("rabbitmq_sharding", NOT_BUILT),
    ("rabbitmq_shovel_management", NOT_BUILT),
    ("rabbitmq_shovel_prometheus", NOT_BUILT),
    ("rabbitmq_stream_management", NOT_BUILT),
    ("rabbitmq_top", NOT_BUILT),
    ("amqp10_common", ERLANG),
    ("aten", ERLANG),
    ("autocluster", ERLANG),
    ("cowboy", ERLANG),
    ("cowlib", ERLANG),
    ("credentials_obfuscation", ERLANG),
    ("crypto", ERLANG),
    ("cuttlefish", ERLANG),
    ("eetcd", ERLANG),
    ("gun", ERLANG),
    ("inets", ERLANG),
    ("kernel", ERLANG),
    ("khepri", ERLANG),
    ("lager", ERLANG),
    ("mnesia", ERLANG),
    ("oauth2_client", ERLANG),
    ("observer_cli", ERLANG),
    ("os_mon", ERLANG),
    ("osiris", ERLANG),
    ("prometheus", ERLANG),
    ("public_key", ERLANG),
    ("ra", ERLANG),
    ("rabbit_common", ERLANG),
    ("rabbitmq_auth_mechanism_ssl", ERLANG),
    ("rabbitmq_management_agent", ERLANG),
    ("rabbitmq_prelaunch", ERLANG),
    ("rabbitmq_stream_common", ERLANG),
    ("ranch", ERLANG),
    ("recon", ERLANG),
    ("sasl", ERLANG),
    ("seshat", ERLANG),
    ("ssl", ERLANG),
    ("stdlib", ERLANG),
    ("syslog", ERLANG),
    ("sysmon_handler", ERLANG),
    ("systemd", ERLANG),
];

impl Application {
    /// The application of this name.
    ///
    /// # Errors
    /// No application has this name.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        if let Some((_, found)) = APPLICATIONS.iter().find(|(known, _)| *known == name) {
            return Ok(*found);
        }
        let hint = suggest::nearest(name, APPLICATIONS.iter().map(|(known, _)| *known));
        let hint = hint.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        Err(format!("unknown application '{name}'{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_is_known_and_a_wrong_name_gets_a_suggestion() {
        for line in include_str!("../plugins.tsv").lines().filter(|line| !line.starts_with('#')) {
            let name = line.split('\t').next().unwrap_or_default();
            let is_example = name.ends_with("_examples") || name.ends_with("_loopback");
            assert!(is_example || Application::named(name).is_ok(), "{name}");
        }
        let error = Application::named("rabit").expect_err("is unknown");
        assert_eq!(error, "unknown application 'rabit'; did you mean 'rabbit'?");
    }
}
