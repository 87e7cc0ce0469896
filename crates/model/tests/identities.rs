//! Permissions of identities that aren't users of the model.

use leveret_model::{
    Action, AskedGrants, Command, Glob, GrantAnswer, GrantQuestion, Grants, Identity, Model, Permit, RefusedKind,
    Resource, Right, ScopeRule, Scopes, Topology, authorize, authorize_client,
};

fn topology() -> Topology {
    let mut model = Model::new();
    for name in ["v", "w"] {
        let _ = model.submit(Permit::system(), Command::CreateVhost { name: name.into() }).expect("is accepted");
    }
    model.topology().clone()
}

fn scope(right: Right, vhost: &str, name: &str, routing_key: Option<&str>) -> ScopeRule {
    let glob = |pattern: &str| Glob::parse(pattern).expect("is a pattern");
    ScopeRule { right, vhost: glob(vhost), name: glob(name), routing_key: routing_key.map(glob) }
}

fn token(tags: &[&str], rules: Vec<ScopeRule>) -> Identity {
    let tags = tags.iter().map(|tag| (*tag).into()).collect();
    Identity::new("client", tags, Grants::Scopes(Scopes::new(rules)), "oauth2")
}

fn refusal(topology: &Topology, who: &Identity, vhost: &str, action: Action<'_>) -> Option<(RefusedKind, String)> {
    authorize(topology, who, vhost, action).err().map(|refused| (refused.kind, refused.text))
}

#[test]
fn scopes_grant_what_they_name_and_nothing_else() {
    let topology = topology();
    let rules = vec![
        scope(Right::Configure, "v", "q-*", None),
        scope(Right::Write, "v", "*.topic", Some("a.*")),
        scope(Right::Read, "v", "*", None),
    ];
    let who = token(&[], rules);
    let permit = authorize(&topology, &who, "v", Action::Enter).expect("is granted");
    assert_eq!((&**permit.actor(), permit.user().map(|user| &**user)), ("client", Some("client")));
    let declare = |queue| Action::DeclareQueue { queue, dead_letter_exchange: None };
    assert!(authorize(&topology, &who, "v", declare("q-1")).is_ok());
    let text = "configure access to queue 'p' in vhost 'v' refused for user 'client'";
    assert_eq!(refusal(&topology, &who, "v", declare("p")), Some((RefusedKind::AccessRefused, text.into())));
    let text = "access to vhost 'w' refused for user 'client'";
    assert_eq!(refusal(&topology, &who, "w", Action::Enter), Some((RefusedKind::NotAllowed, text.into())));
    let publish = |routing_key: &'static [u8]| Action::PublishWith { exchange: "amq.topic", routing_key };
    assert!(authorize(&topology, &who, "v", publish(b"a.b")).is_ok());
    let text = "write access to topic 'b' in exchange 'amq.topic' in vhost 'v' refused for user 'client'";
    assert_eq!(refusal(&topology, &who, "v", publish(b"b")), Some((RefusedKind::AccessRefused, text.into())));
    let text = "write access to exchange 'amq.default' in vhost 'v' refused for user 'client'";
    let to_default = Action::PublishWith { exchange: "", routing_key: b"q" };
    assert_eq!(refusal(&topology, &who, "v", to_default), Some((RefusedKind::AccessRefused, text.into())));
}

#[test]
fn tags_of_a_token_are_its_own() {
    let topology = topology();
    for (tags, allowed) in [(&["administrator"][..], true), (&["policymaker"], false), (&[], false)] {
        let who = token(tags, vec![scope(Right::Read, "v", "*", None)]);
        assert_eq!(authorize(&topology, &who, "v", Action::Administer).is_ok(), allowed, "{tags:?}");
        assert_eq!(authorize(&topology, &who, "v", Action::SetPolicies).is_ok(), !tags.is_empty(), "{tags:?}");
        let in_w = authorize(&topology, &who, "w", Action::SetPolicies).is_ok();
        assert_eq!(in_w, allowed, "{tags:?}");
    }
    assert!(authorize(&topology, &Identity::nobody(), "v", Action::Enter).is_err());
}

#[test]
fn asked_grants_are_unanswered_until_all_answers_are_there() {
    let topology = topology();
    let asked = AskedGrants::default();
    let who = Identity::new("u", Vec::new(), Grants::Asked(asked.clone()), "ldap");
    let bind = Action::Bind { source: "amq.topic", destination: Resource::Queue("q"), routing_key: b"k" };
    let mut questions = Vec::new();
    let granted = loop {
        match authorize_client(&topology, &who, "v", Some("c"), bind) {
            Err(refused) if refused.kind == RefusedKind::Unanswered => {
                let question = asked.take_wanted().expect("a question is noted");
                questions.push(question.clone());
                asked.note(question, GrantAnswer::Granted);
            }
            other => break other,
        }
    };
    assert!(granted.is_ok());
    let vhost = || "v".into();
    let resource = |is_queue, name: &str, right| {
        let name = name.into();
        GrantQuestion::Resource { vhost: vhost(), is_queue, name, right }
    };
    let topic = GrantQuestion::Topic {
        vhost: vhost(),
        exchange: "amq.topic".into(),
        routing_key: "k".into(),
        right: Right::Read,
        client_id: Some("c".into()),
    };
    let expected = [
        GrantQuestion::enter("v"),
        resource(true, "q", Right::Write),
        resource(false, "amq.topic", Right::Read),
        topic.clone(),
    ];
    assert_eq!(questions, expected);
    asked.note(topic, GrantAnswer::Refused);
    let refused = authorize_client(&topology, &who, "v", Some("c"), bind).expect_err("is refused");
    assert_eq!(refused.kind, RefusedKind::AccessRefused);
}

#[test]
fn one_of_three_permissions_is_enough_to_inspect() {
    let topology = topology();
    let look = |answers: [GrantAnswer; 3]| {
        let answers = [GrantAnswer::Granted].into_iter().chain(answers).collect::<Vec<_>>();
        let fresh = Identity::new("u", Vec::new(), Grants::Asked(AskedGrants::default()), "ldap");
        for answer in answers {
            let wanted = match authorize(&topology, &fresh, "v", Action::Inspect(Resource::Queue("q"))) {
                Err(refused) if refused.kind == RefusedKind::Unanswered => {
                    fresh.asked().and_then(AskedGrants::take_wanted)
                }
                other => return other.is_ok(),
            };
            fresh.asked().expect("are asked").note(wanted.expect("is noted"), answer);
        }
        authorize(&topology, &fresh, "v", Action::Inspect(Resource::Queue("q"))).is_ok()
    };
    use GrantAnswer::{Granted, Refused};
    for (answers, expected) in [
        ([Granted, Refused, Refused], true),
        ([Refused, Granted, Refused], true),
        ([Refused, Refused, Granted], true),
        ([Refused, Refused, Refused], false),
    ] {
        assert_eq!(look(answers), expected, "{answers:?}");
    }
}
