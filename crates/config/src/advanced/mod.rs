//! advanced.config: what of its Erlang terms has a key here is taken as if that key had been set.

mod term;

use std::fmt::Write;

pub(crate) use term::{Term, TermValue, parse as parse_term};

use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::grammar::Assignment;

/// Erlang's own applications and those that RabbitMQ is made of: there are none here.
const OF_ERLANG: [&str; 10] =
    ["aten", "kernel", "lager", "mnesia", "os_mon", "osiris", "ra", "rabbitmq_management_agent", "sasl", "ssl"];
/// Terms of `rabbit` that have no key: they tune what isn't built that way here.
const WITHOUT_MEANING: [&str; 8] = [
    "credit_flow_default_credit",
    "fhc_read_buffering",
    "fhc_write_buffering",
    "lazy_queue_explicit_gc_run_operation_threshold",
    "msg_store_credit_disc_bound",
    "queue_explicit_gc_run_operation_threshold",
    "rates_mode",
    "tcp_listeners_per_acceptor",
];

/// The assignments that one term comes to.
type Assignments = Vec<(String, String)>;

impl Config {
    /// Takes in the text of an advanced.config; `source` names it in errors.
    ///
    /// # Errors
    /// Every term that can't be accepted; the others have taken effect.
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
            if OF_ERLANG.contains(&name) {
                warn(application.line, format!("'{name}' has no effect: there is no such application here"));
                continue;
            }
            for term in terms {
                match self.take_term(name, term) {
                    Ok(told) => told.into_iter().for_each(|text| warn(term.line, text)),
                    Err(text) => errors.push(wrong(term.line, text)),
                }
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// Takes in `{name, value}` of an application. Returns what has no effect of it.
    fn take_term(&mut self, application: &str, term: &Term) -> Result<Vec<String>, String> {
        let (name, value) = pair(term).ok_or_else(|| "expected {name, value}".to_owned())?;
        let assignments = match application {
            "rabbit" if WITHOUT_MEANING.contains(&name) => {
                return Ok(vec![format!("'{name}' has no effect: what it tunes isn't built that way here")]);
            }
            "rabbit" => of_rabbit(name, value)?,
            "rabbitmq_management" if name == "rates_mode" => {
                return Ok(vec!["'rates_mode' has no effect: rates cost nothing that could be saved".to_owned()]);
            }
            "rabbitmq_management" => of_http("management", name, value)?,
            "rabbitmq_prometheus" => of_http("prometheus", name, value)?,
            _ => return Err(format!("the application '{application}' isn't there; its term is '{name}'")),
        };
        let mut told = Vec::new();
        for (key, value) in assignments {
            told.extend(self.assign(Assignment { key: &key, value: &value })?);
        }
        Ok(told)
    }
}

/// A tuple of an atom and something.
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
    let one = |key: &str, value: String| Ok(vec![(key.to_owned(), value)]);
    match (name, value) {
        ("loopback_users", TermValue::List(users)) => {
            // A list replaces the default.
            let mut all = vec![("loopback_users".to_owned(), "none".to_owned())];
            for user in users {
                let user = scalar(&user.value).ok_or("loopback_users: expected a list of names")?;
                all.push((format!("loopback_users.{user}"), "true".to_owned()));
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
                Ok((format!("{key}.{number}"), address))
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
                Ok((format!("default_permissions.{kind}"), pattern))
            });
            each.collect()
        }
        ("default_consumer_prefetch", TermValue::Tuple(parts)) if parts.len() == 2 => {
            one(name, scalar(&parts[1].value).ok_or("default_consumer_prefetch: expected {false, N}")?)
        }
        _ => flat(name, value),
    }
}

/// Terms of the listeners for HTTP: `{tcp_config, [{port, 15672}]}`, `{path_prefix, "/x"}`.
fn of_http(prefix: &str, name: &str, value: &TermValue) -> Result<Assignments, String> {
    match name {
        "tcp_config" | "ssl_config" => flat(&format!("{prefix}.{}", name.trim_end_matches("_config")), value),
        "load_definitions" => flat(name, value),
        _ => flat(&format!("{prefix}.{name}"), value),
    }
}

/// As the same names stand in rabbitmq.conf: names within names have dots between, items of a list are numbered.
fn flat(key: &str, value: &TermValue) -> Result<Assignments, String> {
    let unreadable = || format!("'{key}' can't be taken from here as it stands; rabbitmq.conf may have a key for it");
    if let Some(value) = scalar(value) {
        return Ok(vec![(key.to_owned(), value)]);
    }
    let TermValue::List(items) = value else { return Err(unreadable()) };
    let mut all = Vec::new();
    for (number, item) in (1..).zip(items) {
        match pair(item) {
            Some((name, value)) => all.extend(flat(&format!("{key}.{name}"), value)?),
            None => all.push((format!("{key}.{number}"), scalar(&item.value).ok_or_else(unreadable)?)),
        }
    }
    Ok(all)
}

/// A value as rabbitmq.conf has it.
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
