//! The chain: entries are asked in their order, and the first that accepts a login decides from then on.

use std::sync::Arc;

use leveret_broker::Authenticate;
use leveret_broker::asked::NowOrLater;
use leveret_broker::authenticate::{
    LoginOrigin, LoginOutcome, NotRenewed, RenewalOutcome, later_grant, later_login, later_renewal,
};
use leveret_config::{BackendKind, Chain, ChainEntry, LoginBackends};
use leveret_model::{
    AskedGrants, Glob, GrantAnswer, GrantQuestion, Grants, INTERNAL_BACKEND, Identity, Right, ScopeRule, Scopes,
    Topology,
};

use crate::attempt::{Attempt, ClientOrigin, Proof, ProvenGrants};
use crate::cached::Cache;
use crate::client::ConnectTls;
use crate::direct::{Direct, unchanged};
use crate::http_service::{Asker, HttpService};
use crate::internal::{LoopbackUsers, response_of};
use crate::oauth2::OAuth2;
use crate::runtime::{ANSWER_WITHIN, LoginRuntime};

/// The reason why a node can't start with its backends.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the backends of logins: {0}")]
pub struct BackendsError(String);

/// The backends of a node.
pub struct Backends {
    runtime: LoginRuntime,
    loopback_users: LoopbackUsers,
    broker_chain: Arc<[Arc<Entry>]>,
    http_chain: Arc<[Arc<Entry>]>,
    cache: Option<Arc<Cache>>,
}

/// An entry of a chain.
struct Entry {
    login: Backend,
    grants: Vec<Backend>,
    /// Whether one backend does both.
    is_one: bool,
}

#[derive(Clone)]
enum Backend {
    Direct(Direct),
    Cached(Arc<Cache>),
}

/// The parts of a login that its backends need when grants are asked for.
struct AskedContext {
    entry: Arc<Entry>,
    grants: Vec<ProvenGrants>,
    tags: Vec<Arc<str>>,
    origin: ClientOrigin,
}

/// The backends, made of the settings once each.
struct Parts {
    http: Option<Arc<HttpService>>,
    oauth2: Option<Arc<OAuth2>>,
    cache: Option<Arc<Cache>>,
}

impl Backends {
    /// The backends of these settings. `tls` makes what a connection with TLS needs.
    ///
    /// # Errors
    /// An address, a file or a key is of no use, or the system provides no thread.
    pub fn start(
        settings: &LoginBackends,
        loopback_users: LoopbackUsers,
        tls: ConnectTls<'_>,
    ) -> Result<Arc<Self>, BackendsError> {
        Self::make(settings, loopback_users, tls).map_err(BackendsError)
    }

    /// Whether these settings are those of users of the node alone, which need no backends but [`Passwords`](crate::Passwords).
    #[must_use]
    pub fn are_internal(settings: &LoginBackends) -> bool {
        let is_internal = |entry: &ChainEntry| entry.is_one() && entry.login() == BackendKind::Internal;
        settings.chain.values().chain(settings.http_chain.values()).all(is_internal)
    }

    fn make(settings: &LoginBackends, loopback_users: LoopbackUsers, tls: ConnectTls<'_>) -> Result<Arc<Self>, String> {
        let runtime = LoginRuntime::start().map_err(|error| format!("the system provides no thread: {error}"))?;
        let uses = |kind| settings.use_kind(kind);
        let mut parts = Parts {
            http: uses(BackendKind::Http).then(|| HttpService::new(&settings.http, tls)).transpose()?.map(Arc::new),
            oauth2: uses(BackendKind::OAuth2)
                .then(|| OAuth2::new(&settings.oauth2, tls, runtime.handle()))
                .transpose()?
                .map(Arc::new),
            cache: None,
        };
        if uses(BackendKind::Cache) {
            let cached = &settings.cache.cached;
            let grants = *cached.grants().first().unwrap_or(&BackendKind::Internal);
            let cache = Cache::new(&settings.cache, parts.direct(cached.login())?, parts.direct(grants)?)?;
            parts.cache = Some(Arc::new(cache));
        }
        let broker_chain = parts.chain(&settings.chain)?;
        let http_chain = match settings.http_chain.is_empty() {
            true => broker_chain.clone(),
            false => parts.chain(&settings.http_chain)?,
        };
        Ok(Arc::new(Self { runtime, loopback_users, broker_chain, http_chain, cache: parts.cache }))
    }

    fn chain(&self, origin: &LoginOrigin<'_>) -> Arc<[Arc<Entry>]> {
        if origin.is_http { self.http_chain.clone() } else { self.broker_chain.clone() }
    }

    fn log_in(&self, attempt: Attempt, chain: Arc<[Arc<Entry>]>) -> NowOrLater<LoginOutcome> {
        let loopback_users = self.loopback_users.clone();
        let late = || Err(no_answer());
        self.runtime.answer(later_login, late, async move { run(&chain, &attempt, &loopback_users).await })
    }
}

fn no_answer() -> String {
    format!("no backend has answered within {} s", ANSWER_WITHIN.as_secs())
}

