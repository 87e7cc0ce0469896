//! The keys of the backends of logins.

use super::Key;
use super::tls::{file, version};
use super::working::key;
use crate::backends::{BackendKind, Chain, ClientTls, OAuth2Settings, ProviderSettings, ResourceServerSettings};
use crate::config::Config;
use crate::units::{boolean, integer, milliseconds};

const KINDS: &str = "internal, internal_loopback, oauth2, http, cache, dummy";

/// A whole day: longer times would be those of a mistake.
const TTL_MS_MAX: u64 = 86_400_000;

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn number(word: &str) -> Result<u64, String> {
    integer(word, 0, u64::from(u32::MAX))
}

fn entry<'c>(chain: &'c mut Chain, word: &str) -> Result<&'c mut crate::backends::ChainEntry, String> {
    Ok(chain.entry(number(word)?).or_default())
}

/// Names of backends, separated by blanks or commas.
fn kinds(value: &str) -> Result<Vec<BackendKind>, String> {
    value.split([' ', ',']).filter(|name| !name.is_empty()).map(BackendKind::parse).collect()
}

fn url(value: &str) -> Result<String, String> {
    match value.starts_with("http://") || value.starts_with("https://") {
        true => Ok(value.to_owned()),
        false => Err(format!("expected a URL that begins with http:// or https://, got '{value}'")),
    }
}

fn https_url(value: &str) -> Result<Option<String>, String> {
    match value.starts_with("https://") {
        true => Ok(text(value)),
        false => Err(format!("expected a URL that begins with https://, got '{value}'")),
    }
}

fn trusts_any(value: &str) -> Result<bool, String> {
    match value {
        "verify_peer" => Ok(false),
        "verify_none" => Ok(true),
        other => Err(format!("'{other}' is neither verify_peer nor verify_none")),
    }
}

fn takes_any_name(value: &str) -> Result<bool, String> {
    match value {
        "wildcard" | "strict" => Ok(false),
        "none" => Ok(true),
        other => Err(format!("expected wildcard or none, got '{other}'")),
    }
}

macro_rules! chain {
    ($prefix:literal, $field:ident, $default:literal, $who:literal) => {
        [
            key(
                concat!($prefix, ".$n"),
                KINDS,
                $default,
                concat!("a backend of ", $who, "; the first that accepts a login decides"),
                |config, word, value| {
                    let kind = BackendKind::parse(value)?;
                    let entry = entry(&mut config.backends.$field, word)?;
                    entry.authn = Some(kind);
                    entry.authz = vec![kind];
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".$n.authn"),
                KINDS,
                "",
                "the backend that checks logins, if it isn't the one that grants",
                |config, word, value| {
                    entry(&mut config.backends.$field, word)?.authn = Some(BackendKind::parse(value)?);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".$n.authz"),
                KINDS,
                "",
                "the backend that grants, or several separated by blanks, which all have to agree",
                |config, word, value| {
                    entry(&mut config.backends.$field, word)?.authz = kinds(value)?;
                    Ok(())
                },
            ),
        ]
    };
}

