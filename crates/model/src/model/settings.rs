//! Settings and limits of vhosts and users, and global parameters of the cluster.

use std::sync::Arc;

use serde_json::Value;

use super::{Model, check_name};
use crate::{Change, CommandOutcome, LimitOwner, LimitValues, QueueType, Refused, RefusedKind, VhostSettings};

/// Largest JSON of a global parameter in bytes, because a record holds it.
const PARAMETER_BYTES_MAX: usize = 32 << 10;

impl Model {
    pub(super) fn set_vhost(
        &mut self,
        name: &str,
        settings: VhostSettings,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let name = self.topology.vhost(name).cloned().ok_or_else(|| Refused::no_vhost(name))?;
        if QueueType::parse(&settings.default_queue_type).is_none() {
            return Err(Refused::precondition(format!("{} is not a valid queue type", settings.default_queue_type)));
        }
        let length: usize = settings.tags.iter().map(|tag| tag.len()).sum();
        if settings.description.len() + length > PARAMETER_BYTES_MAX {
            return Err(Refused::precondition(format!(
                "description and tags of vhost '{name}' have more than {PARAMETER_BYTES_MAX} bytes"
            )));
        }
        if self.topology.vhost_settings(&name).is_some_and(|current| **current == settings) {
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        let settings = Arc::new(settings);
        self.topology_mut().set_vhost(&name, settings.clone());
        Ok((CommandOutcome::Updated, vec![Change::VhostSet(name, settings)]))
    }

    pub(super) fn set_limit(
        &mut self,
        owner: LimitOwner,
        name: Arc<str>,
        value: Option<i64>,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let known = match &owner {
            LimitOwner::Vhost(vhost) => self.topology.vhost(vhost).is_some(),
            LimitOwner::User(user) => self.topology.user(user).is_some(),
        };
        match &owner {
            _ if known => {}
            LimitOwner::Vhost(vhost) => return Err(Refused::no_vhost(vhost)),
            LimitOwner::User(user) => return Err(Refused::not_found(format!("no user '{user}'"))),
        }
        if !owner.names().contains(&&*name) {
            return Err(Refused::precondition(format!("Unrecognised limit '{name}'; known: {:?}", owner.names())));
        }
        let mut values = self.topology.limits_of(&owner).cloned().unwrap_or_default();
        let before = match value {
            Some(value) => values.insert(name, value),
            None => values.remove(&name),
        };
        if before == value {
            let outcome = if value.is_some() { CommandOutcome::Exists } else { CommandOutcome::Absent };
            return Ok((outcome, Vec::new()));
        }
        let outcome = if value.is_some() { CommandOutcome::Updated } else { CommandOutcome::Deleted };
        self.topology_mut().set_limits(&owner, values.clone());
        Ok((outcome, vec![Change::LimitsSet(owner, values)]))
    }

    pub(super) fn put_global_parameter(
        &mut self,
        name: Arc<str>,
        value: Value,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        check_name("global parameter", &name)?;
        let bytes = value.to_string().len();
        if bytes > PARAMETER_BYTES_MAX {
            let text =
                format!("global parameter '{name}' has {bytes} bytes, at most {PARAMETER_BYTES_MAX} are allowed");
            return Err(Refused::new(RefusedKind::PreconditionFailed, text));
        }
        let outcome = match self.topology.global_parameter(&name) {
            Some(current) if **current == value => return Ok((CommandOutcome::Exists, Vec::new())),
            Some(_) => CommandOutcome::Updated,
            None => CommandOutcome::Created,
        };
        let value = Arc::new(value);
        self.topology_mut().set_global_parameter(&name, Some(value.clone()));
        Ok((outcome, vec![Change::GlobalParameter(name, Some(value))]))
    }

    pub(super) fn delete_global_parameter(&mut self, name: Arc<str>) -> (CommandOutcome, Vec<Change>) {
        if self.topology.global_parameter(&name).is_none() {
            return (CommandOutcome::Absent, Vec::new());
        }
        self.topology_mut().set_global_parameter(&name, None);
        (CommandOutcome::Deleted, vec![Change::GlobalParameter(name, None)])
    }

    /// Refuses a new queue in a vhost that has reached its limit.
    pub(super) fn check_queue_limit(&self, vhost: &str, name: &str) -> Result<(), Refused> {
        let Some(limit) = self.topology.vhost_limit(vhost, crate::vhost::MAX_QUEUES) else { return Ok(()) };
        if (self.topology.queue_count_of(vhost) as u64) < limit {
            return Ok(());
        }
        let text = format!("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached");
        Err(Refused::new(RefusedKind::LimitReached, text))
    }

    pub(super) fn limits_dropped(&self, owner: LimitOwner) -> Option<Change> {
        self.topology.limits_of(&owner)?;
        Some(Change::LimitsSet(owner, LimitValues::new()))
    }
}
