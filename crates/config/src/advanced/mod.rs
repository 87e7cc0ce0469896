//! advanced.config: an Erlang term that corresponds to a key is treated as if that key had been set.

mod application;
mod term;

use std::fmt::Write;

pub(crate) use term::{Term, TermValue, parse as parse_term};

use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::grammar::Assignment;
use crate::keys::without_value;
use application::Application;

/// Terms of `rabbit` without a key: they tune something that we do differently, or belong to older versions.
const WITHOUT_MEANING: [&str; 37] = [
    "backing_queue_module",
    "channel_operation_timeout",
    "channel_tick_interval",
    "classic_queue_flow_control",
    "classic_queue_index_v2_segment_entry_count",
    "classic_queue_store_v2_check_crc32",
    "classic_queue_store_v2_max_cache_size",
    "config_entry_decoder",
    "credentials_obfuscation_fallback_secret",
    "credit_flow_default_credit",
    "data_dir",
    "dead_letter_worker_consumer_prefetch",
    "dead_letter_worker_publisher_confirm_timeout",
    "disk_monitor_failure_retries",
    "disk_monitor_failure_retry_interval",
    "error_logger",
    "fhc_read_buffering",
    "fhc_write_buffering",
    "halt_on_upgrade_failure",
    "lazy_queue_explicit_gc_run_operation_threshold",
    "log_levels",
    "msg_store_credit_disc_bound",
    "msg_store_file_size_limit",
    "msg_store_index_module",
    "num_ssl_acceptors",
    "num_tcp_acceptors",
    "queue_explicit_gc_run_operation_threshold",
    "quorum_cluster_size",
    "quorum_commands_soft_limit",
    "rates_mode",
    "sasl_error_logger",
    "ssl_apps",
    "stream_messages_soft_limit",
    "stream_read_ahead",
    "tcp_listeners_per_acceptor",
    "tracking_execution_timeout",
    "vhost_process_reconciliation_run_interval",
];

/// Keys and values that one term sets. A value that can't be written in rabbitmq.conf is replaced by an error text,
/// which only counts if the key would take effect.
type Assignments = Vec<(String, Result<String, String>)>;

