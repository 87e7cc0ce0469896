//! The keys of a provider: those of the configuration, and those that are fetched.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_config::ProviderSettings;
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::key::{Algorithm, Key};
use super::token::{TokenHeader, shown};
use crate::client::{Address, ConnectTls, Form, HttpClient, RequestLimits, put_field};
use crate::runtime::leave_core;

/// Shortest time between two fetches.
const FETCH_EVERY: Duration = Duration::from_secs(10);

/// Keys older than this are fetched again with the next login, which doesn't wait for them.
const FRESH_FOR: Duration = Duration::from_secs(600);

const LIMITS: RequestLimits =
    RequestLimits { connect: Duration::from_secs(2), whole: Duration::from_secs(5), bytes_max: 1 << 20, idle_max: 0 };

/// Most keys of a provider.
const KEYS_MAX: usize = 1_000;

/// Most ids of keys in a text.
const SHOWN_MAX: usize = 8;

/// Path of the discovery document (OpenID Connect Discovery 1.0, 4).
const DISCOVERY_PATH: &str = ".well-known/openid-configuration";

/// A provider.
pub(super) struct Provider {
    /// Its prefix in the configuration, for texts.
    prefix: String,
    issuer: Option<String>,
    default_key: Option<String>,
    algorithms: Vec<Algorithm>,
    own: HashMap<String, Arc<Key>>,
    fetched: Option<Arc<Fetched>>,
    handle: Handle,
}

/// Keys that are fetched.
struct Fetched {
    prefix: String,
    source: Source,
    client: HttpClient,
    keys: RwLock<KeySet>,
    /// Held while they are fetched: all logins share the one request.
    gate: tokio::sync::Mutex<()>,
    last_try: Mutex<Option<(Instant, Result<(), String>)>>,
}

#[derive(Default)]
struct KeySet {
    keys: HashMap<String, Arc<Key>>,
    at: Option<Instant>,
}

enum Source {
    Keys(String),
    Discovery(String),
}

impl Provider {
    /// The provider of these settings.
    ///
    /// # Errors
    /// A key, a file or an address is of no use.
    pub(super) fn new(
        prefix: &str,
        settings: &ProviderSettings,
        tls: ConnectTls<'_>,
        handle: &Handle,
    ) -> Result<Self, String> {
        let mut own = HashMap::new();
        for (kid, file) in &settings.signing_keys {
            let wrong = |reason: String| format!("{prefix}.signing_keys.{kid}: cannot use {file}: {reason}");
            let contents = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
            own.insert(kid.clone(), Arc::new(Key::of_file(&contents).map_err(wrong)?));
        }
        for (kid, jwk) in &settings.jwks {
            let wrong = |reason: String| format!("{prefix}.signing_keys.{kid}: {reason}");
            own.insert(kid.clone(), Arc::new(Key::of_file(jwk.as_bytes()).map_err(wrong)?));
        }
        let algorithm = |name: &String| {
            Algorithm::parse(name).ok_or_else(|| format!("{prefix}.algorithms: '{name}' is no algorithm of signatures"))
        };
        let source = match (&settings.jwks_uri, &settings.issuer) {
            (Some(keys), _) => Some(Source::Keys(keys.clone())),
            // With keys of its own, the issuer is only compared.
            (None, Some(issuer)) if own.is_empty() => Some(Source::Discovery(discovery(settings, issuer))),
            (None, _) => None,
        };
        let fetched = source.map(|source| {
            let (Source::Keys(url) | Source::Discovery(url)) = &source;
            Address::parse(url).map_err(|reason| format!("{prefix}: {reason}"))?;
            let client = HttpClient::new(LIMITS, &settings.tls, Some(tls));
            Ok::<_, String>(Arc::new(Fetched {
                prefix: prefix.to_owned(),
                source,
                client: client.map_err(|reason| format!("{prefix}.https: {reason}"))?,
                keys: RwLock::default(),
                gate: tokio::sync::Mutex::new(()),
                last_try: Mutex::new(None),
            }))
        });
        Ok(Self {
            prefix: prefix.to_owned(),
            issuer: settings.issuer.clone(),
            default_key: settings.default_key.clone(),
            algorithms: settings.algorithms.values().map(algorithm).collect::<Result<_, _>>()?,
            own,
            fetched: fetched.transpose()?,
            handle: handle.clone(),
        })
    }

