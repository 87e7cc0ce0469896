//! The plan of an import: commands for objects that don't exist yet, and unsupported objects.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use leveret_auth::{HASHING_MD5, HASHING_SHA256};
use leveret_model::{
    Bind, Command, DeclareExchange, DeclareQueue, DestinationName, ExchangeType, LimitOwner, Policy, PolicyKind,
    PutUser, QueueType, Topology, VhostDefaults,
};
use serde_json::{Map, Value};

use super::document::{Document, Scope};
use super::obsolete::Obsolete;
use crate::error::Error;
use crate::password_rule::PasswordRule;
use crate::{fields, limits, permissions, policies, topic_permissions, users, vhosts};

type Entry = Map<String, Value>;

/// An unsupported object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The commands of an import, and the objects left out.
#[derive(Default)]
pub(super) struct Plan {
    /// Ordered so that each finds the objects that it depends on.
    pub(super) commands: Vec<Command>,
    pub(super) unsupported: Vec<Unsupported>,
    /// Parts that are kept without an effect.
    pub(super) obsolete: Obsolete,
    /// Exchanges that aren't created, by vhost and name; bindings of them aren't either.
    left_out: HashSet<(String, String)>,
    /// Names of vhosts, each shared by all objects in it.
    names: HashSet<Arc<str>>,
}

