//! Setting and clearing policies.

use std::sync::Arc;

use super::{Model, check_name};
use crate::{Change, CommandOutcome, PolicyKind, Refused, RefusedKind, SetPolicy};

/// Most policies of both kinds in a vhost: a new queue is compared with all of them.
const POLICIES_MAX: usize = 10_000;

impl Model {
    /// `keeps_obsolete`: whether keys without an effect any more are kept, as an import does.
    pub(super) fn set_policy(
        &mut self,
        command: SetPolicy,
        keeps_obsolete: bool,
    ) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let vhost = self.topology.vhost(&command.vhost).cloned().ok_or_else(|| Refused::no_vhost(&command.vhost))?;
        check_name(command.kind.name(), &command.name)?;
        let policy = SetPolicy { vhost: vhost.clone(), ..command }.policy(keeps_obsolete)?;
        let outcome = match self.topology.policy(policy.kind, &vhost, &policy.name) {
            Some(current) if **current == policy => return Ok((CommandOutcome::Exists, Vec::new())),
            Some(_) => CommandOutcome::Updated,
            None => CommandOutcome::Created,
        };
        if outcome == CommandOutcome::Created && self.topology.policy_count(&vhost) >= POLICIES_MAX {
            let (kind, name) = (policy.kind.name(), &policy.name);
            let text = format!(
                "cannot set {kind} '{name}': vhost '{vhost}' has {POLICIES_MAX} policies, the most it may have"
            );
            return Err(Refused::new(RefusedKind::LimitReached, text));
        }
        let policy = Arc::new(policy);
        let mut changes = vec![Change::PolicySet(policy.clone())];
        self.with_alternates(&vhost, &mut changes, |model| model.topology_mut().insert_policy(policy));
        Ok((outcome, changes))
    }

    pub(super) fn clear_policy(&mut self, kind: PolicyKind, vhost: &str, name: &str) -> (CommandOutcome, Vec<Change>) {
        let Some(policy) = self.topology.policy(kind, vhost, name).cloned() else {
            return (CommandOutcome::Absent, Vec::new());
        };
        let mut changes = vec![Change::PolicyCleared(policy)];
        self.with_alternates(vhost, &mut changes, |model| model.topology_mut().remove_policy(kind, vhost, name));
        (CommandOutcome::Deleted, changes)
    }

    /// Makes a change of policies, and adds the alternate exchanges that it changes.
    pub(super) fn with_alternates(&mut self, vhost: &str, changes: &mut Vec<Change>, change: impl FnOnce(&mut Self)) {
        let any = |model: &Self| model.topology.vhosts.get(vhost).is_some_and(|vhost| vhost.policies.any_alternate());
        let had_any = any(self);
        let before = if had_any { self.topology.alternates_by_policy(vhost) } else { Vec::new() };
        change(self);
        if !had_any && !any(self) {
            return;
        }
        let mut before = before.into_iter();
        for (exchange, alternate) in self.topology.alternates_by_policy(vhost) {
            // Both lists have the same exchanges, unless no policy had one before.
            if alternate != before.next().and_then(|(_, alternate)| alternate) {
                changes.push(Change::AlternateChanged(exchange, alternate));
            }
        }
    }
}