impl Config {
    /// Applies the text of an advanced.config; `source` names it in errors.
    ///
    /// # Errors
    /// Every term that isn't accepted; the others have taken effect.
    pub fn read_advanced(&mut self, source: &str, text: &str) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        let wrong = |line, text| ConfigError { source_name: source.to_owned(), line: Some(line), text };
        let applications = match parse_term(text.trim_start_matches('\u{feff}')) {
            Ok(None) => return Ok(warnings),
            Ok(Some(Term { value: TermValue::List(applications), .. })) => applications,
            Ok(Some(Term { line, .. })) => return Err(vec![wrong(line, "expected a list of applications".to_owned())]),
            Err((line, text)) => return Err(vec![wrong(line, text)]),
        };
        for application in &applications {
            let Some((name, TermValue::List(terms))) = pair(application) else {
                errors.push(wrong(application.line, "expected {application, [...]}".to_owned()));
                continue;
            };
            let mut warn = |line, text| {
                warnings.push(Warning { source_name: source.to_owned(), line: Some(line), text });
            };
            let known = match Application::named(name) {
                Ok(known) => known,
                Err(text) => {
                    errors.push(wrong(application.line, text));
                    continue;
                }
            };
            if let Application::Foreign(why) = known {
                warn(application.line, format!("'{name}' has no effect: {why}"));
                continue;
            }
            for term in terms {
                match self.take_term(known, term) {
                    Ok(told) => told.into_iter().for_each(|text| warn(term.line, text)),
                    Err(text) => errors.push(wrong(term.line, text)),
                }
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// Applies `{name, value}` of an application. Returns warnings about parts without effect.
    fn take_term(&mut self, application: Application, term: &Term) -> Result<Vec<String>, String> {
        let (name, value) = pair(term).ok_or_else(|| "expected {name, value}".to_owned())?;
        let assignments = match application {
            Application::Rabbit if WITHOUT_MEANING.contains(&name) => {
                return Ok(vec![format!("'{name}' has no effect: what it tunes isn't built that way here")]);
            }
            Application::Rabbit => of_rabbit(name, value)?,
            Application::Http("management") if name == "rates_mode" => {
                return Ok(vec![
                    "'rates_mode' has no effect: rates cost nothing, so disabling them saves nothing".to_owned(),
                ]);
            }
            Application::Http("management")
                if matches!(name, "process_stats_gc_timeout" | "stats_event_max_backlog") =>
            {
                return Ok(vec![format!("'{name}' has no effect: counts are exact and cost nothing to collect")]);
            }
            Application::Http(prefix) => of_http(prefix, name, value)?,
            Application::Backend(prefix) => of_backend(prefix, name, value)?,
            Application::Family(prefix) => vec![(format!("{prefix}.{name}"), Err(no_form(name)))],
            Application::Foreign(_) => Vec::new(),
        };
        let mut told = Vec::new();
        for (key, value) in assignments {
            let said = match value {
                Ok(value) => self.assign(Assignment { key: &key, value: &value })?,
                Err(text) => without_value(&key).unwrap_or(Err(text))?,
            };
            told.extend(said);
        }
        told.dedup();
        Ok(told)
    }
}

/// The error for a value that can't be written in rabbitmq.conf.
fn no_form(key: &str) -> String {
    format!("'{key}' can't be taken from here as it stands; rabbitmq.conf may have a key for it")
}

/// A tuple of an atom and a value.
fn pair(term: &Term) -> Option<(&str, &TermValue)> {
    match &term.value {
        TermValue::Tuple(items) => match &items[..] {
            [Term { value: TermValue::Atom(name), .. }, Term { value, .. }] => Some((name, value)),
            _ => None,
        },
        _ => None,
    }
}

fn of_rabbit(name: &str, value: &TermValue) -> Result<Assignments, String> {
    let one = |key: &str, value: String| Ok(vec![(key.to_owned(), Ok(value))]);
    match (name, value) {
        ("auth_backends", TermValue::List(backends)) => {
            let all =
                (1..).zip(backends).map(|(number, backend)| of_chain(&format!("{name}.{number}"), &backend.value));
            Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
        }
        ("loopback_users", TermValue::List(users)) => {
            // A list replaces the default.
            let mut all = vec![("loopback_users".to_owned(), Ok("none".to_owned()))];
            for user in users {
                let user = scalar(&user.value).ok_or("loopback_users: expected a list of names")?;
                all.push((format!("loopback_users.{user}"), Ok("true".to_owned())));
            }
            Ok(all)
        }
        ("tcp_listeners" | "ssl_listeners", TermValue::List(listeners)) => {
            let key = if name == "tcp_listeners" { "listeners.tcp" } else { "listeners.ssl" };
            if listeners.is_empty() {
                return one(key, "none".to_owned());
            }
            let address = |listener: &Term| match &listener.value {
                TermValue::Integer(port) => Some(port.to_string()),
                TermValue::Tuple(parts) => match &parts[..] {
                    [host, port] => {
                        let (host, port) = (scalar(&host.value)?, scalar(&port.value)?);
                        Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
                    }
                    _ => None,
                },
                _ => None,
            };
            let numbered = (1..).zip(listeners).map(|(number, listener)| {
                let address =
                    address(listener).ok_or_else(|| format!("{name}: expected ports or {{address, port}}"))?;
                Ok((format!("{key}.{number}"), Ok(address)))
            });
            numbered.collect()
        }
        ("vm_memory_high_watermark", TermValue::Float(share)) => {
            one("vm_memory_high_watermark.relative", share.to_string())
        }
        ("vm_memory_high_watermark", TermValue::Integer(share)) => {
            one("vm_memory_high_watermark.relative", share.to_string())
        }
        ("disk_free_limit", TermValue::Integer(_) | TermValue::Text(_)) => {
            one("disk_free_limit.absolute", scalar(value).unwrap_or_default())
        }
        ("vm_memory_high_watermark" | "disk_free_limit", TermValue::Tuple(parts)) => match &parts[..] {
            [Term { value: TermValue::Atom(kind), .. }, Term { value: limit, .. }]
                if matches!(&kind[..], "absolute" | "relative" | "mem_relative") =>
            {
                let kind = kind.trim_start_matches("mem_");
                let limit = scalar(limit).ok_or_else(|| format!("{name}: expected a number"))?;
                one(&format!("{name}.{kind}"), limit)
            }
            _ => Err(format!("{name}: expected {{absolute, N}} or {{mem_relative, X}}")),
        },
        ("default_permissions", TermValue::List(patterns)) if patterns.len() == 3 => {
            let kinds = ["configure", "write", "read"].into_iter().zip(patterns);
            let each = kinds.map(|(kind, pattern)| {
                let pattern = scalar(&pattern.value).ok_or("default_permissions: expected three patterns")?;
                Ok((format!("default_permissions.{kind}"), Ok(pattern)))
            });
            each.collect()
        }
        ("cluster_formation", TermValue::List(_)) => {
            // These have other names in rabbitmq.conf.
            let short = |key: String| {
                let parts = key.split('.').map(|part| {
                    ["peer_discovery_", "k8s_", "cleanup_"]
                        .iter()
                        .find_map(|begin| part.strip_prefix(begin))
                        .unwrap_or(part)
                });
                let key = parts.collect::<Vec<_>>().join(".");
                if key == "cluster_formation.backend" {
                    "cluster_formation.peer_discovery_backend".to_owned()
                } else {
                    key
                }
            };
            Ok(flat(name, value)?.into_iter().map(|(key, value)| (short(key), value)).collect())
        }
        ("cluster_nodes", TermValue::List(_)) => flat("cluster_formation.classic_config.nodes", value),
        // With the type of this node, disc or ram.
        ("cluster_nodes", TermValue::Tuple(parts)) if parts.len() == 2 => {
            flat("cluster_formation.classic_config.nodes", &parts[0].value)
        }
        ("default_consumer_prefetch", TermValue::Tuple(parts)) if parts.len() == 2 => {
            one(name, scalar(&parts[1].value).ok_or("default_consumer_prefetch: expected {false, N}")?)
        }
        _ => flat(name, value),
    }
}

/// A backend, or a pair of those that check logins and that grant, of which there may be several.
fn of_chain(key: &str, value: &TermValue) -> Result<Assignments, String> {
    let TermValue::Tuple(parts) = value else { return flat(key, value) };
    let [login, grants] = &parts[..] else { return Err(format!("{key}: expected {{authn, authz}}")) };
    let names = match &grants.value {
        TermValue::List(names) => names.iter().map(|name| scalar(&name.value)).collect::<Option<Vec<_>>>(),
        one => scalar(one).map(|name| vec![name]),
    };
    let names = names.ok_or_else(|| format!("{key}: expected names of backends"))?;
    let login = scalar(&login.value).ok_or_else(|| format!("{key}: expected the name of a backend"))?;
    Ok(vec![(format!("{key}.authn"), Ok(login)), (format!("{key}.authz"), Ok(names.join(" ")))])
}

/// Terms of the backends of logins. Some have other names in rabbitmq.conf.
fn of_backend(prefix: &str, name: &str, value: &TermValue) -> Result<Assignments, String> {
    match (prefix, name) {
        ("auth_cache", "cached_backend") => of_chain("auth_cache.cached_backend", value),
        ("auth_oauth2", "extra_scopes_source") => flat("auth_oauth2.additional_scopes_key", value),
        ("auth_oauth2", "key_config") => {
            let TermValue::List(items) = value else { return Err("key_config: expected a list".to_owned()) };
            let mut all = Vec::new();
            for item in items {
                let (name, value) = pair(item).ok_or_else(|| "key_config: expected {name, value}".to_owned())?;
                match name {
                    "peer_verification" | "cacertfile" | "depth" | "hostname_verification" | "crl_check" => {
                        all.extend(flat(&format!("auth_oauth2.https.{name}"), value)?);
                    }
                    _ => all.extend(flat(&format!("auth_oauth2.{name}"), value)?),
                }
            }
            Ok(all)
        }
        _ => flat(&format!("{prefix}.{name}"), value),
    }
}

/// Terms of the HTTP listeners: `{tcp_config, [{port, 15672}]}`, `{path_prefix, "/x"}`.
fn of_http(prefix: &str, name: &str, value: &TermValue) -> Result<Assignments, String> {
    match name {
        "tcp_config" | "ssl_config" => {
            let named = flat(&format!("{prefix}.{}", name.trim_end_matches("_config")), value)?;
            // The keys in rabbitmq.conf don't contain the name of the library.
            let short = |key: String| key.replacen(".cowboy_opts.", ".", 1).replacen(".ssl_opts.", ".", 1);
            Ok(named.into_iter().map(|(key, value)| (short(key), value)).collect())
        }
        "load_definitions" => flat(name, value),
        // These have other names in rabbitmq.conf.
        "content_security_policy" => flat(&format!("{prefix}.csp.policy"), value),
        "cors_allow_origins" => flat(&format!("{prefix}.cors.allow_origins"), value),
        "cors_max_age" => flat(&format!("{prefix}.cors.max_age"), value),
        "disable_management_stats" => flat(&format!("{prefix}.disable_stats"), value),
        "management_db_cache_multiplier" => flat(&format!("{prefix}.db_cache_multiplier"), value),
        "max_http_body_size" => flat(&format!("{prefix}.http.max_body_size"), value),
        "strict_transport_security" => flat(&format!("{prefix}.hsts.policy"), value),
        _ => flat(&format!("{prefix}.{name}"), value),
    }
}

/// The same names as in rabbitmq.conf: nested names are separated by dots, items of a list are numbered.
fn flat(key: &str, value: &TermValue) -> Result<Assignments, String> {
    if let Some(value) = scalar(value) {
        return Ok(vec![(key.to_owned(), Ok(value))]);
    }
    if let TermValue::Tuple(parts) = value
        && let [Term { value: TermValue::Atom(kind), .. }, _] = &parts[..]
        && kind == "encrypted"
    {
        return Err(format!("{key}: values that are encrypted aren't read yet: give the value itself"));
    }
    let TermValue::List(items) = value else { return Ok(vec![(key.to_owned(), Err(no_form(key)))]) };
    let mut all = Vec::new();
    for (number, item) in (1..).zip(items) {
        match pair(item) {
            Some((name, value)) => all.extend(flat(&format!("{key}.{name}"), value)?),
            None => all.push(match scalar(&item.value) {
                Some(value) => (format!("{key}.{number}"), Ok(value)),
                None => (key.to_owned(), Err(no_form(key))),
            }),
        }
    }
    Ok(all)
}

/// A value in the form of rabbitmq.conf.
fn scalar(value: &TermValue) -> Option<String> {
    let mut text = String::new();
    match value {
        TermValue::Atom(word) | TermValue::Text(word) => text.push_str(word),
        TermValue::Integer(number) => write!(text, "{number}").ok()?,
        TermValue::Float(number) => write!(text, "{number}").ok()?,
        TermValue::List(_) | TermValue::Tuple(_) => return None,
    }
    Some(text)
}
