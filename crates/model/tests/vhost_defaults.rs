//! Defaults for new vhosts.

use leveret_model::{Command, LimitOwner, MAX_QUEUES, Model, Permit, PutUser, VhostDefaults, VhostUser};

fn user(name: &str, hash: &str) -> PutUser {
    PutUser {
        name: name.into(),
        password_hash: Some(hash.into()),
        hashing_algorithm: "rabbit_password_hashing_sha256".into(),
        tags: Vec::new(),
    }
}

fn vhost_user(name: &str, configure: &str) -> VhostUser {
    VhostUser {
        user: user(name, "default"),
        configure: configure.to_owned(),
        write: ".*".to_owned(),
        read: ".*".to_owned(),
    }
}

#[test]
fn a_vhost_gets_its_first_matching_limits_and_every_such_user() {
    let mut defaults = VhostDefaults::default();
    defaults.add_limits("a", "^device", vec![(MAX_QUEUES.into(), 5)]).expect("a pattern");
    defaults.add_limits("b", ".*", vec![(MAX_QUEUES.into(), 7)]).expect("a pattern");
    defaults.add_user("^device", vhost_user("device", "^x")).expect("patterns");
    defaults.add_user(".*", vhost_user("everywhere", ".*")).expect("patterns");
    let mut model = Model::new();
    let mut submit = |command| {
        let _ = model.submit(Permit::system(), command).expect("is taken");
        model.topology().clone()
    };
    let mut topology = submit(Command::PutUser(user("everywhere", "own")));
    for vhost in ["device-1", "other"] {
        submit(Command::CreateVhost { name: vhost.into() });
        for command in defaults.commands(vhost, &topology, |_| false) {
            topology = submit(command);
        }
    }
    let limit = |vhost: &str| topology.limits_of(&LimitOwner::Vhost(vhost.into())).and_then(|all| all.get(MAX_QUEUES));
    assert_eq!((limit("device-1"), limit("other")), (Some(&5), Some(&7)));
    assert!(topology.permission("device", "device-1").is_some());
    assert!(topology.permission("device", "other").is_none());
    assert!(
        topology.permission("everywhere", "device-1").is_some() && topology.permission("everywhere", "other").is_some()
    );
    let hash = |name: &str| topology.user(name).and_then(|user| user.password_hash.as_deref().map(str::to_owned));
    assert_eq!(hash("device").as_deref(), Some("default"));
    assert_eq!(hash("everywhere").as_deref(), Some("own"), "whoever is there keeps the password");
    let again = defaults.commands("device-2", Model::new().topology(), |name| name == "device");
    assert!(!again.iter().any(|command| matches!(command, Command::PutUser(user) if *user.name == *"device")));
}

#[test]
fn a_malformed_pattern_is_named_in_the_error() {
    let mut defaults = VhostDefaults::default();
    let text = |refused: Result<(), leveret_model::Refused>| refused.expect_err("is refused").text;
    assert!(text(defaults.add_limits("a", "(", Vec::new())).contains("of default_limits.vhosts.a"));
    assert!(
        text(defaults.add_user(".*", vhost_user("u", "(")))
            .contains("invalid configure pattern '(' of default_users.u")
    );
}
