//! The result of a login: a name, and what it may do.
//!
//! A connection keeps the identity of its client, and [`authorize`](crate::authorize) takes it. An identity whose grants are the
//! model's is a user there, and is judged by the permissions and tags as they are now. Any other one brings its tags and grants along,
//! and needs no user of its name.

mod asked;
mod encoding;
mod glob;
mod scopes;

use std::sync::Arc;

pub use self::asked::{AskedGrants, GrantAnswer, GrantQuestion};
pub use self::encoding::IDENTITY_BYTES_MAX;
pub use self::glob::Glob;
pub use self::scopes::{ScopeRule, Scopes};
use crate::{Topology, User};

/// The name of the backend of users of the model.
pub const INTERNAL_BACKEND: &str = "internal";

/// A logged-in client. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    name: Arc<str>,
    /// `None` for a user of the model whose login never ends.
    brought: Option<Arc<Brought>>,
}

/// The parts of an identity that its backend gave.
#[derive(Debug, PartialEq)]
struct Brought {
    tags: Vec<Arc<str>>,
    grants: Grants,
    ends_ms: Option<u64>,
    backend: Arc<str>,
}

/// The source of an identity's permissions.
#[derive(Clone, Debug, PartialEq)]
pub enum Grants {
    /// The permissions and tags of the user of this name in the model, as they are now.
    Model,
    /// Compiled scopes of a token.
    Scopes(Scopes),
    /// The answers of a backend, asked for one by one.
    Asked(AskedGrants),
}

/// A permission on a queue, an exchange or a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Declare and delete.
    Configure,
    /// Publish to, and bind.
    Write,
    /// Consume from, and bind to.
    Read,
}

impl Right {
    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Right::Configure => "configure",
            Right::Write => "write",
            Right::Read => "read",
        }
    }
}

impl Identity {
    /// The user of this name in the model, whose login never ends.
    pub fn of_model(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), brought: None }
    }

    /// The identity of a client that hasn't logged in. It may do nothing.
    pub fn nobody() -> Self {
        Self::of_model("")
    }

    /// An identity with these grants, given by `backend`. `tags` count unless the grants are the model's, which has its own.
    pub fn new(name: impl Into<Arc<str>>, tags: Vec<Arc<str>>, grants: Grants, backend: impl Into<Arc<str>>) -> Self {
        Self::of(name.into(), Brought { tags, grants, ends_ms: None, backend: backend.into() })
    }

    fn of(name: Arc<str>, brought: Brought) -> Self {
        let is_plain = matches!(brought.grants, Grants::Model)
            && brought.ends_ms.is_none()
            && *brought.backend == *INTERNAL_BACKEND;
        Self { name, brought: (!is_plain).then(|| Arc::new(brought)) }
    }

    /// The same identity, which ends at this wall time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn ending_at(self, ends_ms: u64) -> Self {
        let (tags, grants, backend) = match &self.brought {
            Some(brought) => (brought.tags.clone(), brought.grants.clone(), brought.backend.clone()),
            None => (Vec::new(), Grants::Model, INTERNAL_BACKEND.into()),
        };
        let brought = Brought { tags, grants, ends_ms: Some(ends_ms), backend };
        Self { name: self.name, brought: Some(Arc::new(brought)) }
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether nobody has logged in.
    pub fn is_nobody(&self) -> bool {
        self.name.is_empty()
    }

    /// The name of the backend that gave it.
    pub fn backend(&self) -> &str {
        self.brought.as_ref().map_or(INTERNAL_BACKEND, |brought| &brought.backend)
    }

    /// The name of the backend that gave it, unless that is the one of the model's users.
    pub(crate) fn other_backend(&self) -> Option<&Arc<str>> {
        let backend = &self.brought.as_ref()?.backend;
        (**backend != *INTERNAL_BACKEND).then_some(backend)
    }

    /// The wall time at which it ends, in milliseconds since the Unix epoch.
    pub fn ends_ms(&self) -> Option<u64> {
        self.brought.as_ref()?.ends_ms
    }

    /// The source of its permissions.
    pub fn grants(&self) -> &Grants {
        self.brought.as_ref().map_or(&Grants::Model, |brought| &brought.grants)
    }

    /// Its tags, as they are now.
    pub fn tags<'a>(&'a self, topology: &'a Topology) -> &'a [Arc<str>] {
        match &self.brought {
            Some(brought) if !matches!(brought.grants, Grants::Model) => &brought.tags,
            _ => self.user(topology).map_or(&[], |user| &user.tags),
        }
    }

    /// Whether it has this tag now.
    pub fn has_tag(&self, topology: &Topology, tag: &str) -> bool {
        self.tags(topology).iter().any(|have| **have == *tag)
    }

    /// The user of the model that it is; `None` if its grants aren't the model's, or if the user is gone.
    pub fn user<'a>(&self, topology: &'a Topology) -> Option<&'a Arc<User>> {
        match self.grants() {
            Grants::Model => topology.user(&self.name),
            Grants::Scopes(_) | Grants::Asked(_) => None,
        }
    }

    /// Whether it exists: a user of the model may be gone.
    pub fn exists(&self, topology: &Topology) -> bool {
        !matches!(self.grants(), Grants::Model) || self.user(topology).is_some()
    }

    /// Whether it may enter a vhost of this topology, as far as that is known.
    pub fn enters(&self, topology: &Topology, vhost: &str) -> bool {
        match self.grants() {
            Grants::Model => topology.permission(&self.name, vhost).is_some(),
            Grants::Scopes(scopes) => scopes.enter(vhost),
            Grants::Asked(asked) => asked.known(&GrantQuestion::enter(vhost)) == Some(true),
        }
    }

    /// Its grants if they are asked for.
    pub fn asked(&self) -> Option<&AskedGrants> {
        match self.grants() {
            Grants::Asked(asked) => Some(asked),
            Grants::Model | Grants::Scopes(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Model, Permit, PutUser};

    #[test]
    fn tags_are_of_the_model_or_brought_along() {
        let mut model = Model::new();
        let tags = vec!["monitoring".into()];
        let user = PutUser { name: "u".into(), password_hash: None, hashing_algorithm: "".into(), tags };
        let _ = model.submit(Permit::system(), Command::PutUser(user)).expect("is accepted");
        let topology = model.topology();
        let of_model = Identity::of_model("u");
        assert!(of_model.has_tag(topology, "monitoring") && of_model.exists(topology));
        let other = Identity::new("u", vec!["management".into()], Grants::Scopes(Scopes::default()), "oauth2");
        assert!(other.has_tag(topology, "management") && !other.has_tag(topology, "monitoring"));
        let gone = Identity::of_model("none").ending_at(5);
        assert!(gone.tags(topology).is_empty() && !gone.exists(topology));
        assert_eq!((gone.backend(), gone.ends_ms()), (INTERNAL_BACKEND, Some(5)));
    }
}