/// The hash function of passwords in an export that doesn't name it.
fn hashing_before_3_6(document: &Document<'_>) -> &'static str {
    let version = document.get("rabbit_version");
    let version = version.as_ref().and_then(Value::as_str).unwrap_or_default();
    let is_old = |part: &str| version.starts_with(part);
    match ["2.", "3.0.", "3.1.", "3.2.", "3.3.", "3.4.", "3.5."].into_iter().any(is_old) {
        true => HASHING_MD5,
        false => HASHING_SHA256,
    }
}

/// Whether an entry is a policy as it is already.
fn is_same_policy(known: &Policy, entry: &Entry) -> bool {
    entry.get("pattern").and_then(Value::as_str) == Some(known.pattern.as_str())
        && entry.get("definition").and_then(Value::as_object) == Some(&known.definition)
        && entry.get("priority").map_or(Some(0), Value::as_i64) == Some(known.priority)
        && entry.get("apply-to").map_or(Some("all"), Value::as_str) == Some(known.apply_to.name())
}

/// Global parameters that belong to a cluster and not to its definitions.
const NOT_IMPORTED: [&str; 2] = ["internal_cluster_id", super::load::HASH_PARAMETER];

/// Keys of policies that plugins of RabbitMQ add, which this broker doesn't have.
const KEYS_OF_PLUGINS: [&str; 5] =
    ["federation-upstream", "federation-upstream-pattern", "federation-upstream-set", "shards-per-node", "routing-key"];

impl Plan {
    /// The plan for `document`. Objects that exist in `topology` stay unchanged, as in RabbitMQ.
    ///
    /// # Errors
    /// An entry is invalid.
    pub(super) fn of(
        document: &Document<'_>,
        scope: &Scope,
        topology: &Topology,
        defaults: &VhostDefaults,
        rule: &PasswordRule,
    ) -> Result<Self, Error> {
        let mut plan = Plan::default();
        // Allocated exactly: the commands for a hundred thousand objects take as much memory as their text.
        let many = ["queues", "exchanges", "bindings"].into_iter().map(|kind| document.count(kind)).sum();
        plan.commands.reserve_exact(many);
        if *scope == Scope::Cluster {
            plan.users(document, topology, rule)?;
            plan.vhosts(document, topology, defaults)?;
        } else {
            plan.settings_of(document, scope, topology, defaults)?;
        }
        plan.check_vhosts(document, scope, topology)?;
        if *scope == Scope::Cluster {
            document.each("permissions", |entry| {
                let (user, vhost) = (fields::text(entry, "user")?, fields::text(entry, "vhost")?);
                let command = permissions::parse(user, vhost, entry)?;
                // Patterns aren't compiled to find out that they are the same.
                let is_same = topology.permission(user, vhost).is_some_and(|known| {
                    [&known.configure, &known.write, &known.read].map(|pattern| pattern.as_str())
                        == [&*command.configure, &*command.write, &*command.read]
                });
                if !is_same {
                    plan.commands.push(Command::SetPermissions(command));
                }
                Ok(())
            })?;
            document.each("global_parameters", |entry| {
                let name = fields::text(entry, "name")?;
                let value = entry.get("value").cloned().unwrap_or_default();
                let is_same = topology.global_parameter(name).is_some_and(|known| **known == value);
                if !is_same && !NOT_IMPORTED.contains(&name) {
                    plan.commands.push(Command::PutGlobalParameter { name: name.into(), value });
                }
                Ok(())
            })?;
        }
        plan.parameters(document, scope, topology)?;
        for (list, kind) in [("policies", PolicyKind::User), ("operator_policies", PolicyKind::Operator)] {
            document.each(list, |entry| {
                let name = fields::text(entry, "name")?;
                plan.policy(kind, scope.vhost_of(entry), name, entry, topology)
            })?;
        }
        plan.queues(document, scope, topology)?;
        plan.exchanges(document, scope, topology)?;
        plan.bindings(document, scope, topology)?;
        if *scope == Scope::Cluster {
            document.each("topic_permissions", |entry| {
                let (user, vhost) = (fields::text(entry, "user")?, fields::text(entry, "vhost")?);
                let command = topic_permissions::parse(user, vhost, entry)?;
                let is_same = topology.topic_permission(user, vhost, &command.exchange).is_some_and(|known| {
                    [known.write.as_str(), known.read.as_str()] == [&*command.write, &*command.read]
                });
                if !is_same {
                    plan.commands.push(Command::SetTopicPermissions(command));
                }
                Ok(())
            })?;
        }
        Ok(plan)
    }

    fn users(&mut self, document: &Document<'_>, topology: &Topology, rule: &PasswordRule) -> Result<(), Error> {
        document.each("users", |entry| {
            let name = fields::text(entry, "name")?;
            let says_how = entry.contains_key("hashing_algorithm") || !entry.contains_key("password_hash");
            let user = match says_how {
                true => users::parse(name, entry, rule)?,
                // RabbitMQ before 3.6.1 didn't export it.
                false => PutUser {
                    hashing_algorithm: hashing_before_3_6(document).into(),
                    ..users::parse(name, entry, rule)?
                },
            };
            let same = topology.user(name).is_some_and(|current| {
                current.password_hash == user.password_hash
                    && current.hashing_algorithm == user.hashing_algorithm
                    && current.tags == user.tags
            });
            if !same {
                self.commands.push(Command::PutUser(user));
            }
            self.limits(LimitOwner::User(name.into()), entry.get("limits"), topology)?;
            Ok(())
        })
    }

    fn vhosts(&mut self, document: &Document<'_>, topology: &Topology, defaults: &VhostDefaults) -> Result<(), Error> {
        document.each("vhosts", |entry| {
            let name = fields::text(entry, "name")?;
            if topology.vhost(name).is_none() {
                self.commands.push(Command::CreateVhost { name: name.into() });
                let commands = defaults.commands(name, topology, |user| self.makes_user(user));
                self.commands.extend(commands);
            }
            self.settings(name, entry, topology, defaults)?;
            self.limits(LimitOwner::Vhost(name.into()), entry.get("limits"), topology)?;
            Ok(())
        })
    }

    fn makes_user(&self, name: &str) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::PutUser(user) if *user.name == *name))
    }

    /// A document of one vhost has the vhost's metadata at its top level.
    fn settings_of(
        &mut self,
        document: &Document<'_>,
        scope: &Scope,
        topology: &Topology,
        defaults: &VhostDefaults,
    ) -> Result<(), Error> {
        let Scope::Vhost(name) = scope else { return Ok(()) };
        let settings = document.settings();
        self.settings(name, &settings, topology, defaults)?;
        self.limits(LimitOwner::Vhost(name.as_str().into()), settings.get("limits"), topology)
    }

    fn settings(
        &mut self,
        name: &str,
        entry: &Entry,
        topology: &Topology,
        defaults: &VhostDefaults,
    ) -> Result<(), Error> {
        let mut given = entry.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        for key in ["description", "tags", "default_queue_type", "redeclare_mismatch"] {
            if let Some(value) = entry.get(key) {
                given.entry(key).or_insert_with(|| value.clone());
            }
        }
        given.remove("tracing");
        let current = topology.vhost_settings(name);
        let settings = vhosts::settings(current, defaults, &given)?;
        if current.is_none_or(|current| **current != settings) {
            self.commands.push(Command::SetVhost { name: name.into(), settings });
        }
        Ok(())
    }

    /// Limits as an object, or as RabbitMQ 3's list of names and values.
    fn limits(&mut self, owner: LimitOwner, given: Option<&Value>, topology: &Topology) -> Result<(), Error> {
        let current = topology.limits_of(&owner);
        let mut set = |name: &str, value: &Value| {
            let value = limits::checked(&owner, name, value).map_err(Error::BadRequest)?;
            if current.and_then(|known| known.get(name)) != Some(&value) {
                let (owner, name) = (owner.clone(), name.into());
                self.commands.push(Command::SetLimit { owner, name, value: Some(value) });
            }
            Ok(())
        };
        match given {
            Some(Value::Object(values)) => values.iter().try_for_each(|(name, value)| set(name, value)),
            Some(Value::Array(list)) => list
                .iter()
                .filter_map(Value::as_object)
                .try_for_each(|entry| set(fields::text(entry, "name")?, entry.get("value").unwrap_or(&Value::Null))),
            _ => Ok(()),
        }
    }

    /// Checks that every object's vhost exists or is created.
    fn check_vhosts(&self, document: &Document<'_>, scope: &Scope, topology: &Topology) -> Result<(), Error> {
        let made: HashSet<&str> = self
            .commands
            .iter()
            .filter_map(|command| match command {
                Command::CreateVhost { name } => Some(&**name),
                _ => None,
            })
            .collect();
        for kind in
            ["permissions", "topic_permissions", "policies", "operator_policies", "queues", "exchanges", "bindings"]
        {
            let vhosts = match scope {
                Scope::Cluster => document.vhosts_of(kind),
                // Its existence was checked before.
                Scope::Vhost(_) => Vec::new(),
            };
            for (vhost, first) in vhosts {
                if topology.vhost(&vhost).is_none() && !made.contains(&*vhost) {
                    let reason = format!("Please create virtual host \"{vhost}\" prior to importing definitions.");
                    return Err(Error::BadRequest(reason).at(&document.place_of(kind, first)));
                }
            }
        }
        Ok(())
    }

    fn parameters(&mut self, document: &Document<'_>, scope: &Scope, topology: &Topology) -> Result<(), Error> {
        document.each("parameters", |entry| {
            let (component, vhost) = (fields::text(entry, "component")?, scope.vhost_of(entry));
            match component {
                "vhost-limits" => self.limits(LimitOwner::Vhost(vhost.into()), entry.get("value"), topology)?,
                "operator_policy" => {
                    let name = fields::text(entry, "name")?;
                    let value = entry.get("value").and_then(Value::as_object);
                    let wrong = || Error::BadRequest(format!("the value of operator policy '{name}' is no object"));
                    self.policy(PolicyKind::Operator, vhost, name, value.ok_or_else(wrong)?, topology)?;
                }
                "policy" => {
                    return Err(Error::BadRequest("policies may not be set using this method".to_owned()));
                }
                _ => self.refuse(&format!("{component} parameter"), vhost, entry),
            }
            Ok(())
        })
    }

    fn policy(
        &mut self,
        kind: PolicyKind,
        vhost: &str,
        name: &str,
        entry: &Entry,
        topology: &Topology,
    ) -> Result<(), Error> {
        if topology.policy(kind, vhost, name).is_some_and(|known| is_same_policy(known, entry)) {
            return Ok(());
        }
        let definition = entry.get("definition").and_then(Value::as_object);
        let missing = definition.into_iter().flat_map(Map::keys).find(|key| KEYS_OF_PLUGINS.contains(&key.as_str()));
        if let Some(key) = missing {
            let what = format!("{} '{name}' in vhost '{vhost}', because of its key '{key}'", kind.name());
            self.unsupported.push(Unsupported(what));
            return Ok(());
        }
        definition.into_iter().for_each(|definition| self.obsolete.policy(kind, vhost, name, definition));
        let vhost = self.vhost(vhost);
        self.commands.push(Command::SetPolicy(policies::parse(kind, &vhost, name, entry)?));
        Ok(())
    }

    fn queues(&mut self, document: &Document<'_>, scope: &Scope, topology: &Topology) -> Result<(), Error> {
        document.each("queues", |entry| {
            let (vhost, name) = (scope.vhost_of(entry), fields::text(entry, "name")?);
            if topology.queue(vhost, name).is_some() {
                return Ok(());
            }
            let mut arguments = fields::arguments(entry)?;
            self.obsolete.queue(vhost, name, &arguments);
            if arguments.get("x-queue-type").and_then(|kind| kind.as_str()).is_none() && entry.contains_key("type") {
                // Without it the queue would get the default type of its vhost.
                let kind = fields::text(entry, "type")?;
                if QueueType::parse(kind).is_some() {
                    arguments = arguments.with("x-queue-type", kind.into());
                }
            }
            let vhost = self.vhost(vhost);
            self.commands.push(Command::DeclareQueue(DeclareQueue {
                vhost,
                name: name.into(),
                // Names generated by a broker are allowed in an import.
                server_named: true,
                durable: fields::flag_or(entry, "durable", true)?,
                auto_delete: fields::flag(entry, "auto_delete")?,
                exclusive: false,
                connection: None,
                arguments,
            }));
            Ok(())
        })
    }

    fn exchanges(&mut self, document: &Document<'_>, scope: &Scope, topology: &Topology) -> Result<(), Error> {
        document.each("exchanges", |entry| {
            let (vhost, name) = (scope.vhost_of(entry), fields::text(entry, "name")?);
            let predeclared = name.is_empty() || name.starts_with("amq.");
            let kind = fields::text_or(entry, "type", "direct")?;
            if topology.exchange(vhost, name).is_some() || predeclared {
                return Ok(());
            }
            if ExchangeType::parse(kind).is_err() {
                self.refuse(&format!("exchange of type {kind}"), vhost, entry);
                self.left_out.insert((vhost.to_owned(), name.to_owned()));
                return Ok(());
            }
            let vhost = self.vhost(vhost);
            self.commands.push(Command::DeclareExchange(DeclareExchange {
                vhost,
                name: name.into(),
                kind: kind.to_owned(),
                durable: fields::flag_or(entry, "durable", true)?,
                auto_delete: fields::flag(entry, "auto_delete")?,
                internal: fields::flag(entry, "internal")?,
                arguments: fields::arguments(entry)?,
            }));
            Ok(())
        })
    }

    fn bindings(&mut self, document: &Document<'_>, scope: &Scope, topology: &Topology) -> Result<(), Error> {
        let mut parsed = topology.known_objects();
        document.each("bindings", |entry| {
            let vhost = scope.vhost_of(entry);
            let (source, destination) = (fields::text(entry, "source")?, fields::text(entry, "destination")?);
            let to_queue = match fields::text_or(entry, "destination_type", "queue")? {
                "queue" => true,
                "exchange" => false,
                other => {
                    return Err(Error::BadRequest(format!("destination_type '{other}' is neither queue nor exchange")));
                }
            };
            let left_out =
                |name: &str| !self.left_out.is_empty() && self.left_out.contains(&(vhost.to_owned(), name.to_owned()));
            if source.is_empty() || left_out(source) || (!to_queue && left_out(destination)) {
                return Ok(());
            }
            // Exchanges that this broker doesn't have, such as that of the log, have no bindings either.
            let named = |name: &str| name.starts_with("amq.") && topology.exchange(vhost, name).is_none();
            if topology.vhost(vhost).is_some() && (named(source) || (!to_queue && named(destination))) {
                self.unsupported
                    .push(Unsupported(format!("binding from '{source}' to '{destination}' in vhost '{vhost}'")));
                return Ok(());
            }
            let (key, arguments) = (fields::text_or(entry, "routing_key", "")?, fields::arguments(entry)?);
            if parsed.has_binding(vhost, source, (to_queue, destination), key, &arguments) {
                return Ok(());
            }
            let destination: Arc<str> = destination.into();
            let vhost = self.vhost(vhost);
            self.commands.push(Command::Bind(Bind {
                vhost,
                source: source.into(),
                destination: match to_queue {
                    true => DestinationName::Queue(destination),
                    false => DestinationName::Exchange(destination),
                },
                routing_key: key.as_bytes().into(),
                arguments,
                connection: None,
            }));
            Ok(())
        })
    }

    fn vhost(&mut self, name: &str) -> Arc<str> {
        if let Some(name) = self.names.get(name) {
            return name.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }

    fn refuse(&mut self, kind: &str, vhost: &str, entry: &Entry) {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or("");
        self.unsupported.push(Unsupported(format!("{kind} '{name}' in vhost '{vhost}'")));
    }
}