/// The keys after `$prefix`, which set a [`ClientTls`].
macro_rules! tls {
    ($prefix:literal, $tls:expr) => {
        [
            key(
                concat!($prefix, ".cacertfile"),
                "file",
                "the system's",
                "the roots of the server's certificate in PEM",
                |config, word, value| {
                    $tls(config, word).tls.cacertfile = file(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".verify"),
                "verify_peer, verify_none",
                "verify_peer",
                "whether the server's certificate is verified",
                |config, word, value| {
                    $tls(config, word).trusts_any = trusts_any(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".hostname_verification"),
                "wildcard, none",
                "wildcard",
                "whether the name in the server's certificate is verified",
                |config, word, value| {
                    $tls(config, word).takes_any_name = takes_any_name(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".depth"),
                "integer",
                "10",
                "number of intermediate certificates that the server's chain may have",
                |config, word, value| {
                    $tls(config, word).tls.depth = integer(value, 0, 255)? as u8;
                    Ok(())
                },
            ),
        ]
    };
}

/// The keys after `$prefix` that set a [`ResourceServerSettings`]. `$rest` is the part of a word behind the server's name.
macro_rules! resource_server {
    ($prefix:literal, $server:expr, $rest:expr, $whose:literal) => {
        [
            key(
                concat!($prefix, ".resource_server_type"),
                "text",
                "",
                "type of the authorization_details of tokens that count",
                |config, word, value| {
                    $server(config, word).kind = text(value);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".scope_prefix"),
                "text",
                "the id and a dot",
                concat!("beginning of the scopes that count ", $whose, "; may be empty"),
                |config, word, value| {
                    $server(config, word).scope_prefix = text(value);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".additional_scopes_key"),
                "text",
                "",
                "claims with more scopes: paths with dots, separated by blanks",
                |config, word, value| {
                    $server(config, word).additional_scopes_key = text(value);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".verify_aud"),
                "boolean",
                "true, if unset",
                "whether a token's audience has to name the resource server",
                |config, word, value| {
                    $server(config, word).verify_aud = Some(boolean(value)?);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".require_exp"),
                "boolean",
                "true, if unset",
                "whether a token has to end",
                |config, word, value| {
                    $server(config, word).require_exp = Some(boolean(value)?);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".preferred_username_claims.$n"),
                "text",
                "",
                "a claim with the name of the user; then sub and client_id",
                |config, word, value| {
                    let at = number($rest(word))?;
                    $server(config, word).username_claims.insert(at, value.to_owned());
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".scope_aliases.$alias"),
                "texts",
                "",
                "scopes, separated by blanks, that a scope of this name stands for",
                |config, word, value| {
                    let alias = $rest(word).to_owned();
                    $server(config, word).aliases.insert(alias, value.to_owned());
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".scope_aliases.$n.alias"),
                "text",
                "",
                "a scope that stands for others, if its name can't be part of a key",
                |config, word, value| {
                    let at = $rest(word).to_owned();
                    $server(config, word).numbered_aliases.entry(at).or_default().0 = text(value);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".scope_aliases.$n.scope"),
                "texts",
                "",
                "the scopes that it stands for, separated by blanks",
                |config, word, value| {
                    let at = $rest(word).to_owned();
                    $server(config, word).numbered_aliases.entry(at).or_default().1 = text(value);
                    Ok(())
                },
            ),
        ]
    };
}

/// The keys after `$prefix` that set a [`ProviderSettings`].
macro_rules! provider {
    ($prefix:literal, $provider:expr, $rest:expr) => {
        [
            key(
                concat!($prefix, ".issuer"),
                "URL",
                "",
                "the issuer of tokens, which they have to name; its discovery document says where its keys are",
                |config, word, value| {
                    $provider(config, word).issuer = https_url(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".jwks_uri"),
                "URL",
                "",
                "where the keys of tokens are, if the issuer's document isn't asked",
                |config, word, value| {
                    $provider(config, word).jwks_uri = https_url(value)?;
                    Ok(())
                },
            ),
            key(concat!($prefix, ".jwks_url"), "URL", "", "the former name of jwks_uri", |config, word, value| {
                $provider(config, word).jwks_uri = https_url(value)?;
                Ok(())
            }),
            key(
                concat!($prefix, ".discovery_endpoint_path"),
                "text",
                ".well-known/openid-configuration",
                "path of the discovery document below the issuer",
                |config, word, value| {
                    $provider(config, word).discovery_path = text(value);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".discovery_endpoint_params.$p"),
                "text",
                "",
                "a parameter of the query for the discovery document",
                |config, word, value| {
                    let name = $rest(word).to_owned();
                    $provider(config, word).discovery_params.insert(name, value.to_owned());
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".default_key"),
                "text",
                "",
                "id of the key for tokens that name none",
                |config, word, value| {
                    $provider(config, word).default_key = text(value);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".signing_keys.$kid"),
                "file",
                "",
                "the key of this id: a file with a public key in PEM, or with a JWK",
                |config, word, value| {
                    let kid = $rest(word).to_owned();
                    let file = file(value)?.unwrap_or_default();
                    $provider(config, word).signing_keys.insert(kid, file);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".algorithms.$n"),
                "name",
                "all that fit the key",
                "an algorithm that signatures may have",
                |config, word, value| {
                    let at = number($rest(word))?;
                    $provider(config, word).algorithms.insert(at, value.to_owned());
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".https.peer_verification"),
                "verify_peer, verify_none",
                "verify_peer",
                "another name of https.verify",
                |config, word, value| {
                    $provider(config, word).tls.trusts_any = trusts_any(value)?;
                    Ok(())
                },
            ),
        ]
    };
}

fn service_tls<'c>(config: &'c mut Config, _: &str) -> &'c mut ClientTls {
    &mut config.backends.http.tls
}

fn oauth2(config: &mut Config) -> &mut OAuth2Settings {
    &mut config.backends.oauth2
}

/// The part before the first dot: the name of a server or provider.
fn first(word: &str) -> &str {
    word.split('.').next().unwrap_or_default()
}

/// The part behind the last dot.
fn last(word: &str) -> &str {
    word.rsplit('.').next().unwrap_or_default()
}

fn root_server<'c>(config: &'c mut Config, _: &str) -> &'c mut ResourceServerSettings {
    &mut oauth2(config).server
}

