//! The backend `http`: a service that is asked over HTTP, as RabbitMQ's plugin does it.

use std::sync::Arc;
use std::time::Duration;

use leveret_config::HttpServiceSettings;
use leveret_model::{GrantAnswer, GrantQuestion};

use crate::attempt::{Attempt, ClientOrigin, Proof, ProvenGrants};
use crate::client::{Address, ConnectTls, Form, HttpClient, RequestLimits, put_field};

/// Most bytes of an answer: a word and tags.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Connections that are kept open without use.
const IDLE_MAX: usize = 32;

/// Longest text of the service in a line of the log.
const SHOWN_MAX: usize = 200;

/// The service.
pub(crate) struct HttpService {
    posts: bool,
    user: Service,
    vhost: Service,
    resource: Service,
    topic: Service,
}

/// One of its addresses. Those of one host share their connections.
struct Service {
    address: Address,
    client: Arc<HttpClient>,
}

/// An answer of the service.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// With the rest of the line: tags.
    Allow(String),
    /// With a reason, which may be empty.
    Deny(String),
}

/// Whom a question is about.
pub(crate) struct Asker<'a> {
    pub(crate) name: &'a str,
    pub(crate) tags: &'a [Arc<str>],
    pub(crate) origin: &'a ClientOrigin,
}

impl HttpService {
    /// The service of these settings.
    ///
    /// # Errors
    /// An address is none, or TLS can't be used.
    pub(crate) fn new(settings: &HttpServiceSettings, tls: ConnectTls<'_>) -> Result<Self, String> {
        let limits = RequestLimits {
            connect: Duration::from_millis(settings.connection_timeout_ms),
            whole: Duration::from_millis(settings.request_timeout_ms),
            bytes_max: ANSWER_BYTES_MAX,
            idle_max: IDLE_MAX,
        };
        let addresses = [
            ("user_path", &settings.user_path),
            ("vhost_path", &settings.vhost_path),
            ("resource_path", &settings.resource_path),
            ("topic_path", &settings.topic_path),
        ];
        let mut services: Vec<Service> = Vec::new();
        for (key, url) in addresses {
            let address = Address::parse(url).map_err(|reason| format!("auth_http.{key}: {reason}"))?;
            let shared = services.iter().find(|service| service.address.is_same_host(&address));
            let client = match shared {
                Some(service) => service.client.clone(),
                None => {
                    let tls = address.is_tls().then_some(tls);
                    let client = HttpClient::new(limits, &settings.tls, tls);
                    Arc::new(client.map_err(|reason| format!("auth_http.ssl_options: {reason}"))?)
                }
            };
            services.push(Service { address, client });
        }
        let [user, vhost, resource, topic] = services.try_into().map_err(|_| "four addresses".to_owned())?;
        Ok(Self { posts: settings.posts, user, vhost, resource, topic })
    }

    /// Asks whether the user of this name may log in. A login by certificate has no password.
    ///
    /// # Errors
    /// The reason of a refusal, for the log.
    pub(crate) async fn log_in(&self, name: &str, attempt: &Attempt) -> Result<Proof, String> {
        let mut form = String::new();
        put_field(&mut form, "username", name.as_bytes());
        if let Some(secret) = &attempt.secret {
            put_field(&mut form, "password", secret);
        }
        if let Some(vhost) = &attempt.origin.vhost {
            put_field(&mut form, "vhost", vhost.as_bytes());
        }
        if let Some(client_id) = &attempt.origin.client_id {
            put_field(&mut form, "client_id", client_id.as_bytes());
        }
        match self.ask_service(&self.user, &form).await? {
            Said::Allow(tags) => Ok(Proof {
                name: name.into(),
                tags: tags.split_whitespace().map(Arc::from).collect(),
                grants: ProvenGrants::Asked,
                ends_ms: None,
            }),
            Said::Deny(reason) if reason.is_empty() => Err("denied by the service".to_owned()),
            Said::Deny(reason) => Err(format!("denied by the service: {reason}")),
        }
    }

