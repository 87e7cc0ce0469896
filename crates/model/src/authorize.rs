use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ExchangeType, Pattern, PolicyKind, Refused, RefusedKind, Topology};

/// The default exchange's name in permissions.
const DEFAULT_EXCHANGE: &str = "amq.default";

/// A queue or exchange in a permission check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A queue, by name.
    Queue(&'a str),
    /// An exchange, by name; empty for the default one.
    Exchange(&'a str),
}

/// An action in a vhost that needs permission. Only [`authorize`] decides which permissions it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Connect to the vhost.
    Enter,
    /// Needs permission to configure one object.
    Configure(Resource<'a>),
    /// Needs permission to write to one object.
    Write(Resource<'a>),
    /// Needs permission to read from one object.
    Read(Resource<'a>),
    /// Look at messages of an exchange with this routing key, which topic permissions apply to as well.
    ReadWith {
        /// The exchange.
        exchange: &'a str,
        /// The routing key.
        routing_key: &'a [u8],
    },
    /// Look at one object over AMQP 1.0 management: any of the three permissions is enough.
    Inspect(Resource<'a>),
    /// queue.declare, passive or not. With a dead-letter exchange it also needs read on the queue and write on that
    /// exchange.
    DeclareQueue {
        /// The queue.
        queue: &'a str,
        /// Argument `x-dead-letter-exchange`.
        dead_letter_exchange: Option<&'a str>,
    },
    /// queue.delete.
    DeleteQueue(&'a str),
    /// queue.purge, basic.get, basic.consume.
    Consume(&'a str),
    /// exchange.declare, passive or not. With an alternate exchange it also needs read on the exchange and write on
    /// the alternate.
    DeclareExchange {
        /// The exchange.
        exchange: &'a str,
        /// Argument `alternate-exchange`.
        alternate: Option<&'a str>,
    },
    /// exchange.delete.
    DeleteExchange(&'a str),
    /// basic.publish to this exchange.
    Publish(&'a str),
    /// basic.publish to this exchange with this routing key, which topic permissions apply to as well.
    PublishWith {
        /// The exchange.
        exchange: &'a str,
        /// The routing key.
        routing_key: &'a [u8],
    },
    /// queue.bind and unbind, exchange.bind and unbind.
    Bind {
        /// The binding's source exchange.
        source: &'a str,
        /// The binding's destination.
        destination: Resource<'a>,
        /// The routing key, which topic permissions apply to as well.
        routing_key: &'a [u8],
    },
    /// Manage users, vhosts and permissions. Needs the tag `administrator`, and no permission in the vhost.
    Administer,
    /// Set and clear policies in the vhost. Needs the tag `policymaker` and access to the vhost, or the tag `administrator`.
    SetPolicies,
    /// Set global parameters of the cluster. Needs the tag `policymaker` or `administrator`.
    SetParameters,
    /// Import definitions, which may create anything anywhere. Needs the tag `administrator`.
    ImportDefinitions,
}

/// Proof that [`authorize`] granted an action. Every operation on the model and on queues requires one. Members of a cluster send it to each
/// other with a request, over links on which both have proven the cookie; nobody else's bytes are ever read as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    scope: Scope,
    actor: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Scope {
    System,
    Administer,
    /// An import by this user; empty for an administrator on the node's machine.
    Import {
        user: Arc<str>,
    },
    Parameters,
    Policies {
        vhost: Arc<str>,
    },
    Vhost {
        user: Arc<str>,
        vhost: Arc<str>,
    },
}

impl Permit {
    /// A permit for the broker's own operations: recovery, boot, and cleaning up after a connection. Never use it for
    /// a client's request.
    pub fn system() -> Self {
        Permit { scope: Scope::System, actor: "".into() }
    }

    /// A permit for definitions that the broker itself imports when it starts.
    pub fn import() -> Self {
        Permit { scope: Scope::Import { user: "".into() }, actor: "".into() }
    }

    /// Whether it is for an import: what earlier versions of RabbitMQ knew is kept then, without effect.
    pub(crate) fn is_import(&self) -> bool {
        matches!(self.scope, Scope::Import { .. })
    }

    /// The user that asked, unless it was the broker itself.
    pub fn user(&self) -> Option<&Arc<str>> {
        match &self.scope {
            Scope::Vhost { user, .. } | Scope::Import { user } => Some(user),
            Scope::System | Scope::Administer | Scope::Parameters | Scope::Policies { .. } => None,
        }
    }

    /// The user whose action it is; empty for the broker itself and for an administrator on the node's machine.
    pub fn actor(&self) -> &Arc<str> {
        &self.actor
    }

    /// Checks that the permit is for something in `vhost`. A permit of another vhost is a bug of the caller that must
    /// not become a security hole.
    pub(crate) fn check_vhost(&self, vhost: &str) -> Result<(), Refused> {
        match &self.scope {
            Scope::System | Scope::Import { .. } => Ok(()),
            Scope::Vhost { vhost: permitted, .. } if **permitted == *vhost => Ok(()),
            Scope::Vhost { .. } | Scope::Administer | Scope::Parameters | Scope::Policies { .. } => Err(Refused::new(
                RefusedKind::NotAllowed,
                format!("access to vhost '{vhost}' refused: the permit is for something else"),
            )),
        }
    }

    pub(crate) fn is_system(&self) -> bool {
        matches!(self.scope, Scope::System)
    }

    /// Checks that the broker itself asks.
    pub(crate) fn check_system(&self) -> Result<(), Refused> {
        match self.is_system() {
            true => Ok(()),
            false => Err(Refused::new(RefusedKind::NotAllowed, "only the broker itself does this")),
        }
    }

    pub(crate) fn check_administer(&self) -> Result<(), Refused> {
        match &self.scope {
            Scope::System | Scope::Administer | Scope::Import { .. } => Ok(()),
            Scope::Vhost { user, .. } => Err(not_administrator(user)),
            Scope::Parameters | Scope::Policies { .. } => Err(not_administrator("")),
        }
    }

    /// Checks that the permit is for policies of this kind in `vhost`.
    pub(crate) fn check_policies(&self, kind: PolicyKind, vhost: &str) -> Result<(), Refused> {
        match &self.scope {
            Scope::Policies { vhost: permitted } if kind == PolicyKind::User && **permitted == *vhost => Ok(()),
            _ => self.check_administer(),
        }
    }

    pub(crate) fn check_parameters(&self) -> Result<(), Refused> {
        match &self.scope {
            Scope::Parameters => Ok(()),
            _ => self.check_administer(),
        }
    }
}

/// Grants an action to an administrator of the node's machine, without a user: everything is allowed, in every
/// existing vhost. The caller has checked that the operating system authorised the peer.
///
/// # Errors
/// `NotAllowed` if the vhost doesn't exist.
pub fn authorize_local(topology: &Topology, vhost: &str, action: Action<'_>) -> Result<Permit, Refused> {
    let scope = match action {
        Action::Administer => Scope::Administer,
        Action::ImportDefinitions => Scope::Import { user: "".into() },
        Action::SetParameters => Scope::Parameters,
        Action::SetPolicies => Scope::Policies { vhost: vhost.into() },
        _ => match topology.vhost(vhost) {
            Some(vhost) => Scope::Vhost { user: "".into(), vhost: vhost.clone() },
            None => return Err(Refused::new(RefusedKind::NotAllowed, format!("vhost {vhost} not found"))),
        },
    };
    Ok(Permit { scope, actor: "".into() })
}

/// Grants `user` an `action` in `vhost`, by the table of RabbitMQ's access control.
///
/// # Errors
/// `AccessRefused` names the first missing permission; `NotAllowed` if the vhost doesn't exist or the user may not
/// enter it.
pub fn authorize(topology: &Topology, user: &str, vhost: &str, action: Action<'_>) -> Result<Permit, Refused> {
    authorize_client(topology, user, vhost, None, action)
}

/// As [`authorize`], for a client with an id of its own, for which `{client_id}` in topic permissions stands.
///
/// # Errors
/// As [`authorize`].
pub fn authorize_client(
    topology: &Topology,
    user: &str,
    vhost: &str,
    client_id: Option<&str>,
    action: Action<'_>,
) -> Result<Permit, Refused> {
    if matches!(action, Action::Administer | Action::ImportDefinitions) {
        let known = topology.user(user).ok_or_else(|| not_administrator(user))?;
        if !known.has_tag("administrator") {
            return Err(not_administrator(user));
        }
        let scope = match action {
            Action::Administer => Scope::Administer,
            _ => Scope::Import { user: known.name.clone() },
        };
        return Ok(Permit { scope, actor: user.into() });
    }
    if action == Action::SetParameters {
        let allowed =
            topology.user(user).is_some_and(|user| user.has_tag("policymaker") || user.has_tag("administrator"));
        return match allowed {
            true => Ok(Permit { scope: Scope::Parameters, actor: user.into() }),
            false => Err(Refused::access(format!("user '{user}' lacks the tag 'policymaker'"))),
        };
    }
    if action == Action::SetPolicies {
        let known = topology.user(user).filter(|user| {
            let enters = || topology.permission(&user.name, vhost).is_some();
            user.has_tag("administrator") || user.has_tag("policymaker") && enters()
        });
        return match known {
            Some(_) => Ok(Permit { scope: Scope::Policies { vhost: vhost.into() }, actor: user.into() }),
            None => Err(Refused::access(format!(
                "user '{user}' lacks the tag 'policymaker', or has no permissions in vhost '{vhost}'"
            ))),
        };
    }
    let Some(vhost_name) = topology.vhost(vhost) else {
        return Err(Refused::new(RefusedKind::NotAllowed, format!("vhost {vhost} not found")));
    };
    let entered = topology.user(user).zip(topology.permission(user, vhost));
    let Some((known, permission)) = entered else {
        return Err(Refused::new(
            RefusedKind::NotAllowed,
            format!("access to vhost '{vhost}' refused for user '{user}'"),
        ));
    };
    let check = |part: &str, resource: Resource<'_>| {
        let (kind, name) = match resource {
            Resource::Queue(name) => ("queue", name),
            Resource::Exchange("") => ("exchange", DEFAULT_EXCHANGE),
            Resource::Exchange(name) => ("exchange", name),
        };
        let pattern = match part {
            "configure" => &permission.configure,
            "write" => &permission.write,
            _ => &permission.read,
        };
        match pattern.matches(name) {
            true => Ok(()),
            false => Err(Refused::access(format!(
                "{part} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'"
            ))),
        }
    };
    let check_topic = |part: &str, exchange: &str, routing_key: &[u8]| {
        let Some(limits) = topology.topic_permission(user, vhost, exchange) else { return Ok(()) };
        if topology.exchange(vhost, exchange).is_none_or(|found| found.kind != ExchangeType::Topic) {
            return Ok(());
        }
        let pattern = if part == "write" { &limits.write } else { &limits.read };
        let key = String::from_utf8_lossy(routing_key);
        let is_allowed = match client_id {
            Some(id) if pattern.as_str().contains("{client_id}") => {
                let variables = [("username", user), ("vhost", vhost), ("client_id", id)];
                Pattern::with_variables(pattern.as_str(), &variables, "the client", part)
                    .is_ok_and(|pattern| pattern.matches(&key))
            }
            _ => pattern.matches(&key),
        };
        match is_allowed {
            true => Ok(()),
            false => Err(Refused::access(format!(
                "{part} access to topic '{key}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'"
            ))),
        }
    };
    match action {
        Action::Administer
        | Action::SetParameters
        | Action::SetPolicies
        | Action::ImportDefinitions
        | Action::Enter => {}
        Action::Configure(resource) => check("configure", resource)?,
        Action::Write(resource) => check("write", resource)?,
        Action::Read(resource) => check("read", resource)?,
        Action::ReadWith { exchange, routing_key } => {
            check("read", Resource::Exchange(exchange))?;
            check_topic("read", exchange, routing_key)?;
        }
        Action::Inspect(resource) => {
            let configure = check("configure", resource);
            if configure.is_err() && check("write", resource).is_err() && check("read", resource).is_err() {
                configure?;
            }
        }
        Action::DeclareQueue { queue, dead_letter_exchange } => {
            check("configure", Resource::Queue(queue))?;
            if let Some(exchange) = dead_letter_exchange {
                check("read", Resource::Queue(queue))?;
                check("write", Resource::Exchange(exchange))?;
            }
        }
        Action::DeleteQueue(queue) => check("configure", Resource::Queue(queue))?,
        Action::Consume(queue) => check("read", Resource::Queue(queue))?,
        Action::DeclareExchange { exchange, alternate } => {
            check("configure", Resource::Exchange(exchange))?;
            if let Some(alternate) = alternate {
                check("read", Resource::Exchange(exchange))?;
                check("write", Resource::Exchange(alternate))?;
            }
        }
        // Actions that are refused for every user get their own error, whatever permissions the user has.
        Action::DeleteExchange(exchange) if exchange.starts_with("amq.") => {
            return Err(Refused::system_exchange(vhost, exchange));
        }
        Action::DeleteExchange(exchange) => check("configure", Resource::Exchange(exchange))?,
        Action::Publish(exchange) => check("write", Resource::Exchange(exchange))?,
        Action::PublishWith { exchange, routing_key } => {
            check("write", Resource::Exchange(exchange))?;
            check_topic("write", exchange, routing_key)?;
        }
        Action::Bind { source, destination, routing_key } => {
            check("write", destination)?;
            check("read", Resource::Exchange(source))?;
            check_topic("read", source, routing_key)?;
        }
    }
    let actor = known.name.clone();
    Ok(Permit { scope: Scope::Vhost { user: known.name.clone(), vhost: vhost_name.clone() }, actor })
}

fn not_administrator(user: &str) -> Refused {
    Refused::access(format!("Not administrator user: '{user}' lacks the tag 'administrator'"))
}