fn server<'c>(config: &'c mut Config, word: &str) -> &'c mut ResourceServerSettings {
    oauth2(config).servers.entry(first(word).to_owned()).or_default()
}

fn root_provider<'c>(config: &'c mut Config, _: &str) -> &'c mut ProviderSettings {
    &mut oauth2(config).provider
}

fn provider<'c>(config: &'c mut Config, word: &str) -> &'c mut ProviderSettings {
    oauth2(config).providers.entry(first(word).to_owned()).or_default()
}

fn root_provider_tls<'c>(config: &'c mut Config, word: &str) -> &'c mut ClientTls {
    &mut root_provider(config, word).tls
}

fn provider_tls<'c>(config: &'c mut Config, word: &str) -> &'c mut ClientTls {
    &mut provider(config, word).tls
}

/// All keys.
pub(super) const ALL: &[&[Key]] = &[
    &chain!("auth_backends", chain, "internal", "logins and permissions"),
    &chain!("http_dispatch.auth_backends", http_chain, "those of auth_backends", "logins over HTTP"),
    CACHE,
    HTTP,
    &tls!("auth_http.ssl_options", service_tls),
    OAUTH2,
    &resource_server!("auth_oauth2", root_server, last, "for us"),
    &provider!("auth_oauth2", root_provider, last),
    &tls!("auth_oauth2.https", root_provider_tls),
    &resource_server!("auth_oauth2.resource_servers.$name", server, last, "for this server"),
    &provider!("auth_oauth2.oauth_providers.$name", provider, last),
    &tls!("auth_oauth2.oauth_providers.$name.https", provider_tls),
];

const CACHE: &[Key] = &[
    key("auth_cache.cached_backend", KINDS, "internal", "the backend whose answers are kept", |config, _, value| {
        let kind = cached(value)?;
        let entry = &mut config.backends.cache.cached;
        (entry.authn, entry.authz) = (Some(kind), vec![kind]);
        Ok(())
    }),
    key(
        "auth_cache.cached_backend.authn",
        KINDS,
        "",
        "the backend that checks logins, if it isn't the one that grants",
        |config, _, value| {
            config.backends.cache.cached.authn = Some(cached(value)?);
            Ok(())
        },
    ),
    key("auth_cache.cached_backend.authz", KINDS, "", "the backend that grants", |config, _, value| {
        config.backends.cache.cached.authz = vec![cached(value)?];
        Ok(())
    }),
    key("auth_cache.cache_ttl", "milliseconds", "15000", "how long an answer is kept", |config, _, value| {
        let ttl_ms = milliseconds(value, 1)?;
        if !(1..=TTL_MS_MAX).contains(&ttl_ms) {
            return Err(format!("expected 1 to {TTL_MS_MAX} milliseconds, got '{value}'"));
        }
        config.backends.cache.ttl_ms = ttl_ms;
        Ok(())
    }),
    key("auth_cache.cache_refusals", "boolean", "false", "whether refusals are kept too", |config, _, value| {
        config.backends.cache.keeps_refusals = boolean(value)?;
        Ok(())
    }),
    key(
        "auth_cache.cache_module",
        "a name",
        "rabbit_auth_cache_ets",
        "RabbitMQ's kinds of caches: all stand for the one that is here",
        |_, _, value| match value.starts_with("rabbit_auth_cache_") {
            true => Ok(()),
            false => Err(format!("expected a module rabbit_auth_cache_..., got '{value}'")),
        },
    ),
];

fn cached(value: &str) -> Result<BackendKind, String> {
    match BackendKind::parse(value)? {
        BackendKind::Cache => Err("a cache can't be cached".to_owned()),
        kind => Ok(kind),
    }
}

