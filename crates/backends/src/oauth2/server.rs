//! Resource servers: what tokens are for.

use std::collections::HashMap;

use leveret_config::{OAuth2Settings, ResourceServerSettings};
use serde_json::Value;

use super::token::{Claims, shown};

/// A resource server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) id: String,
    pub(super) kind: Option<String>,
    pub(super) scope_prefix: String,
    pub(super) additional_scopes: Vec<String>,
    pub(super) aliases: HashMap<String, Vec<String>>,
    verifies_aud: bool,
    pub(super) requires_exp: bool,
    pub(super) username_claims: Vec<String>,
    /// The name of its provider; `None` for the one that has none.
    pub(super) provider: Option<String>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Servers(Vec<Server>);

impl Servers {
    /// The servers of these settings.
    ///
    /// # Errors
    /// There is none, or two have one id.
    pub(super) fn new(settings: &OAuth2Settings) -> Result<Self, String> {
        let root = &settings.server;
        let mut all = Vec::new();
        if let Some(id) = root.id.clone().filter(|id| !id.is_empty()) {
            all.push(Server::new(id, root, root, settings));
        }
        for (name, own) in &settings.servers {
            let id = own.id.clone().unwrap_or_else(|| name.clone());
            if all.iter().any(|other: &Server| other.id == id) {
                return Err(format!("auth_oauth2: two resource servers have the id '{id}'"));
            }
            all.push(Server::new(id, own, root, settings));
        }
        match all.is_empty() {
            true => Err("auth_oauth2.resource_server_id isn't set, and there are no resource_servers".to_owned()),
            false => Ok(Self(all)),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Server> {
        self.0.iter()
    }

    /// The server that a token is for, by its audience.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub(super) fn of(&self, claims: &Claims) -> Result<&Server, String> {
        let audience: Vec<&str> = match claims.get("aud") {
            Some(Value::String(text)) => text.split(' ').filter(|word| !word.is_empty()).collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let named: Vec<&Server> = self.0.iter().filter(|server| audience.contains(&&*server.id)).collect();
        match named[..] {
            [one] => return Ok(one),
            [] => {}
            _ => return Err("the token's audience names several resource servers".to_owned()),
        }
        let lenient: Vec<&Server> = self.0.iter().filter(|server| !server.verifies_aud).collect();
        match lenient[..] {
            [one] => Ok(one),
            [] => {
                let own: Vec<String> = self.0.iter().map(|server| format!("'{}'", server.id)).collect();
                let audience = shown(&audience.join(" "));
                Err(format!("the token's audience '{audience}' doesn't name {}", own.join(" or ")))
            }
            _ => Err("several resource servers don't verify the audience, so none can be chosen".to_owned()),
        }
    }
}

impl Server {
    /// A server with its own settings, and those of `root` where it has none.
    fn new(id: String, own: &ResourceServerSettings, root: &ResourceServerSettings, all: &OAuth2Settings) -> Self {
        let prefix = own.scope_prefix.clone().or_else(|| root.scope_prefix.clone());
        let additional = own.additional_scopes_key.as_ref().or(root.additional_scopes_key.as_ref());
        let has_aliases = !own.aliases.is_empty() || !own.numbered_aliases.is_empty();
        let claims = if own.username_claims.is_empty() { &root.username_claims } else { &own.username_claims };
        let fallback = ["sub", "client_id"].map(str::to_owned);
        Self {
            scope_prefix: prefix.unwrap_or_else(|| format!("{id}.")),
            id,
            kind: own.kind.clone().or_else(|| root.kind.clone()),
            additional_scopes: additional.map(|paths| words(paths)).unwrap_or_default(),
            aliases: aliases(if has_aliases { own } else { root }),
            verifies_aud: own.verify_aud.or(root.verify_aud).unwrap_or(true),
            requires_exp: own.require_exp.or(root.require_exp).unwrap_or(true),
            username_claims: claims.values().cloned().chain(fallback).collect(),
            provider: own.provider.clone().or_else(|| all.default_provider.clone()),
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn aliases(settings: &ResourceServerSettings) -> HashMap<String, Vec<String>> {
    let named = settings.aliases.iter().map(|(alias, scopes)| (alias.clone(), words(scopes)));
    let numbered = settings
        .numbered_aliases
        .values()
        .filter_map(|(alias, scopes)| Some((alias.clone()?, words(scopes.as_deref()?))));
    named.chain(numbered).collect()
}