/// Asks the entries one after the other.
async fn run(chain: &[Arc<Entry>], attempt: &Attempt, loopback_users: &LoopbackUsers) -> LoginOutcome {
    let mut reasons = Vec::new();
    for entry in chain {
        match entry.log_in(attempt).await {
            Ok(who) if !attempt.origin.is_loopback && loopback_users.have(who.name()) => {
                let name = who.name();
                return Err(format!("user '{name}' can only connect via localhost (setting loopback_users)"));
            }
            Ok(who) => return Ok(who),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join("; "))
}

impl Entry {
    async fn log_in(self: &Arc<Self>, attempt: &Attempt) -> LoginOutcome {
        let by = |backend: &Backend, reason: String| format!("backend {}: {reason}", backend.name());
        let proof = self.login.log_in(attempt).await.map_err(|reason| by(&self.login, reason))?;
        let (mut tags, mut ends_ms, mut grants) = (proof.tags, proof.ends_ms, Vec::new());
        if self.is_one {
            grants.push(proof.grants);
        } else {
            for backend in &self.grants {
                let admitted = backend.admit(&proof.name, attempt).await.map_err(|reason| by(backend, reason))?;
                tags.extend(admitted.tags);
                ends_ms = ends_ms.into_iter().chain(admitted.ends_ms).min();
                grants.push(admitted.grants);
            }
        }
        Ok(self.identity(proof.name, tags, ends_ms, grants, attempt.origin.clone()))
    }

    fn identity(
        self: &Arc<Self>,
        name: Arc<str>,
        tags: Vec<Arc<str>>,
        ends_ms: Option<u64>,
        grants: Vec<ProvenGrants>,
        origin: ClientOrigin,
    ) -> Identity {
        let who = match &grants[..] {
            [ProvenGrants::Model] => {
                let backend = if self.is_one { INTERNAL_BACKEND } else { self.login.name() };
                Identity::new(name, Vec::new(), Grants::Model, backend)
            }
            [ProvenGrants::Scopes(scopes)] => {
                Identity::new(name, tags, Grants::Scopes(scopes.clone()), self.login.name())
            }
            [ProvenGrants::All] => Identity::new(name, tags, Grants::Scopes(everything()), self.login.name()),
            _ => {
                let context = AskedContext { entry: self.clone(), grants, tags: tags.clone(), origin };
                let asked = AskedGrants::with_context(Arc::new(context));
                Identity::new(name, tags, Grants::Asked(asked), self.login.name())
            }
        };
        match ends_ms {
            Some(ends_ms) => who.ending_at(ends_ms),
            None => who,
        }
    }
}

/// All backends have to grant.
async fn ask(topology: Topology, who: Identity, question: GrantQuestion) -> GrantAnswer {
    let Some(context) = who.asked().and_then(AskedGrants::context::<AskedContext>) else {
        return GrantAnswer::Failed;
    };
    let asker = Asker { name: who.name(), tags: &context.tags, origin: &context.origin };
    for (backend, grants) in context.entry.grants.iter().zip(&context.grants) {
        let answer = match backend {
            Backend::Direct(direct) => direct.ask(&topology, grants, &asker, &question).await,
            Backend::Cached(cache) => cache.ask(&topology, grants, &asker, &question).await,
        };
        if answer != GrantAnswer::Granted {
            return answer;
        }
    }
    GrantAnswer::Granted
}

/// Checks the new secret by each backend of the entry whose secrets end.
async fn renew(chains: [Arc<[Arc<Entry>]>; 2], who: Identity, secret: Vec<u8>) -> RenewalOutcome {
    let context = who.asked().and_then(AskedGrants::context::<AskedContext>);
    let of_backend = |entry: &&Arc<Entry>| entry.login.name() == who.backend();
    let found =
        context.map(|context| &context.entry).or_else(|| chains.iter().flat_map(|it| it.iter()).find(of_backend));
    let Some(entry) = found.cloned() else { return unchanged(&who) };
    let mut fresh = None;
    for backend in std::iter::once(&entry.login).chain(&entry.grants) {
        fresh = backend.renew(who.name(), &secret).await?.or(fresh);
    }
    let Some(Proof { tags, grants, ends_ms, .. }) = fresh else { return unchanged(&who) };
    let (all, origin) = match context {
        Some(context) => {
            let swap = |known: &ProvenGrants| match known {
                ProvenGrants::Scopes(_) => grants.clone(),
                other => other.clone(),
            };
            (context.grants.iter().map(swap).collect(), context.origin.clone())
        }
        None if matches!(who.grants(), Grants::Scopes(_)) => (vec![grants], ClientOrigin::default()),
        None => (vec![ProvenGrants::Model], ClientOrigin::default()),
    };
    Ok(entry.identity(who.name().clone(), tags, ends_ms, all, origin))
}

/// The grants of somebody who may do everything.
fn everything() -> Scopes {
    let any = || Glob::parse("*").unwrap_or_else(|_| Glob::literal(""));
    let rule = |right| ScopeRule { right, vhost: any(), name: any(), routing_key: Some(any()) };
    Scopes::new([Right::Configure, Right::Write, Right::Read].map(rule).to_vec())
}

impl Authenticate for Backends {
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        origin: LoginOrigin<'_>,
    ) -> NowOrLater<LoginOutcome> {
        let response = match response_of(mechanism, response) {
            Ok(response) => response,
            Err(unknown) => return NowOrLater::Now(Err(unknown)),
        };
        let Some((name, secret)) = response.and_then(|response| response.parse()) else {
            return NowOrLater::Now(Err(format!("{mechanism} login refused: malformed response")));
        };
        // It would prove nothing to a directory, and to no other backend either.
        if secret.is_empty() {
            let name = name.escape_debug();
            return NowOrLater::Now(Err(format!("{mechanism} login refused: user '{name}' - empty password")));
        }
        let attempt = Attempt {
            topology: topology.clone(),
            mechanism: mechanism.to_owned(),
            name: name.to_owned(),
            secret: Some(secret.to_vec()),
            origin: origin.into(),
        };
        self.log_in(attempt, self.chain(&origin))
    }

    fn recognise(&self, topology: &Topology, name: &str, origin: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        let attempt = Attempt {
            topology: topology.clone(),
            mechanism: "EXTERNAL".to_owned(),
            name: name.to_owned(),
            secret: None,
            origin: origin.into(),
        };
        self.log_in(attempt, self.chain(&origin))
    }

    fn ask(&self, topology: &Topology, who: &Identity, question: &GrantQuestion) -> NowOrLater<GrantAnswer> {
        let work = ask(topology.clone(), who.clone(), question.clone());
        self.runtime.answer(later_grant, || GrantAnswer::Failed, work)
    }

    fn renew(&self, _: &Topology, who: &Identity, secret: &[u8]) -> NowOrLater<RenewalOutcome> {
        let chains = [self.broker_chain.clone(), self.http_chain.clone()];
        let late = || Err(NotRenewed::Refused(no_answer()));
        self.runtime.answer(later_renewal, late, renew(chains, who.clone(), secret.to_vec()))
    }

    fn has_users(&self) -> bool {
        let mut entries = self.broker_chain.iter().chain(self.http_chain.iter());
        entries.any(|entry| entry.login.asks_model() || entry.grants.iter().any(Backend::asks_model))
    }

    fn clear_cache(&self) -> bool {
        self.cache.as_ref().inspect(|cache| cache.clear()).is_some()
    }
}