macro_rules! path {
    ($name:literal, $field:ident, $default:literal, $what:literal) => {
        key(concat!("auth_http.", $name), "URL", $default, $what, |config, _, value| {
            config.backends.http.$field = url(value)?;
            Ok(())
        })
    };
}

const HTTP: &[Key] = &[
    key("auth_http.http_method", "get, post", "get", "the method of requests to the service", |config, _, value| {
        config.backends.http.posts = match value {
            "get" => false,
            "post" => true,
            _ => return Err(format!("expected get or post, got '{value}'")),
        };
        Ok(())
    }),
    path!("user_path", user_path, "http://localhost:8000/auth/user", "the service that checks logins"),
    path!("vhost_path", vhost_path, "http://localhost:8000/auth/vhost", "the service that admits to vhosts"),
    path!(
        "resource_path",
        resource_path,
        "http://localhost:8000/auth/resource",
        "the service that grants permissions on queues and exchanges"
    ),
    path!(
        "topic_path",
        topic_path,
        "http://localhost:8000/auth/topic",
        "the service that grants routing keys at topic exchanges"
    ),
    key(
        "auth_http.request_timeout",
        "milliseconds",
        "15000",
        "how long a request may take; a login as a whole has 10 s",
        |config, _, value| {
            config.backends.http.request_timeout_ms = milliseconds(value, 1)?.max(1);
            Ok(())
        },
    ),
    key(
        "auth_http.connection_timeout",
        "milliseconds",
        "15000",
        "how long a connection to the service may take",
        |config, _, value| {
            config.backends.http.connection_timeout_ms = milliseconds(value, 1)?.max(1);
            Ok(())
        },
    ),
    key(
        "auth_http.ssl_options.certfile",
        "file",
        "",
        "a certificate that the service is shown, in PEM",
        |config, _, value| {
            config.backends.http.tls.tls.certfile = file(value)?;
            Ok(())
        },
    ),
    key("auth_http.ssl_options.keyfile", "file", "", "its private key in PEM", |config, _, value| {
        config.backends.http.tls.tls.keyfile = file(value)?;
        Ok(())
    }),
    key("auth_http.ssl_options.password", "text", "", "passphrase of the private key", |config, _, value| {
        config.backends.http.tls.tls.password = text(value);
        Ok(())
    }),
    key(
        "auth_http.ssl_options.sni",
        "name",
        "the host",
        "the name of the service in its certificate",
        |config, _, value| {
            config.backends.http.tls.server_name = text(value).filter(|name| name != "none");
            Ok(())
        },
    ),
    key("auth_http.ssl_options.versions.$n", "tlsv1.3, tlsv1.2", "both", "a version of TLS", |config, word, value| {
        let version = version(value)?;
        config.backends.http.tls.tls.versions.insert(word.to_owned(), version);
        Ok(())
    }),
    key("auth_http.ssl_options.ciphers.$n", "name", "all", "a cipher suite that may be used", |config, word, value| {
        config.backends.http.tls.tls.ciphers.insert(word.to_owned(), value.to_owned());
        Ok(())
    }),
];

const OAUTH2: &[Key] = &[
    key(
        "auth_oauth2.resource_server_id",
        "text",
        "",
        "the name that we have for the provider, which tokens have to name as audience",
        |config, _, value| {
            oauth2(config).server.id = text(value);
            Ok(())
        },
    ),
    key(
        "auth_oauth2.default_oauth_provider",
        "name",
        "",
        "the one of oauth_providers whose keys count for servers that name none",
        |config, _, value| {
            oauth2(config).default_provider = text(value);
            Ok(())
        },
    ),
    key(
        "auth_oauth2.clock_skew",
        "seconds",
        "30 for nbf, 0 for exp",
        "by how much the clock of the provider may differ; of our own",
        |config, _, value| {
            oauth2(config).clock_skew_s = Some(integer(value, 0, 600)?);
            Ok(())
        },
    ),
    key(
        "auth_oauth2.resource_servers.$name.id",
        "text",
        "the name",
        "the audience of tokens for this server",
        |config, word, value| {
            server(config, word).id = text(value);
            Ok(())
        },
    ),
    key(
        "auth_oauth2.resource_servers.$name.oauth_provider_id",
        "name",
        "default_oauth_provider",
        "the one of oauth_providers whose keys count",
        |config, word, value| {
            server(config, word).provider = text(value);
            Ok(())
        },
    ),
];
