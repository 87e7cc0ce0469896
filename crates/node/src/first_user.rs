use leveret_auth::{HASHING_SHA256, hash_password, random_salt};
use leveret_config::DefaultQueueType;
use leveret_model::{
    Command, EnabledTypes, MAX_CONNECTIONS, MAX_QUEUES, PolicyKind, PutUser, QueueType, Refused, SetPermissions,
    SetPolicy, Topology, VhostDefaults, VhostSettings, VhostUser,
};

/// The user that a node creates on an empty data directory, and the vhost that it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstUser {
    /// `default_user`
    pub name: String,
    /// `default_pass`
    pub password: String,
    /// `default_user_tags`
    pub tags: Vec<String>,
    /// `default_vhost`
    pub vhost: String,
    /// `default_permissions.configure`, a pattern of names.
    pub configure: String,
    /// `default_permissions.write`, a pattern of names.
    pub write: String,
    /// `default_permissions.read`, a pattern of names.
    pub read: String,
}

impl Default for FirstUser {
    /// RabbitMQ's guest.
    fn default() -> Self {
        let everything = || ".*".to_owned();
        Self {
            name: "guest".to_owned(),
            password: "guest".to_owned(),
            tags: vec!["administrator".to_owned()],
            vhost: "/".to_owned(),
            configure: everything(),
            write: everything(),
            read: everything(),
        }
    }
}

impl FirstUser {
    /// The commands that create it, and give its vhost the defaults of every new one. The password is stored as a
    /// salted hash.
    pub(crate) fn commands(&self, defaults: &VhostDefaults) -> Vec<Command> {
        let user = PutUser {
            name: self.name.as_str().into(),
            password_hash: Some(hash_password(self.password.as_bytes(), random_salt()).into()),
            hashing_algorithm: HASHING_SHA256.into(),
            tags: self.tags.iter().map(|tag| tag.as_str().into()).collect(),
        };
        let permissions = SetPermissions {
            user: self.name.as_str().into(),
            vhost: self.vhost.as_str().into(),
            configure: self.configure.clone(),
            write: self.write.clone(),
            read: self.read.clone(),
        };
        let vhost = Command::CreateVhost { name: self.vhost.as_str().into() };
        let settings = VhostSettings { description: "Default virtual host".into(), ..defaults.settings() };
        let described = Command::SetVhost { name: self.vhost.as_str().into(), settings };
        let mut commands = vec![vhost, described, Command::PutUser(user)];
        // Every model begins with the vhost "/".
        if self.vhost != "/" {
            commands.push(Command::DeleteVhost { name: "/".into() });
        }
        commands.extend(defaults.commands(&self.vhost, &Topology::default(), |name| name == self.name));
        commands.push(Command::SetPermissions(permissions));
        commands
    }
}

/// The defaults of new vhosts. Passwords are stored as salted hashes.
///
/// # Errors
/// A pattern is invalid.
pub(crate) fn vhost_defaults(configured: &leveret_config::VhostDefaults) -> Result<VhostDefaults, Refused> {
    let mut defaults = VhostDefaults::default();
    defaults.queue_type = match configured.queue_type {
        DefaultQueueType::Quorum => QueueType::Quorum,
        DefaultQueueType::Classic => QueueType::Classic,
        DefaultQueueType::Stream => QueueType::Stream,
    };
    defaults.queue_types = enabled(configured.queue_types);
    for (id, limits) in &configured.limits {
        let values = [(MAX_CONNECTIONS, limits.max_connections), (MAX_QUEUES, limits.max_queues)];
        let values = values.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        defaults.add_limits(id, &limits.pattern, values.collect())?;
    }
    for (id, policy) in &configured.operator_policies {
        let definition = policy.definition.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
        let set = SetPolicy {
            kind: PolicyKind::Operator,
            vhost: "".into(),
            name: id.as_str().into(),
            pattern: policy.queue_pattern.as_str().into(),
            apply_to: Some(policy.apply_to.as_str().into()),
            priority: None,
            definition: serde_json::Value::Object(definition.collect()),
        };
        defaults.add_operator_policy(&policy.vhost_pattern, set)?;
    }
    for (name, configured) in &configured.users {
        let hash = configured.password.as_ref().map(|password| hash_password(password.as_bytes(), random_salt()));
        let user = PutUser {
            name: name.as_str().into(),
            password_hash: hash.map(Into::into),
            hashing_algorithm: HASHING_SHA256.into(),
            tags: configured.tags.iter().map(|tag| tag.as_str().into()).collect(),
        };
        let (configure, write, read) =
            (configured.configure.clone(), configured.write.clone(), configured.read.clone());
        defaults.add_user(&configured.vhost_pattern, VhostUser { user, configure, write, read })?;
    }
    Ok(defaults)
}

/// The types of which queues can be declared.
pub(crate) fn enabled(configured: leveret_config::QueueTypes) -> EnabledTypes {
    let leveret_config::QueueTypes { classic, quorum, stream } = configured;
    EnabledTypes { classic, quorum, stream }
}

#[cfg(test)]
mod tests {
    use leveret_model::{Model, Permit};

    use super::*;

    #[test]
    fn the_first_user_gets_vhost_and_permissions_no_plain_password() {
        for vhost in ["/", "other"] {
            let first = FirstUser { vhost: vhost.to_owned(), password: "secret".to_owned(), ..FirstUser::default() };
            let mut model = Model::new();
            for command in first.commands(&VhostDefaults::default()) {
                assert!(!format!("{command:?}").contains("secret"));
                let _ = model.submit(Permit::system(), command).expect("is taken");
            }
            let topology = model.topology();
            assert_eq!(topology.vhosts().map(|name| &**name).collect::<Vec<_>>(), [vhost]);
            assert_eq!(&*topology.vhost_settings(vhost).expect("are set").description, "Default virtual host");
            assert!(topology.user("guest").is_some_and(|user| user.has_tag("administrator")));
            assert!(topology.permission("guest", vhost).is_some());
        }
    }
}
