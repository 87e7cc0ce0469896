//! What every new vhost gets: limits, and users who may use it.

use std::sync::Arc;

use crate::{Command, LimitOwner, Pattern, PutUser, Refused, SetPermissions, Topology};

/// Limits by their names.
type Limits = Vec<(Arc<str>, i64)>;

/// What to do for vhosts whose names match.
#[derive(Clone, Debug, Default)]
pub struct VhostDefaults {
    limits: Vec<(Pattern, Limits)>,
    users: Vec<(Pattern, VhostUser)>,
}

/// A user of new vhosts.
#[derive(Clone, Debug)]
pub struct VhostUser {
    /// As it is made if it isn't there.
    pub user: PutUser,
    /// See [`SetPermissions::configure`].
    pub configure: String,
    /// See [`SetPermissions::write`].
    pub write: String,
    /// See [`SetPermissions::read`].
    pub read: String,
}

impl VhostDefaults {
    /// Adds limits, by their names, for vhosts that none added before matches. `id` is named should the pattern be
    /// refused.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn add_limits(&mut self, id: &str, pattern: &str, limits: Vec<(Arc<str>, i64)>) -> Result<(), Refused> {
        let pattern = Pattern::new(pattern, &format!("default_limits.vhosts.{id}"), "vhost")?;
        self.limits.push((pattern, limits));
        Ok(())
    }

    /// Adds a user.
    ///
    /// # Errors
    /// As [`Pattern::new`], for the pattern and for those of its permissions.
    pub fn add_user(&mut self, pattern: &str, user: VhostUser) -> Result<(), Refused> {
        let object = format!("default_users.{}", user.user.name);
        for (part, pattern) in [("configure", &user.configure), ("write", &user.write), ("read", &user.read)] {
            Pattern::new(pattern, &object, part)?;
        }
        self.users.push((Pattern::new(pattern, &object, "vhost")?, user));
        Ok(())
    }

    /// The users that a new vhost may bring.
    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        self.users.iter().map(|(_, default)| &*default.user.name)
    }

    /// What to do right after the vhost was made. Users who are there, in `topology` or by `made`, keep their
    /// passwords and tags.
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
