//! The backend `oauth2`: tokens, which are JSON Web Tokens (RFC 7519) that a provider signed (RFC 7515).
//!
//! A token whose key is known is judged without a network, at once. [`server`] says for which resource server it is, [`provider`] has the
//! keys, [`token`] reads and verifies it, [`scopes`] compiles what it grants.

mod key;
mod provider;
mod scopes;
mod server;
mod token;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leveret_broker::authenticate::NotRenewed;
use leveret_config::OAuth2Settings;
use tokio::runtime::Handle;

use self::provider::Provider;
use self::scopes::{compile, scopes_of, username};
use self::server::Servers;
use self::token::{Token, shown};
use crate::attempt::{Proof, ProvenGrants};
use crate::client::ConnectTls;

/// Largest token in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Tolerated difference of clocks for `nbf`, in seconds.
const NOT_BEFORE_SKEW_S: u64 = 30;

/// The backend.
pub(crate) struct OAuth2 {
    servers: Servers,
    providers: BTreeMap<Option<String>, Arc<Provider>>,
    not_before_skew_s: f64,
    expiry_skew_s: f64,
}

/// The reason why a token isn't taken.
#[derive(Debug)]
pub(crate) enum TokenError {
    /// It is none, or none for us.
    Unfit(String),
    /// It is one, and isn't valid.
    Refused(String),
}

impl TokenError {
    fn reason(self) -> String {
        match self {
            Self::Unfit(reason) | Self::Refused(reason) => reason,
        }
    }
}

impl OAuth2 {
    /// The backend of these settings. Keys are fetched on `handle`.
    ///
    /// # Errors
    /// Settings contradict each other, or a file or an address is of no use.
    pub(crate) fn new(settings: &OAuth2Settings, tls: ConnectTls<'_>, handle: &Handle) -> Result<Self, String> {
        let servers = Servers::new(settings)?;
        let mut providers = BTreeMap::new();
        let root = Provider::new("auth_oauth2", &settings.provider, tls, handle)?;
        providers.insert(None, Arc::new(root));
        for (name, of_name) in &settings.providers {
            let prefix = format!("auth_oauth2.oauth_providers.{name}");
            providers.insert(Some(name.clone()), Arc::new(Provider::new(&prefix, of_name, tls, handle)?));
        }
        for server in servers.all() {
            let provider = providers.get(&server.provider).ok_or_else(|| {
                let name = server.provider.as_deref().unwrap_or_default();
                format!("auth_oauth2: the resource server '{}' names the provider '{name}', which isn't set", server.id)
            })?;
            if !provider.has_source() {
                return Err(format!(
                    "auth_oauth2: the resource server '{}' has no keys: set issuer, jwks_uri or signing_keys",
                    server.id
                ));
            }
        }
        let skew = |default: u64| settings.clock_skew_s.unwrap_or(default) as f64;
        Ok(Self { servers, providers, not_before_skew_s: skew(NOT_BEFORE_SKEW_S), expiry_skew_s: skew(0) })
    }

    /// Checks a token.
    ///
    /// # Errors
    /// The reason of a refusal, for the log. It has nothing of the token that is secret.
    pub(crate) async fn check(&self, token: &[u8]) -> Result<Proof, String> {
        self.verified(token).await.map_err(TokenError::reason)
    }

    /// Checks a token with which the user of this name goes on.
    ///
    /// # Errors
    /// It isn't valid, or another user's.
    pub(crate) async fn renew(&self, name: &str, token: &[u8]) -> Result<Proof, NotRenewed> {
        let proof = self.verified(token).await.map_err(|error| match error {
            TokenError::Unfit(reason) => NotRenewed::Failed(reason),
            TokenError::Refused(reason) => NotRenewed::Refused(reason),
        })?;
        match *proof.name == *name {
            true => Ok(proof),
            false => Err(NotRenewed::Refused(format!("the token is of the user '{}'", shown(&proof.name)))),
        }
    }

    async fn verified(&self, token: &[u8]) -> Result<Proof, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            let size = token.len();
            return Err(TokenError::Unfit(format!("a token of {size} bytes, the largest has {TOKEN_BYTES_MAX}")));
        }
        let token = Token::parse(token).map_err(TokenError::Unfit)?;
        // Nothing of it is trusted before its signature is verified. Until then it only chooses between keys of the configuration.
        let server = self.servers.of(&token.claims).map_err(TokenError::Unfit)?;
        let provider = self.providers.get(&server.provider);
        let provider = provider.ok_or_else(|| TokenError::Unfit("its provider isn't set".to_owned()))?;
        provider.check_algorithm(&token.header).map_err(TokenError::Refused)?;
        let key = provider.key(token.header.kid.as_deref()).await.map_err(TokenError::Refused)?;
        token.verify(&key).map_err(TokenError::Refused)?;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let ends_s = token
            .check_times(now_s, self.not_before_skew_s, self.expiry_skew_s, server.requires_exp)
            .and_then(|ends_s| token.check_issuer(provider.issuer()).map(|()| ends_s))
            .map_err(TokenError::Refused)?;
        let scopes = scopes_of(server, &token.claims).map_err(TokenError::Refused)?;
        let (grants, tags) = compile(&scopes, &token.claims);
        Ok(Proof {
            name: username(server, &token.claims).into(),
            tags,
            grants: ProvenGrants::Scopes(grants),
            ends_ms: ends_s.map(|ends_s| ((ends_s + self.expiry_skew_s) * 1000.0) as u64),
        })
    }
}