    /// Whether it can have keys.
    pub(super) fn has_source(&self) -> bool {
        !self.own.is_empty() || self.fetched.is_some()
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// Checks that the algorithm is one of the configured ones.
    ///
    /// # Errors
    /// It isn't.
    pub(super) fn check_algorithm(&self, header: &TokenHeader) -> Result<(), String> {
        match self.algorithms.is_empty() || self.algorithms.contains(&header.algorithm) {
            true => Ok(()),
            false => Err(format!(
                "a token with the algorithm {}, which isn't in {}.algorithms",
                header.algorithm.name(),
                self.prefix
            )),
        }
    }

    /// The key of this id. Only an unknown one waits for a network.
    ///
    /// # Errors
    /// There is none, or it can't be fetched.
    pub(super) async fn key(&self, kid: Option<&str>) -> Result<Arc<Key>, String> {
        let Some(kid) = kid.or(self.default_key.as_deref()) else {
            return Err(format!("the token names no key, and {}.default_key isn't set", self.prefix));
        };
        if let Some(key) = self.own.get(kid) {
            return Ok(key.clone());
        }
        let Some(fetched) = &self.fetched else {
            return Err(unknown(kid, self.own.keys()));
        };
        if let Some(key) = fetched.known(kid) {
            if fetched.is_old() {
                let fetched = fetched.clone();
                self.handle.spawn(async move { fetched.refresh().await });
            }
            return Ok(key);
        }
        leave_core().await;
        let tried = fetched.refresh_for(kid).await;
        match fetched.known(kid) {
            Some(key) => Ok(key),
            None => Err(match tried {
                Err(reason) => format!("the key '{}' isn't known: {reason}", shown(kid)),
                Ok(()) => unknown(kid, self.own.keys().chain(fetched.keys.read().keys.keys())),
            }),
        }
    }
}

fn unknown<'a>(kid: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<String> = known.take(SHOWN_MAX).map(|known| format!("'{}'", shown(known))).collect();
    match known.is_empty() {
        true => format!("the key '{}' isn't known, and no other is", shown(kid)),
        false => format!("the key '{}' isn't known, only {}", shown(kid), known.join(", ")),
    }
}

fn discovery(settings: &ProviderSettings, issuer: &str) -> String {
    let path = settings.discovery_path.as_deref().unwrap_or(DISCOVERY_PATH);
    let mut url = format!("{}/{}", issuer.trim_end_matches('/'), path.trim_start_matches('/'));
    let mut query = String::new();
    for (name, value) in &settings.discovery_params {
        put_field(&mut query, name, value.as_bytes());
    }
    if !query.is_empty() {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&query);
    }
    url
}

impl Fetched {
    fn known(&self, kid: &str) -> Option<Arc<Key>> {
        self.keys.read().keys.get(kid).cloned()
    }

    fn is_old(&self) -> bool {
        let is_fresh = |at: Option<Instant>, time: Duration| at.is_some_and(|at| at.elapsed() < time);
        let tried = self.last_try.lock().as_ref().map(|(at, _)| *at);
        !is_fresh(self.keys.read().at, FRESH_FOR) && !is_fresh(tried, FETCH_EVERY)
    }

    /// Fetches the keys, unless somebody has just done so.
    async fn refresh(&self) {
        let _gate = self.gate.lock().await;
        if self.is_old() {
            let _told = self.fetch().await;
        }
    }

    /// Fetches the keys for one that isn't known, at most once in [`FETCH_EVERY`]. Returns the outcome of the last fetch.
    async fn refresh_for(&self, kid: &str) -> Result<(), String> {
        let _gate = self.gate.lock().await;
        if self.known(kid).is_some() {
            return Ok(());
        }
        if let Some((at, outcome)) = &*self.last_try.lock()
            && at.elapsed() < FETCH_EVERY
        {
            return outcome.clone();
        }
        self.fetch().await
    }

    async fn fetch(&self) -> Result<(), String> {
        let fetched = self.fetch_keys().await;
        let outcome = match fetched {
            Ok(keys) => {
                let count = keys.len();
                *self.keys.write() = KeySet { keys, at: Some(Instant::now()) };
                tracing::info!("{}: fetched {count} keys of tokens", self.prefix);
                Ok(())
            }
            Err(reason) => {
                let kept = self.keys.read().keys.len();
                tracing::warn!("{}: cannot fetch the keys of tokens, {kept} known ones stay: {reason}", self.prefix);
                Err(reason)
            }
        };
        *self.last_try.lock() = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn fetch_keys(&self) -> Result<HashMap<String, Arc<Key>>, String> {
        let url = match &self.source {
            Source::Keys(url) => url.clone(),
            Source::Discovery(url) => {
                let document = self.get(url).await?;
                let found = document.get("jwks_uri").and_then(Value::as_str);
                found.ok_or_else(|| format!("{url}: there is no jwks_uri in it"))?.to_owned()
            }
        };
        let document = self.get(&url).await?;
        let listed = document.get("keys").and_then(Value::as_array).ok_or_else(|| format!("{url}: it has no keys"))?;
        if listed.len() > KEYS_MAX {
            return Err(format!("{url}: it has {} keys, the most are {KEYS_MAX}", listed.len()));
        }
        let mut keys = HashMap::new();
        for jwk in listed.iter().filter_map(Value::as_object) {
            let kid = jwk.get("kid").and_then(Value::as_str).unwrap_or_default();
            // Providers also list keys for encryption, and of kinds of their own.
            match Key::of_jwk(jwk, false) {
                Ok(key) => _ = keys.insert(kid.to_owned(), Arc::new(key)),
                Err(reason) => {
                    tracing::debug!("{}: the key '{}' isn't used: {reason}", self.prefix, shown(kid))
                }
            }
        }
        Ok(keys)
    }

    async fn get(&self, url: &str) -> Result<Map<String, Value>, String> {
        let address = Address::parse(url)?;
        if !address.is_tls() {
            return Err(format!("{url}: only https is used"));
        }
        let (status, body) = self.client.request(&address, Form::Get).await?;
        if status != 200 {
            return Err(format!("{url}: status {status}"));
        }
        serde_json::from_slice(&body).map_err(|_| format!("{url}: no JSON object"))
    }
}
