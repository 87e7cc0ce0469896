//! Defaults for new vhosts: limits, operator policies, and users with permissions.

use std::sync::Arc;

use crate::{
    Command, EnabledTypes, LimitOwner, Pattern, PutUser, QueueType, Refused, SetPermissions, SetPolicy, Topology,
    VhostSettings,
};

/// Limits by name.
type Limits = Vec<(Arc<str>, i64)>;

/// Defaults by patterns of vhost names.
#[derive(Clone, Debug, Default)]
pub struct VhostDefaults {
    /// The type of queues that are declared without one.
    pub queue_type: QueueType,
    /// The types that a vhost may have as its default.
    pub queue_types: EnabledTypes,
    limits: Vec<(Pattern, Limits)>,
    policies: Vec<(Pattern, SetPolicy)>,
    users: Vec<(Pattern, VhostUser)>,
}

/// A user that is added to new vhosts.
#[derive(Clone, Debug)]
pub struct VhostUser {
    /// The user, created if it doesn't exist.
    pub user: PutUser,
    /// The configure permission, as in [`SetPermissions::configure`].
    pub configure: String,
    /// The write permission, as in [`SetPermissions::write`].
    pub write: String,
    /// The read permission, as in [`SetPermissions::read`].
    pub read: String,
}

impl VhostDefaults {
    /// Adds limits, by name, for vhosts whose name matches this pattern and none added before. `id` names the pattern
    /// in error texts.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn add_limits(&mut self, id: &str, pattern: &str, limits: Vec<(Arc<str>, i64)>) -> Result<(), Refused> {
        let pattern = Pattern::new(pattern, &format!("default_limits.vhosts.{id}"), "vhost")?;
        self.limits.push((pattern, limits));
        Ok(())
    }

    /// Adds a policy for vhosts whose name matches the pattern; the vhost that it names is of no account.
    ///
    /// # Errors
    /// As [`Pattern::new`], and if the policy isn't valid.
    pub fn add_operator_policy(&mut self, pattern: &str, policy: SetPolicy) -> Result<(), Refused> {
        let object = format!("default_policies.operator.{}", policy.name);
        let pattern = Pattern::new(pattern, &object, "vhost")?;
        policy.clone().policy(false).map_err(|refused| {
            let reason = refused.text.trim_start_matches("Validation failed").trim();
            Refused::precondition(format!("{object} is no operator policy: {reason}"))
        })?;
        self.policies.push((pattern, policy));
        Ok(())
    }

    /// Adds a user for vhosts whose name matches the pattern.
    ///
    /// # Errors
    /// As [`Pattern::new`], for the pattern and for the user's permissions.
    pub fn add_user(&mut self, pattern: &str, user: VhostUser) -> Result<(), Refused> {
        let object = format!("default_users.{}", user.user.name);
        for (part, pattern) in [("configure", &user.configure), ("write", &user.write), ("read", &user.read)] {
            Pattern::new(pattern, &object, part)?;
        }
        self.users.push((Pattern::new(pattern, &object, "vhost")?, user));
        Ok(())
    }

    /// The settings of a new vhost that names none.
    pub fn settings(&self) -> VhostSettings {
        VhostSettings { default_queue_type: self.queue_type.name().into(), ..VhostSettings::default() }
    }

    /// The names of all users that a new vhost may get.
    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        self.users.iter().map(|(_, default)| &*default.user.name)
    }

    /// The commands to submit right after a vhost was created. Users that exist, according to `topology` or `made`,
    /// keep their passwords and tags.
    pub fn commands(&self, vhost: &str, topology: &Topology, made: impl Fn(&str) -> bool) -> Vec<Command> {
        let mut commands = Vec::new();
        if let Some((_, limits)) = self.limits.iter().find(|(pattern, _)| pattern.matches(vhost)) {
            let owner = LimitOwner::Vhost(vhost.into());
            commands.extend(limits.iter().map(|(name, value)| Command::SetLimit {
                owner: owner.clone(),
                name: name.clone(),
                value: Some(*value),
            }));
        }
        for (_, policy) in self.policies.iter().filter(|(pattern, _)| pattern.matches(vhost)) {
            commands.push(Command::SetPolicy(SetPolicy { vhost: vhost.into(), ..policy.clone() }));
        }
        for (_, default) in self.users.iter().filter(|(pattern, _)| pattern.matches(vhost)) {
            let name = &default.user.name;
            if topology.user(name).is_none() && !made(name) {
                commands.push(Command::PutUser(default.user.clone()));
            }
            commands.push(Command::SetPermissions(SetPermissions {
                user: name.clone(),
                vhost: vhost.into(),
                configure: default.configure.clone(),
                write: default.write.clone(),
                read: default.read.clone(),
            }));
        }
        commands
    }
}