impl Backend {
    /// Whether it looks users of the model up.
    fn asks_model(&self) -> bool {
        match self {
            Backend::Direct(direct) => direct.asks_model(),
            Backend::Cached(cache) => cache.asks_model(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Direct(direct) => direct.name(),
            Self::Cached(cache) => cache.name(),
        }
    }

    async fn log_in(&self, attempt: &Attempt) -> Result<Proof, String> {
        match self {
            Self::Direct(direct) => direct.log_in(attempt).await,
            Self::Cached(cache) => cache.log_in(attempt).await,
        }
    }

    async fn admit(&self, name: &Arc<str>, attempt: &Attempt) -> Result<Proof, String> {
        match self {
            Self::Direct(direct) => direct.admit(name, attempt).await,
            Self::Cached(cache) => cache.admit(name, attempt).await,
        }
    }

    async fn renew(&self, name: &str, secret: &[u8]) -> Result<Option<Proof>, NotRenewed> {
        match self {
            Self::Direct(direct) => direct.renew(name, secret).await,
            Self::Cached(cache) => cache.renew(name, secret).await,
        }
    }
}

impl Parts {
    fn direct(&self, kind: BackendKind) -> Result<Direct, String> {
        let missing = || format!("the backend {} isn't set up", kind.name());
        Ok(match kind {
            BackendKind::Internal => Direct::Internal,
            BackendKind::InternalLoopback => Direct::InternalLoopback,
            BackendKind::Dummy => Direct::Dummy,
            BackendKind::Http => Direct::Http(self.http.clone().ok_or_else(missing)?),
            BackendKind::OAuth2 => Direct::OAuth2(self.oauth2.clone().ok_or_else(missing)?),
            BackendKind::Cache => return Err(missing()),
        })
    }

    fn backend(&self, kind: BackendKind) -> Result<Backend, String> {
        match &self.cache {
            Some(cache) if kind == BackendKind::Cache => Ok(Backend::Cached(cache.clone())),
            _ => self.direct(kind).map(Backend::Direct),
        }
    }

    fn chain(&self, entries: &Chain) -> Result<Arc<[Arc<Entry>]>, String> {
        let default = ChainEntry::default();
        let entries: Vec<&ChainEntry> = if entries.is_empty() { vec![&default] } else { entries.values().collect() };
        let made = entries.into_iter().map(|entry| {
            let grants = entry.grants().into_iter().map(|kind| self.backend(kind)).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(Entry { login: self.backend(entry.login())?, grants, is_one: entry.is_one() }))
        });
        made.collect::<Result<Vec<_>, String>>().map(Arc::from)
    }
}

impl std::fmt::Debug for Backends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backends").finish_non_exhaustive()
    }
}
