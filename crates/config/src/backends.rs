//! The backends of logins: `auth_backends.*`, `http_dispatch.auth_backends.*`, `auth_http.*`, `auth_cache.*` and `auth_oauth2.*`.

use std::collections::BTreeMap;

use crate::tls::Tls;

/// A backend of logins or permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// Users of the node.
    Internal,
    /// Users of the node, from this machine only.
    InternalLoopback,
    /// Tokens.
    OAuth2,
    /// A service over HTTP.
    Http,
    /// Answers of another one, kept for a while.
    Cache,
    /// It refuses every login, and grants everything to those whom another one lets in.
    Dummy,
}

impl BackendKind {
    const NAMES: [(&'static str, BackendKind); 6] = [
        ("internal", BackendKind::Internal),
        ("internal_loopback", BackendKind::InternalLoopback),
        ("oauth2", BackendKind::OAuth2),
        ("http", BackendKind::Http),
        ("cache", BackendKind::Cache),
        ("dummy", BackendKind::Dummy),
    ];

    /// The short name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The backend of a short name, or of the name of RabbitMQ's module.
    ///
    /// # Errors
    /// There is none, or it isn't built yet.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        let name = value.strip_prefix("rabbit_auth_backend_").unwrap_or(value);
        let name = if name == "uaa" { "oauth2" } else { name };
        if let Some((_, kind)) = Self::NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*kind);
        }
        let all: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
        let all = all.join(", ");
        match name {
            "ldap" => Err(format!("the backend '{value}' isn't built yet; there are {all}")),
            _ => Err(format!("there is no backend '{value}'; there are {all}")),
        }
    }
}

/// An entry of a chain: who checks a login, and who all have to agree to what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainEntry {
    /// Checks logins; `None` if only `.authz` is set.
    pub authn: Option<BackendKind>,
    /// All of these have to grant; empty if only `.authn` is set.
    pub authz: Vec<BackendKind>,
}

impl ChainEntry {
    /// The backend that checks logins. As in RabbitMQ, a part that isn't set is like the other one.
    pub fn login(&self) -> BackendKind {
        self.authn.or(self.authz.first().copied()).unwrap_or(BackendKind::Internal)
    }

    /// The backends that grant.
    pub fn grants(&self) -> Vec<BackendKind> {
        if self.authz.is_empty() { vec![self.login()] } else { self.authz.clone() }
    }

    /// Whether one backend does both.
    pub fn is_one(&self) -> bool {
        self.grants() == [self.login()]
    }
}

/// A chain by the numbers of its keys. The first entry that accepts a login decides.
pub type Chain = BTreeMap<u64, ChainEntry>;

/// The settings of backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoginBackends {
    /// `auth_backends.*`; empty for the internal one.
    pub chain: Chain,
    /// `http_dispatch.auth_backends.*`; empty for that of `auth_backends.*`.
    pub http_chain: Chain,
    /// `auth_http.*`.
    pub http: HttpServiceSettings,
    /// `auth_cache.*`.
    pub cache: CacheSettings,
    /// `auth_oauth2.*`.
    pub oauth2: OAuth2Settings,
}

impl LoginBackends {
    /// Whether this backend is used.
    pub fn use_kind(&self, kind: BackendKind) -> bool {
        let named = |entry: &ChainEntry| entry.login() == kind || entry.grants().contains(&kind);
        self.chain.values().chain(self.http_chain.values()).any(|entry| {
            let cached = named_cache(entry).then_some(&self.cache.cached);
            named(entry) || cached.is_some_and(named)
        })
    }
}

fn named_cache(entry: &ChainEntry) -> bool {
    entry.login() == BackendKind::Cache || entry.grants().contains(&BackendKind::Cache)
}

/// TLS towards a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTls {
    /// Files, versions and ciphers.
    pub tls: Tls,
    /// Whether the server's certificate is not verified.
    pub trusts_any: bool,
    /// Whether the name in the server's certificate may be any.
    pub takes_any_name: bool,
    /// The name to verify instead of the host's.
    pub server_name: Option<String>,
}

