//! Judging a request again, where it is decided.
//!
//! The node of a client judges by the metadata that it has. The member that decides has the newest: a permission that was taken away a
//! moment ago can't be used by way of a node that hasn't heard of it.

use crate::authorize::{Asker, Scope};
use crate::{
    Action, Arguments, Bind, Command, DestinationName, Identity, Permit, Refused, RefusedKind, Resource, Topology,
    authorize, authorize_client,
};

impl Permit {
    /// Judges again whether the asker may have this done. Nobody is asked: an asker whose permissions aren't the model's was judged by its
    /// own node.
    ///
    /// # Errors
    /// As [`authorize`], by this topology.
    pub fn judge_again(&self, topology: &Topology, command: &Command) -> Result<(), Refused> {
        let Some(asker) = &self.asker else { return Ok(()) };
        if asker.version != Asker::VERSION {
            let text = format!(
                "the request says in a form of version {} who asks, and this node knows version {}: its release is older",
                asker.version,
                Asker::VERSION
            );
            return Err(Refused::new(RefusedKind::InternalError, text));
        }
        if !asker.is_of_model {
            return Ok(());
        }
        let who = Identity::of_model(self.actor().clone());
        let judge = |vhost: &str, action: Action<'_>| authorize(topology, &who, vhost, action).map(drop);
        match &self.scope {
            Scope::System => Ok(()),
            Scope::Administer => judge("", Action::Administer),
            Scope::Import { .. } => judge("", Action::ImportDefinitions),
            Scope::Parameters => judge("", Action::SetParameters),
            Scope::Policies { vhost } => judge(vhost, Action::SetPolicies),
            Scope::Vhost { vhost, .. } => {
                let client_id = asker.client_id.as_deref();
                let judge = |action: Action<'_>| authorize_client(topology, &who, vhost, client_id, action).map(drop);
                action_of(command).map_or(Ok(()), judge)
            }
        }
    }
}

fn text_of<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a str> {
    arguments.get(name)?.as_str()
}