    /// Asks whether a user may do something.
    pub(crate) async fn ask(&self, who: &Asker<'_>, question: &GrantQuestion) -> GrantAnswer {
        let (service, form) = self.form(who, question);
        match self.ask_service(service, &form).await {
            Ok(Said::Allow(rest)) if rest.is_empty() => GrantAnswer::Granted,
            Ok(Said::Allow(_)) => {
                tracing::warn!("backend http: user '{}', {question:?}: the answer has more than 'allow'", who.name);
                GrantAnswer::Refused
            }
            Ok(Said::Deny(reason)) => {
                let reason = if reason.is_empty() { "no reason given" } else { &*reason };
                tracing::info!("backend http: denied for user '{}', {question:?}: {reason}", who.name);
                GrantAnswer::Refused
            }
            Err(reason) => {
                tracing::warn!("backend http: user '{}', {question:?}: {reason}", who.name);
                GrantAnswer::Failed
            }
        }
    }

    fn form(&self, who: &Asker<'_>, question: &GrantQuestion) -> (&Service, String) {
        let mut form = String::new();
        let mut put = |name: &str, value: &str| put_field(&mut form, name, value.as_bytes());
        put("username", who.name);
        let tags: Vec<&str> = who.tags.iter().map(|tag| &**tag).collect();
        let tags = tags.join(" ");
        let service = match question {
            GrantQuestion::Enter { vhost } => {
                put("vhost", vhost);
                put("ip", &who.origin.address.map(|address| address.to_string()).unwrap_or_default());
                put("tags", &tags);
                &self.vhost
            }
            GrantQuestion::Resource { vhost, is_queue, name, right } => {
                put("vhost", vhost);
                put("resource", if *is_queue { "queue" } else { "exchange" });
                put("name", name);
                put("permission", right.name());
                put("tags", &tags);
                &self.resource
            }
            GrantQuestion::Topic { vhost, exchange, routing_key, right, client_id } => {
                put("vhost", vhost);
                put("resource", "topic");
                put("name", exchange);
                put("permission", right.name());
                put("tags", &tags);
                put("routing_key", routing_key);
                put("variable_map.username", who.name);
                put("variable_map.vhost", vhost);
                if let Some(client_id) = client_id {
                    put("variable_map.client_id", client_id);
                }
                return (&self.topic, form);
            }
        };
        if let Some(client_id) = &who.origin.client_id {
            put("client_id", client_id);
        }
        (service, form)
    }

    async fn ask_service(&self, service: &Service, form: &str) -> Result<Said, String> {
        let form = if self.posts { Form::Post(form) } else { Form::Query(form) };
        let (status, body) = service.client.request(&service.address, form).await?;
        said(status, &body)
    }
}

fn said(status: u16, body: &[u8]) -> Result<Said, String> {
    let shown = || {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        text[..text.floor_char_boundary(SHOWN_MAX)].escape_debug().to_string()
    };
    if !matches!(status, 200 | 201) {
        return Err(format!("the service answered with status {status}: '{}'", shown()));
    }
    let text = std::str::from_utf8(body).map_err(|_| "the service's answer isn't UTF-8".to_owned())?.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word.to_ascii_lowercase().as_str() {
        "allow" => Ok(Said::Allow(rest.trim().to_lowercase())),
        "deny" => Ok(Said::Deny(rest.trim()[..rest.trim().floor_char_boundary(SHOWN_MAX)].escape_debug().to_string())),
        _ => Err(format!("the service answered neither allow nor deny: '{}'", shown())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_allow_or_deny_and_nothing_else() {
        let allow = |tags: &str| Ok(Said::Allow(tags.to_owned()));
        assert_eq!(said(200, b"allow"), allow(""));
        assert_eq!(said(201, b" ALLOW  Administrator management\r\n"), allow("administrator management"));
        assert_eq!(said(200, b"Deny not you"), Ok(Said::Deny("not you".to_owned())));
        assert_eq!(said(200, b"deny"), Ok(Said::Deny(String::new())));
        for (status, body) in [
            (200, &b"allowed"[..]),
            (200, b""),
            (200, b"<html>allow</html>"),
            (200, b"\xff"),
            (204, b"allow"),
            (302, b"allow"),
            (500, b"allow"),
        ] {
            assert!(said(status, body).is_err(), "{status} {body:?}");
        }
    }
}