/// `auth_http.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpServiceSettings {
    /// `http_method`: whether it is `post`.
    pub posts: bool,
    /// `user_path`
    pub user_path: String,
    /// `vhost_path`
    pub vhost_path: String,
    /// `resource_path`
    pub resource_path: String,
    /// `topic_path`
    pub topic_path: String,
    /// `request_timeout`, in milliseconds.
    pub request_timeout_ms: u64,
    /// `connection_timeout`, in milliseconds.
    pub connection_timeout_ms: u64,
    /// `ssl_options.*`
    pub tls: ClientTls,
}

impl Default for HttpServiceSettings {
    fn default() -> Self {
        let path = |name: &str| format!("http://localhost:8000/auth/{name}");
        Self {
            posts: false,
            user_path: path("user"),
            vhost_path: path("vhost"),
            resource_path: path("resource"),
            topic_path: path("topic"),
            request_timeout_ms: 15_000,
            connection_timeout_ms: 15_000,
            tls: ClientTls::default(),
        }
    }
}

/// `auth_cache.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// `cached_backend`, `.authn`, `.authz`
    pub cached: ChainEntry,
    /// `cache_ttl`, in milliseconds.
    pub ttl_ms: u64,
    /// `cache_refusals`
    pub keeps_refusals: bool,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self { cached: ChainEntry::default(), ttl_ms: 15_000, keeps_refusals: false }
    }
}

/// `auth_oauth2.*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OAuth2Settings {
    /// The keys of the resource server right below `auth_oauth2`.
    pub server: ResourceServerSettings,
    /// `resource_servers.NAME.*`
    pub servers: BTreeMap<String, ResourceServerSettings>,
    /// The keys of the provider right below `auth_oauth2`.
    pub provider: ProviderSettings,
    /// `oauth_providers.NAME.*`
    pub providers: BTreeMap<String, ProviderSettings>,
    /// `default_oauth_provider`
    pub default_provider: Option<String>,
    /// `clock_skew`, in seconds, for `nbf` and `exp`; `None` for 30 and 0.
    pub clock_skew_s: Option<u64>,
}

/// The audience of tokens, and the meaning of their scopes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceServerSettings {
    /// `resource_server_id`, or `id`
    pub id: Option<String>,
    /// `resource_server_type`
    pub kind: Option<String>,
    /// `scope_prefix`
    pub scope_prefix: Option<String>,
    /// `additional_scopes_key`
    pub additional_scopes_key: Option<String>,
    /// `scope_aliases.NAME`, separated by blanks.
    pub aliases: BTreeMap<String, String>,
    /// `scope_aliases.N.alias` and `.scope`
    pub numbered_aliases: BTreeMap<String, (Option<String>, Option<String>)>,
    /// `verify_aud`
    pub verify_aud: Option<bool>,
    /// `require_exp`
    pub require_exp: Option<bool>,
    /// `preferred_username_claims.N`
    pub username_claims: BTreeMap<u64, String>,
    /// `oauth_provider_id`
    pub provider: Option<String>,
}

/// Where keys of tokens come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderSettings {
    /// `issuer`
    pub issuer: Option<String>,
    /// `jwks_uri`, or `jwks_url`
    pub jwks_uri: Option<String>,
    /// `discovery_endpoint_path`
    pub discovery_path: Option<String>,
    /// `discovery_endpoint_params.P`
    pub discovery_params: BTreeMap<String, String>,
    /// `default_key`
    pub default_key: Option<String>,
    /// `signing_keys.KID`: a file with a public key in PEM, or with a JWK.
    pub signing_keys: BTreeMap<String, String>,
    /// Keys by id in the form of JWK, from advanced.config.
    pub jwks: BTreeMap<String, String>,
    /// `algorithms.N`
    pub algorithms: BTreeMap<u64, String>,
    /// `https.*`
    pub tls: ClientTls,
}
