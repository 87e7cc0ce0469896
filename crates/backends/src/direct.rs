//! Each backend by its kind.

use std::sync::Arc;

use leveret_auth::{Mechanism, Response};
use leveret_broker::authenticate::{NotRenewed, RenewalOutcome};
use leveret_config::BackendKind;
use leveret_model::{
    Action, GrantAnswer, GrantQuestion, Grants, Identity, Resource, Right, Scopes, Topology, authorize_client,
};

use crate::attempt::{Attempt, Proof, ProvenGrants};
use crate::http_service::{Asker, HttpService};
use crate::oauth2::OAuth2;

/// A backend that is asked itself.
#[derive(Clone)]
pub(crate) enum Direct {
    Internal,
    InternalLoopback,
    Dummy,
    Http(Arc<HttpService>),
    OAuth2(Arc<OAuth2>),
}

impl Direct {
    /// Whether it looks users of the model up.
    pub(crate) fn asks_model(&self) -> bool {
        matches!(self, Direct::Internal | Direct::InternalLoopback)
    }

    /// The name in texts.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Internal => BackendKind::Internal.name(),
            Self::InternalLoopback => BackendKind::InternalLoopback.name(),
            Self::Dummy => BackendKind::Dummy.name(),
            Self::Http(_) => BackendKind::Http.name(),
            Self::OAuth2(_) => BackendKind::OAuth2.name(),
        }
    }

    /// Checks a login.
    ///
    /// # Errors
    /// The reason of a refusal, for the log.
    pub(crate) async fn log_in(&self, attempt: &Attempt) -> Result<Proof, String> {
        match self {
            Self::Internal => internal(attempt),
            Self::InternalLoopback if !attempt.origin.is_loopback => {
                Err("its users can only connect via localhost".to_owned())
            }
            Self::InternalLoopback => internal(attempt),
            Self::Dummy => Err("it lets nobody in".to_owned()),
            Self::Http(service) => service.log_in(&attempt.name, attempt).await,
            Self::OAuth2(oauth2) => {
                let token = attempt.secret.as_deref().ok_or("a login without a token")?;
                oauth2.check(token).await
            }
        }
    }

    /// Admits a user whose login another backend has checked, under the name that it gave.
    ///
    /// # Errors
    /// The reason of a refusal, for the log.
    pub(crate) async fn admit(&self, name: &Arc<str>, attempt: &Attempt) -> Result<Proof, String> {
        let proof =
            |grants, tags: &[Arc<str>]| Proof { name: name.clone(), tags: tags.to_vec(), grants, ends_ms: None };
        match self {
            Self::InternalLoopback if !attempt.origin.is_loopback => {
                Err("its users can only connect via localhost".to_owned())
            }
            Self::Internal | Self::InternalLoopback => match attempt.topology.user(name) {
                Some(user) => Ok(proof(ProvenGrants::Model, &user.tags)),
                None => Err(format!("user '{}' isn't there", name.escape_debug())),
            },
            Self::Dummy => Ok(proof(ProvenGrants::All, &[])),
            // As in RabbitMQ, its tags don't count then.
            Self::Http(service) => service.log_in(name, attempt).await.map(|found| Proof { tags: Vec::new(), ..found }),
            Self::OAuth2(_) => {
                let found = self.log_in(attempt).await?;
                Ok(Proof { name: name.clone(), tags: Vec::new(), ..found })
            }
        }
    }

    /// Answers a question about a user.
    pub(crate) async fn ask(
        &self,
        topology: &Topology,
        grants: &ProvenGrants,
        who: &Asker<'_>,
        question: &GrantQuestion,
    ) -> GrantAnswer {
        let granted = match (grants, self) {
            (ProvenGrants::All, _) => true,
            (ProvenGrants::Model, _) => is_granted(topology, &Identity::of_model(who.name), question),
            (ProvenGrants::Scopes(scopes), _) => is_granted(topology, &scoped(who.name, scopes), question),
            (ProvenGrants::Asked, Self::Http(service)) => return service.ask(who, question).await,
            (ProvenGrants::Asked, _) => false,
        };
        if granted { GrantAnswer::Granted } else { GrantAnswer::Refused }
    }

    /// Checks a new secret of a user. Where secrets don't end, any is taken.
    ///
    /// # Errors
    /// As [`RenewalOutcome`].
    pub(crate) async fn renew(&self, name: &str, secret: &[u8]) -> Result<Option<Proof>, NotRenewed> {
        match self {
            Self::OAuth2(oauth2) => oauth2.renew(name, secret).await.map(Some),
            Self::Internal | Self::InternalLoopback | Self::Dummy | Self::Http(_) => Ok(None),
        }
    }
}

/// The outcome of a renewal that changes nothing.
pub(crate) fn unchanged(who: &Identity) -> RenewalOutcome {
    Ok(who.clone())
}

fn internal(attempt: &Attempt) -> Result<Proof, String> {
    let checked = match &attempt.secret {
        None => leveret_auth::recognise(&attempt.topology, &attempt.mechanism, &attempt.name, true, &[]),
        Some(secret) => {
            let login = attempt.name.as_bytes();
            let response = match Mechanism::parse(&attempt.mechanism) {
                Some(Mechanism::AmqPlain) => Response::AmqPlain { login, password: secret },
                _ => Response::Basic { user: &attempt.name, password: secret },
            };
            // Whence it may come is checked for the chain as a whole.
            leveret_auth::authenticate(&attempt.topology, response, true, &[])
        }
    };
    let who = checked.map_err(|refused| refused.detail)?;
    let tags = who.tags(&attempt.topology).to_vec();
    Ok(Proof { name: who.name().clone(), tags, grants: ProvenGrants::Model, ends_ms: None })
}

fn scoped(name: &str, scopes: &Scopes) -> Identity {
    Identity::new(name, Vec::new(), Grants::Scopes(scopes.clone()), BackendKind::OAuth2.name())
}

/// Whether an identity that isn't asked for has what a question is about.
pub(crate) fn is_granted(topology: &Topology, who: &Identity, question: &GrantQuestion) -> bool {
    let (vhost, client_id, action) = match question {
        GrantQuestion::Enter { vhost } => (vhost, None, Action::Enter),
        GrantQuestion::Resource { vhost, is_queue, name, right } => {
            let resource = if *is_queue { Resource::Queue(name) } else { Resource::Exchange(name) };
            let action = match right {
                Right::Configure => Action::Configure(resource),
                Right::Write => Action::Write(resource),
                Right::Read => Action::Read(resource),
            };
            (vhost, None, action)
        }
        GrantQuestion::Topic { vhost, exchange, routing_key, right, client_id } => {
            let routing_key = routing_key.as_bytes();
            let action = match right {
                Right::Write => Action::PublishWith { exchange, routing_key },
                Right::Read | Right::Configure => Action::ReadWith { exchange, routing_key },
            };
            (vhost, client_id.as_deref(), action)
        }
    };
    authorize_client(topology, who, vhost, client_id, action).is_ok()
}
