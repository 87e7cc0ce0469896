//! Scopes of a token: where they are, and what they grant.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_model::{Glob, Right, ScopeRule, Scopes};
use serde_json::{Map, Value};

use super::server::Server;
use super::token::Claims;

/// Most scopes of a token.
const SCOPES_MAX: usize = 2_048;

/// The scopes of a requesting party token (User-Managed Access).
const REQUESTING_PARTY: &str = "authorization.permissions.scopes";

/// Tags that authorization_details may give.
const TAGS: [&str; 4] = ["monitoring", "administrator", "management", "policymaker"];

/// The name of the user: the first of the configured claims that the token has.
pub(super) fn username(server: &Server, claims: &Claims) -> String {
    let found = server.username_claims.iter().find_map(|claim| claims.get(claim)?.as_str());
    found.filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned()
}

/// The scopes of a token for a server, without their prefix.
///
/// # Errors
/// There are too many.
pub(super) fn scopes_of(server: &Server, claims: &Claims) -> Result<BTreeSet<String>, String> {
    let mut all = Vec::new();
    if let Some(scope) = claims.get("scope") {
        texts(scope, &mut all);
    }
    for path in std::iter::once(REQUESTING_PARTY).chain(server.additional_scopes.iter().map(String::as_str)) {
        let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
        follow(server, claims, &parts, &mut all);
    }
    let aliased: Vec<String> = all.iter().filter_map(|scope| server.aliases.get(scope)).flatten().cloned().collect();
    all.extend(aliased);
    if let Some(Value::Array(details)) = claims.get("authorization_details") {
        details.iter().filter_map(Value::as_object).for_each(|detail| of_detail(server, detail, &mut all));
    }
    let of_server = all.iter().filter_map(|scope| scope.strip_prefix(&*server.scope_prefix));
    let scopes: BTreeSet<String> = of_server.map(str::to_owned).collect();
    match scopes.len() > SCOPES_MAX {
        true => Err(format!("the token has {} scopes, the most are {SCOPES_MAX}", scopes.len())),
        false => Ok(scopes),
    }
}

/// Texts of a list, or of a text with blanks.
fn texts(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.extend(text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned)),
        Value::Array(list) => all.extend(list.iter().filter_map(Value::as_str).map(str::to_owned)),
        _ => {}
    }
}

/// Scopes at a path, through objects and lists of objects.
fn follow(server: &Server, object: &Map<String, Value>, path: &[&str], all: &mut Vec<String>) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(value) = object.get(*first) else { return };
    if rest.is_empty() {
        return match value {
            // An object has the scopes of each server by its id, without the prefix.
            Value::Object(by_server) => {
                let mut own = Vec::new();
                by_server.get(&server.id).iter().for_each(|value| texts(value, &mut own));
                all.extend(own.into_iter().map(|scope| format!("{}{scope}", server.scope_prefix)));
            }
            value => texts(value, all),
        };
    }
    match value {
        Value::Object(object) => follow(server, object, rest, all),
        Value::Array(list) => {
            list.iter().filter_map(Value::as_object).for_each(|object| follow(server, object, rest, all));
        }
        _ => {}
    }
}

/// Scopes of one of the authorization_details (RFC 9396), if it is of the server's type.
fn of_detail(server: &Server, detail: &Map<String, Value>, all: &mut Vec<String>) {
    let is_own = server
        .kind
        .as_deref()
        .is_some_and(|kind| !kind.is_empty() && detail.get("type").and_then(Value::as_str) == Some(kind));
    let (Some(actions), Some(locations)) = (detail.get("actions"), detail.get("locations")) else { return };
    let list = |value: &Value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let places: Vec<String> = list(locations).iter().filter_map(|location| place(server, location)).collect();
    if !is_own || places.is_empty() {
        return;
    }
    let prefix = &server.scope_prefix;
    for action in list(actions) {
        if TAGS.contains(&&*action) {
            all.push(format!("{prefix}tag:{action}"));
        } else if right(&action).is_some() {
            all.extend(places.iter().map(|place| format!("{prefix}{action}:{place}")));
        }
    }
}

/// `VHOST/NAME/KEY` of a location such as `cluster:A/vhost:B/queue:C/routing-key:D`, if its cluster is ours.
fn place(server: &Server, location: &str) -> Option<String> {
    let (mut cluster, mut vhost, mut queue, mut exchange, mut key) = (None, None, None, None, None);
    for part in location.split('/') {
        let Some((name, value)) = part.split_once(':') else { continue };
        match name {
            "cluster" => cluster = Some(value),
            "vhost" => vhost = Some(value),
            "queue" => queue = Some(value),
            "exchange" => exchange = Some(value),
            "routing-key" => key = Some(value),
            _ => {}
        }
    }
    let is_ours = Glob::parse(cluster?).is_ok_and(|pattern| pattern.matches(&server.id));
    let is_one = queue.is_none() || exchange.is_none() || queue == exchange;
    let name = queue.or(exchange).unwrap_or("*");
    (is_ours && is_one).then(|| format!("{}/{name}/{}", vhost.unwrap_or("*"), key.unwrap_or("*")))
}

fn right(name: &str) -> Option<Right> {
    [Right::Configure, Right::Write, Right::Read].into_iter().find(|right| right.name() == name)
}

/// The permissions and the tags of scopes. One that isn't understood grants nothing.
pub(super) fn compile(scopes: &BTreeSet<String>, claims: &Claims) -> (Scopes, Vec<Arc<str>>) {
    let (mut rules, mut tags) = (Vec::new(), Vec::new());
    for scope in scopes {
        let Some((kind, rest)) = scope.split_once(':') else { continue };
        match right(kind) {
            Some(right) => rules.extend(rule(right, rest, claims)),
            None if kind == "tag" => tags.push(rest.into()),
            None => {}
        }
    }
    (Scopes::new(rules), tags)
}

fn rule(right: Right, pattern: &str, claims: &Claims) -> Option<ScopeRule> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let (vhost, name, key) = match parts[..] {
        [vhost, name] => (vhost, name, None),
        [vhost, name, key] => (vhost, name, Some(key)),
        _ => return None,
    };
    // Every vhost is its own name.
    let vhost = if vhost == "{vhost}" { "*" } else { vhost };
    let glob = |part: &str| Glob::parse_with_vhost(&filled(part, claims)).ok();
    Some(ScopeRule {
        right,
        vhost: glob(vhost)?,
        name: glob(name)?,
        routing_key: match key {
            Some(key) => Some(glob(key)?),
            None => None,
        },
    })
}

/// A pattern with the values of claims in place of `{CLAIM}`, encoded so that they stand for themselves. `{vhost}` stays.
fn filled(pattern: &str, claims: &Claims) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        match claims.get(name).and_then(Value::as_str) {
            _ if name == "vhost" => out.push_str("{vhost}"),
            Some(value) => encode(&mut out, value),
            // As in RabbitMQ.
            None => out.push_str(name),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn encode(out: &mut String, value: &str) {
    use std::fmt::Write;
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            _ = write!(out, "%{byte:02X}");
        }
    }
}
