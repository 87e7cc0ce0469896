use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    AskedGrants, ExchangeType, GrantQuestion, Grants, Identity, Pattern, Permission, PolicyKind, Refused, RefusedKind,
    Right, Scopes, Topology,
};

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
///
/// It says who asked, so that the member that decides can judge again ([`Permit::judge_again`]): the one that judged first may not have heard
/// of the last changes of permissions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    pub(crate) scope: Scope,
    actor: Arc<str>,
    /// `None` for the broker itself, for an administrator on the node's machine, and in a request of a release that doesn't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asker: Option<Asker>,
}

/// The asker of a [`Permit`], beside its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asker {
    /// The version of this form, [`Asker::VERSION`].
    pub version: u8,
    /// The backend that knows it; `None` for the users of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Arc<str>>,
    /// Whether it is judged by the model. If not, its backend or its token has been asked, and the model has nothing to say to that.
    pub is_of_model: bool,
    /// Its id of its own, for which `{client_id}` in topic permissions stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Arc<str>>,
}

impl Asker {
    /// The version that this release writes and reads.
    pub(crate) const VERSION: u8 = 1;

    fn of(who: &Identity) -> Self {
        let is_of_model = matches!(who.grants(), Grants::Model);
        Self { version: Self::VERSION, backend: who.other_backend().cloned(), is_of_model, client_id: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Scope {
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
        Permit { scope: Scope::System, actor: "".into(), asker: None }
    }

    /// A permit for definitions that the broker itself imports when it starts.
    pub fn import() -> Self {
        Permit { scope: Scope::Import { user: "".into() }, actor: "".into(), asker: None }
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
    Ok(Permit { scope, actor: "".into(), asker: None })
}

/// Grants an identity an `action` in `vhost`, by the table of RabbitMQ's access control.
///
/// # Errors
/// `AccessRefused` names the first missing permission; `NotAllowed` if the vhost doesn't exist or the identity may not
/// enter it. `Unanswered` if the identity's grants are asked for, and the answer isn't there yet.
pub fn authorize(topology: &Topology, who: &Identity, vhost: &str, action: Action<'_>) -> Result<Permit, Refused> {
    authorize_client(topology, who, vhost, None, action)
}

/// As [`authorize`], for a client with an id of its own, for which `{client_id}` in topic permissions stands.
///
/// # Errors
/// As [`authorize`].
pub fn authorize_client(
    topology: &Topology,
    who: &Identity,
    vhost: &str,
    client_id: Option<&str>,
    action: Action<'_>,
) -> Result<Permit, Refused> {
    if let Some(permit) = authorize_by_tags(topology, who, vhost, action)? {
        return Ok(permit);
    }
    let Some(vhost_name) = topology.vhost(vhost) else {
        return Err(Refused::new(RefusedKind::NotAllowed, format!("vhost {vhost} not found")));
    };
    let Some(judge) = Judge::of(topology, who, vhost) else {
        return Err(not_entering(who.name(), vhost));
    };
    judge.enters()?;
    let check = |right: Right, resource: Resource<'_>| judge.check(right, resource);
    let check_topic =
        |right: Right, exchange: &str, routing_key: &[u8]| judge.check_topic(right, exchange, routing_key, client_id);
    match action {
        Action::Administer
        | Action::SetParameters
        | Action::SetPolicies
        | Action::ImportDefinitions
        | Action::Enter => {}
        Action::Configure(resource) => check(Right::Configure, resource)?,
        Action::Write(resource) => check(Right::Write, resource)?,
        Action::Read(resource) => check(Right::Read, resource)?,
        Action::ReadWith { exchange, routing_key } => {
            check(Right::Read, Resource::Exchange(exchange))?;
            check_topic(Right::Read, exchange, routing_key)?;
        }
        Action::Inspect(resource) => {
            let refused = check(Right::Configure, resource).err();
            if let Some(refused) = refused {
                for right in [Right::Write, Right::Read] {
                    match check(right, resource) {
                        Ok(()) => break,
                        // The answer decides, whatever the others are.
                        Err(other) if other.kind == RefusedKind::Unanswered => return Err(other),
                        Err(_) if right == Right::Read => return Err(refused),
                        Err(_) => {}
                    }
                }
            }
        }
        Action::DeclareQueue { queue, dead_letter_exchange } => {
            check(Right::Configure, Resource::Queue(queue))?;
            if let Some(exchange) = dead_letter_exchange {
                check(Right::Read, Resource::Queue(queue))?;
                check(Right::Write, Resource::Exchange(exchange))?;
            }
        }
        Action::DeleteQueue(queue) => check(Right::Configure, Resource::Queue(queue))?,
        Action::Consume(queue) => check(Right::Read, Resource::Queue(queue))?,
        Action::DeclareExchange { exchange, alternate } => {
            check(Right::Configure, Resource::Exchange(exchange))?;
            if let Some(alternate) = alternate {
                check(Right::Read, Resource::Exchange(exchange))?;
                check(Right::Write, Resource::Exchange(alternate))?;
            }
        }
        // Actions that are refused for every user get their own error, whatever permissions the user has.
        Action::DeleteExchange(exchange) if exchange.starts_with("amq.") => {
            return Err(Refused::system_exchange(vhost, exchange));
        }
        Action::DeleteExchange(exchange) => check(Right::Configure, Resource::Exchange(exchange))?,
        Action::Publish(exchange) => check(Right::Write, Resource::Exchange(exchange))?,
        Action::PublishWith { exchange, routing_key } => {
            check(Right::Write, Resource::Exchange(exchange))?;
            check_topic(Right::Write, exchange, routing_key)?;
        }
        Action::Bind { source, destination, routing_key } => {
            check(Right::Write, destination)?;
            check(Right::Read, Resource::Exchange(source))?;
            check_topic(Right::Read, source, routing_key)?;
        }
    }
    let mut asker = Asker::of(who);
    if matches!(action, Action::Bind { .. }) {
        asker.client_id = client_id.map(Arc::from);
    }
    Ok(Permit {
        scope: Scope::Vhost { user: who.name().clone(), vhost: vhost_name.clone() },
        actor: who.name().clone(),
        asker: Some(asker),
    })
}

/// The permit for an action that depends on the identity's tags; `None` if the action depends on permissions in a vhost.
///
/// # Errors
/// As [`authorize`].
fn authorize_by_tags(
    topology: &Topology,
    who: &Identity,
    vhost: &str,
    action: Action<'_>,
) -> Result<Option<Permit>, Refused> {
    let user = &**who.name();
    let is_administrator = || who.has_tag(topology, "administrator");
    let permit = |scope| Ok(Some(Permit { scope, actor: who.name().clone(), asker: Some(Asker::of(who)) }));
    match action {
        Action::Administer | Action::ImportDefinitions if !is_administrator() => Err(not_administrator(user)),
        Action::Administer => permit(Scope::Administer),
        Action::ImportDefinitions => permit(Scope::Import { user: who.name().clone() }),
        Action::SetParameters => match who.has_tag(topology, "policymaker") || is_administrator() {
            true => permit(Scope::Parameters),
            false => Err(Refused::access(format!("user '{user}' lacks the tag 'policymaker'"))),
        },
        Action::SetPolicies => {
            let enters = || match Judge::of(topology, who, vhost) {
                Some(judge) => judge.enters().map(|()| true),
                None => Ok(false),
            };
            match is_administrator() || who.has_tag(topology, "policymaker") && enters()? {
                true => permit(Scope::Policies { vhost: vhost.into() }),
                false => Err(Refused::access(format!(
                    "user '{user}' lacks the tag 'policymaker', or has no permissions in vhost '{vhost}'"
                ))),
            }
        }
        _ => Ok(None),
    }
}

/// An identity in a vhost, and the source of what it may do there.
struct Judge<'a> {
    topology: &'a Topology,
    user: &'a str,
    vhost: &'a str,
    source: Source<'a>,
}

enum Source<'a> {
    Permission(&'a Permission),
    Scopes(&'a Scopes),
    Asked(&'a AskedGrants),
}

impl<'a> Judge<'a> {
    /// `None` if the identity is a user of the model without permissions in the vhost.
    fn of(topology: &'a Topology, who: &'a Identity, vhost: &'a str) -> Option<Self> {
        let user = &**who.name();
        let source = match who.grants() {
            Grants::Model => {
                let entered = topology.user(user).zip(topology.permission(user, vhost));
                Source::Permission(entered?.1)
            }
            Grants::Scopes(scopes) => Source::Scopes(scopes),
            Grants::Asked(asked) => Source::Asked(asked),
        };
        Some(Self { topology, user, vhost, source })
    }

    fn enters(&self) -> Result<(), Refused> {
        let may = match self.source {
            Source::Permission(_) => true,
            Source::Scopes(scopes) => scopes.enter(self.vhost),
            Source::Asked(asked) => answer(asked, GrantQuestion::enter(self.vhost))?,
        };
        if may { Ok(()) } else { Err(not_entering(self.user, self.vhost)) }
    }

    fn check(&self, right: Right, resource: Resource<'_>) -> Result<(), Refused> {
        let (kind, name) = match resource {
            Resource::Queue(name) => ("queue", name),
            Resource::Exchange("") => ("exchange", DEFAULT_EXCHANGE),
            Resource::Exchange(name) => ("exchange", name),
        };
        let (user, vhost) = (self.user, self.vhost);
        let may = match self.source {
            Source::Permission(permission) => {
                let pattern = match right {
                    Right::Configure => &permission.configure,
                    Right::Write => &permission.write,
                    Right::Read => &permission.read,
                };
                pattern.matches(name)
            }
            Source::Scopes(scopes) => scopes.allow(right, vhost, name),
            Source::Asked(asked) => {
                let is_queue = matches!(resource, Resource::Queue(_));
                answer(asked, GrantQuestion::Resource { vhost: vhost.into(), is_queue, name: name.into(), right })?
            }
        };
        match may {
            true => Ok(()),
            false => Err(Refused::access(format!(
                "{} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'",
                right.name()
            ))),
        }
    }

    /// Routing keys matter at topic exchanges only.
    fn check_topic(
        &self,
        right: Right,
        exchange: &str,
        routing_key: &[u8],
        client_id: Option<&str>,
    ) -> Result<(), Refused> {
        let (user, vhost) = (self.user, self.vhost);
        let is_limited = match self.source {
            Source::Permission(_) => self.topology.topic_permission(user, vhost, exchange).is_some(),
            Source::Scopes(_) | Source::Asked(_) => true,
        };
        let is_topic =
            || self.topology.exchange(vhost, exchange).is_some_and(|found| found.kind == ExchangeType::Topic);
        if !is_limited || !is_topic() {
            return Ok(());
        }
        let key = &*String::from_utf8_lossy(routing_key);
        let may = match self.source {
            Source::Permission(_) => self.permits_topic(right, exchange, key, client_id),
            Source::Scopes(scopes) => scopes.allow_topic(right, vhost, exchange, key),
            Source::Asked(asked) => {
                let (vhost, exchange, routing_key) = (vhost.into(), exchange.into(), key.into());
                let client_id = client_id.map(Arc::from);
                answer(asked, GrantQuestion::Topic { vhost, exchange, routing_key, right, client_id })?
            }
        };
        match may {
            true => Ok(()),
            false => Err(Refused::access(format!(
                "{} access to topic '{key}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'",
                right.name()
            ))),
        }
    }

    fn permits_topic(&self, right: Right, exchange: &str, key: &str, client_id: Option<&str>) -> bool {
        let (user, vhost) = (self.user, self.vhost);
        let Some(limits) = self.topology.topic_permission(user, vhost, exchange) else { return true };
        let pattern = if right == Right::Write { &limits.write } else { &limits.read };
        match client_id {
            Some(id) if pattern.as_str().contains("{client_id}") => {
                let variables = [("username", user), ("vhost", vhost), ("client_id", id)];
                Pattern::with_variables(pattern.as_str(), &variables, "the client", right.name())
                    .is_ok_and(|pattern| pattern.matches(key))
            }
            _ => pattern.matches(key),
        }
    }
}

fn answer(asked: &AskedGrants, question: GrantQuestion) -> Result<bool, Refused> {
    asked.look(question).ok_or_else(|| {
        Refused::new(RefusedKind::Unanswered, "the backend that knows the permission hasn't answered yet")
    })
}

fn not_entering(user: &str, vhost: &str) -> Refused {
    Refused::new(RefusedKind::NotAllowed, format!("access to vhost '{vhost}' refused for user '{user}'"))
}

fn not_administrator(user: &str) -> Refused {
    Refused::access(format!("Not administrator user: '{user}' lacks the tag 'administrator'"))
}