/// The action in a vhost that a command is; `None` for those that the permit's scope alone allows or forbids.
fn action_of(command: &Command) -> Option<Action<'_>> {
    Some(match command {
        Command::DeclareQueue(declare) => Action::DeclareQueue {
            queue: &declare.name,
            dead_letter_exchange: text_of(&declare.arguments, "x-dead-letter-exchange"),
        },
        Command::DeleteQueue(delete) => Action::DeleteQueue(&delete.name),
        Command::DeclareExchange(declare) => Action::DeclareExchange {
            exchange: &declare.name,
            alternate: text_of(&declare.arguments, "alternate-exchange"),
        },
        Command::DeleteExchange(delete) => Action::DeleteExchange(&delete.name),
        Command::Bind(Bind { source, destination, routing_key, .. })
        | Command::Unbind(Bind { source, destination, routing_key, .. }) => {
            let destination = match destination {
                DestinationName::Queue(name) => Resource::Queue(name),
                DestinationName::Exchange(name) => Resource::Exchange(name),
            };
            Action::Bind { source, destination, routing_key }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeclareQueue, ExchangeType, Grants, Model, PutUser, Scopes, SetPermissions, SetTopicPermissions};

    const VHOST: &str = "/";

    /// A model with the user ann, who may do all.
    fn model() -> Model {
        let mut model = Model::new();
        let user = PutUser {
            name: "ann".into(),
            password_hash: None,
            hashing_algorithm: "none".into(),
            tags: vec!["administrator".into()],
        };
        let all = || ".*".to_owned();
        let permissions =
            SetPermissions { user: "ann".into(), vhost: VHOST.into(), configure: all(), write: all(), read: all() };
        for command in
            [Command::CreateVhost { name: VHOST.into() }, Command::PutUser(user), Command::SetPermissions(permissions)]
        {
            let _ = model.submit(Permit::system(), command).expect("it is accepted");
        }
        model
    }

    fn change(model: &mut Model, command: Command) {
        let _ = model.submit(Permit::system(), command).expect("it is accepted");
    }

    fn declare() -> Command {
        Command::DeclareQueue(DeclareQueue::durable(VHOST.into(), "q".into(), Arguments::default()))
    }

    fn bind(key: &str) -> Command {
        Command::Bind(Bind {
            vhost: VHOST.into(),
            source: "amq.topic".into(),
            destination: DestinationName::Queue("q".into()),
            routing_key: key.as_bytes().into(),
            arguments: Arguments::default(),
            connection: None,
        })
    }

    fn permit(model: &Model, who: &Identity, action: Action<'_>) -> Permit {
        authorize(model.topology(), who, VHOST, action).expect("it is allowed")
    }

    const DECLARE: Action<'_> = Action::DeclareQueue { queue: "q", dead_letter_exchange: None };

    #[test]
    fn a_permission_that_was_taken_away_isnt_used() {
        let mut model = model();
        let permit = permit(&model, &Identity::of_model("ann"), DECLARE);
        assert_eq!(permit.judge_again(model.topology(), &declare()), Ok(()));
        let less = SetPermissions {
            user: "ann".into(),
            vhost: VHOST.into(),
            configure: "x".to_owned(),
            write: ".*".to_owned(),
            read: ".*".to_owned(),
        };
        change(&mut model, Command::SetPermissions(less));
        let refused = permit.judge_again(model.topology(), &declare()).expect_err("it is gone");
        assert_eq!(refused.kind, RefusedKind::AccessRefused);
        assert_eq!(refused.text, "configure access to queue 'q' in vhost '/' refused for user 'ann'");
        assert_eq!(permit.judge_again(model.topology(), &bind("k")), Ok(()), "each command by itself");
        change(&mut model, Command::ClearPermissions { user: "ann".into(), vhost: VHOST.into() });
        let refused = permit.judge_again(model.topology(), &bind("k")).expect_err("it is gone");
        assert_eq!(refused.text, "access to vhost '/' refused for user 'ann'");
        assert_eq!(Permit::system().judge_again(model.topology(), &declare()), Ok(()), "the broker itself");
    }

    #[test]
    fn the_tag_of_an_administrator_is_judged_again() {
        let mut model = model();
        let ann = Identity::of_model("ann");
        let permits = [Action::Administer, Action::ImportDefinitions, Action::SetParameters, Action::SetPolicies]
            .map(|action| permit(&model, &ann, action));
        let command = Command::CreateVhost { name: "new".into() };
        assert!(permits.iter().all(|permit| permit.judge_again(model.topology(), &command).is_ok()));
        let user =
            PutUser { name: "ann".into(), password_hash: None, hashing_algorithm: "none".into(), tags: Vec::new() };
        change(&mut model, Command::PutUser(user));
        assert!(permits.iter().all(|permit| permit.judge_again(model.topology(), &command).is_err()));
    }

    #[test]
    fn a_topic_is_judged_with_the_clients_own_id() {
        let mut model = model();
        assert_eq!(model.topology().exchange(VHOST, "amq.topic").map(|found| found.kind), Some(ExchangeType::Topic));
        let limits = SetTopicPermissions {
            user: "ann".into(),
            vhost: VHOST.into(),
            exchange: "amq.topic".into(),
            write: ".*".to_owned(),
            read: "^{client_id}$".to_owned(),
        };
        change(&mut model, Command::SetTopicPermissions(limits));
        let action =
            Action::Bind { source: "amq.topic", destination: Resource::Queue("q"), routing_key: b"thermometer" };
        let ann = Identity::of_model("ann");
        let permit = authorize_client(model.topology(), &ann, VHOST, Some("thermometer"), action).expect("its own");
        assert_eq!(permit.judge_again(model.topology(), &bind("thermometer")), Ok(()));
        assert!(permit.judge_again(model.topology(), &bind("another")).is_err());
    }

    #[test]
    fn an_asker_outside_the_model_was_judged_by_its_node() {
        let model = model();
        let scopes = Scopes::new(vec![]);
        let who = Identity::new("token", vec!["administrator".into()], Grants::Scopes(scopes), "oauth2");
        let permit = permit(&model, &who, Action::Administer);
        assert_eq!(permit.judge_again(model.topology(), &declare()), Ok(()));
        let shown = serde_json::to_value(&permit).expect("it has a JSON form");
        assert_eq!((&shown["asker"]["backend"], &shown["asker"]["is_of_model"]), (&"oauth2".into(), &false.into()));
    }

    #[test]
    fn permits_of_other_releases_are_read() {
        let model = model();
        let permit = permit(&model, &Identity::of_model("ann"), DECLARE);
        let mut json = serde_json::to_value(&permit).expect("it has a JSON form");
        assert_eq!(serde_json::from_value::<Permit>(json.clone()).expect("it is one"), permit);
        json["asker"]["more"] = 1.into();
        assert_eq!(serde_json::from_value::<Permit>(json.clone()).expect("it is one"), permit);
        json["asker"]["version"] = 2.into();
        let later: Permit = serde_json::from_value(json.clone()).expect("it is one");
        let refused = later.judge_again(model.topology(), &declare()).expect_err("it may mean something else");
        assert!(refused.text.contains("its release is older"), "{}", refused.text);
        json.as_object_mut().expect("an object").remove("asker");
        let earlier: Permit = serde_json::from_value(json).expect("it is one");
        assert_eq!(earlier.judge_again(&crate::Topology::default(), &declare()), Ok(()), "nobody said who asks");
    }
}
