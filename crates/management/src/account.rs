//! The user of a request: who logged in, with name and tags.

use std::sync::Arc;

use leveret_model::{Grants, Identity, Topology, User};

/// A user that logged in. Its identity may be none of the model's users.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) who: Identity,
    /// The name and tags as of the last look; of a user of the model the password as well.
    pub(crate) user: Arc<User>,
}

impl Account {
    /// The account of an identity. `None` if that is a user who is gone.
    pub(crate) fn of(topology: &Topology, who: Identity) -> Option<Self> {
        let user = match who.grants() {
            Grants::Model => who.user(topology)?.clone(),
            Grants::Scopes(_) | Grants::Asked(_) => named(who.name().clone(), who.tags(topology).to_vec()),
        };
        Some(Self { who, user })
    }

    /// A requester with these tags that didn't log in.
    pub(crate) fn without_login(name: &str, tags: Vec<Arc<str>>) -> Self {
        Self { who: Identity::of_model(name), user: named(name.into(), tags) }
    }

    /// The account as it is now. `None` if its user is gone or has another password, or if the login has ended by this wall time.
    pub(crate) fn renewed(&self, topology: &Topology, wall_ms: u64) -> Option<Self> {
        if self.who.ends_ms().is_some_and(|ends_ms| ends_ms <= wall_ms) {
            return None;
        }
        let now = Self::of(topology, self.who.clone())?;
        let same = now.user.password_hash == self.user.password_hash
            && now.user.hashing_algorithm == self.user.hashing_algorithm;
        same.then_some(now)
    }
}

fn named(name: Arc<str>, tags: Vec<Arc<str>>) -> Arc<User> {
    Arc::new(User { name, password_hash: None, hashing_algorithm: "".into(), tags })
}

#[cfg(test)]
mod tests {
    use leveret_model::{Command, Model, Permit, PutUser, Scopes};

    use super::*;

    fn put(model: &mut Model, hash: &str, tags: &[&str]) {
        let user = PutUser {
            name: "u".into(),
            password_hash: Some(hash.into()),
            hashing_algorithm: "x".into(),
            tags: tags.iter().map(|tag| (*tag).into()).collect(),
        };
        let _ = model.submit(Permit::system(), Command::PutUser(user)).expect("is accepted");
    }

    #[test]
    fn a_user_of_the_model_is_as_now_until_its_password_changes() {
        let mut model = Model::new();
        assert!(Account::of(model.topology(), Identity::of_model("u")).is_none());
        put(&mut model, "1", &["management"]);
        let account = Account::of(model.topology(), Identity::of_model("u")).expect("is there");
        put(&mut model, "1", &["monitoring"]);
        let later = account.renewed(model.topology(), 0).expect("is there");
        assert!(later.user.has_tag("monitoring") && !later.user.has_tag("management"));
        put(&mut model, "2", &["monitoring"]);
        assert!(account.renewed(model.topology(), 0).is_none());
    }

    #[test]
    fn an_identity_that_is_no_user_is_there_until_it_ends() {
        let mut model = Model::new();
        let tags = vec!["administrator".into()];
        let who = Identity::new("u", tags, Grants::Scopes(Scopes::default()), "oauth2").ending_at(100);
        let account = Account::of(model.topology(), who).expect("needs no user");
        put(&mut model, "1", &[]);
        assert!(account.renewed(model.topology(), 99).is_some_and(|now| now.user.has_tag("administrator")));
        assert!(account.renewed(model.topology(), 100).is_none());
    }
}
