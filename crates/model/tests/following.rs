//! Members of a cluster that carry out what another one decided.

use leveret_model::{
    Arguments, Bind, Command, ConnectionId, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DestinationName, LimitOwner, MemberNumber, Model, Permit, PolicyKind, PutMember, PutUser, SetPermissions,
    SetPolicy, SetTopicPermissions, VhostSettings, entry_of,
};

/// Random numbers, the same for a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn of<'a>(&mut self, names: &[&'a str]) -> &'a str {
        names[self.below(names.len() as u64) as usize]
    }
}

const VHOSTS: [&str; 2] = ["/", "other"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn destination(dice: &mut Dice) -> DestinationName {
    match dice.below(2) {
        0 => DestinationName::Queue(dice.of(&NAMES).into()),
        _ => DestinationName::Exchange(dice.of(&NAMES).into()),
    }
}

fn command(dice: &mut Dice) -> Command {
    let (vhost, name) = (dice.of(&VHOSTS).into(), dice.of(&NAMES).into());
    let bind = |dice: &mut Dice, vhost, source| Bind {
        vhost,
        source,
        destination: destination(dice),
        routing_key: dice.of(&["", "k", "l"]).as_bytes().into(),
        arguments: Arguments::default(),
        connection: None,
    };
    match dice.below(24) {
        0 => Command::CreateVhost { name: vhost },
        1 if dice.below(4) == 0 => Command::DeleteVhost { name: vhost },
        2 => Command::SetVhost {
            name: vhost,
            settings: VhostSettings { description: dice.of(&NAMES).into(), ..VhostSettings::default() },
        },
        3 => Command::SetLimit {
            owner: LimitOwner::Vhost(vhost),
            name: "max-queues".into(),
            value: Some(dice.below(50) as i64).filter(|limit| *limit > 10),
        },
        4 => Command::PutUser(PutUser {
            name,
            password_hash: None,
            hashing_algorithm: "rabbit_password_hashing_sha256".into(),
            tags: vec![dice.of(&["administrator", "monitoring"]).into()],
        }),
        5 => Command::DeleteUser { name },
        6 | 7 => {
            let (configure, write, read) = (".*".into(), dice.of(&NAMES).into(), String::new());
            Command::SetPermissions(SetPermissions { user: name, vhost, configure, write, read })
        }
        8 => Command::ClearPermissions { user: name, vhost },
        9 => {
            let (write, read) = (dice.of(&NAMES).into(), String::new());
            let exchange = "amq.topic".into();
            Command::SetTopicPermissions(SetTopicPermissions { user: name, vhost, exchange, write, read })
        }
        10 => Command::ClearTopicPermissions { user: name, vhost, exchange: None },
        11 | 12 => Command::SetPolicy(SetPolicy {
            kind: PolicyKind::User,
            vhost,
            name,
            pattern: dice.of(&NAMES).into(),
            apply_to: None,
            priority: None,
            definition: serde_json::json!({"alternate-exchange": dice.of(&NAMES)}),
        }),
        13 => Command::ClearPolicy { kind: PolicyKind::User, vhost, name },
        14 | 15 => Command::DeclareExchange(DeclareExchange {
            vhost,
            name,
            kind: dice.of(&["fanout", "topic", "x-recent-history"]).into(),
            durable: dice.below(2) == 0,
            auto_delete: dice.below(2) == 0,
            internal: false,
            arguments: Arguments::default(),
        }),
        16 => Command::DeleteExchange(DeleteExchange { vhost, name, if_unused: dice.below(2) == 0 }),
        17 | 18 => {
            let exclusive = dice.below(3) == 0;
            Command::DeclareQueue(DeclareQueue {
                durable: dice.below(2) == 0,
                exclusive,
                connection: exclusive.then_some(ConnectionId(3)),
                ..DeclareQueue::durable(vhost, name, Arguments::default())
            })
        }
        19 => Command::DeleteQueue(DeleteQueue { vhost, name, connection: Some(ConnectionId(3)), id: None }),
        20 | 21 => Command::Bind(bind(dice, vhost, name)),
        22 => Command::Unbind(bind(dice, vhost, name)),
        _ => Command::PutMember(PutMember {
            name: format!("rabbit@{name}").into(),
            node_id: 1 + name.as_bytes()[0] as u64,
            boot: dice.below(20),
            nonce: 1,
            addresses: vec!["localhost:25672".into()],
        }),
    }
}

#[test]
fn followers_have_what_the_leader_decided() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut leader, mut follower) = (Model::new(), Model::new());
        let (mut replayed, mut carried_out) = (Model::new(), 0);
        for step in 0..300 {
            leader.set_asker(MemberNumber(dice.below(3) as u16));
            let command = command(&mut dice);
            let submitted = leader.submit(Permit::system(), command.clone());
            let Some(record) = submitted.ok().and_then(|submitted| entry_of(&submitted.changes)) else { continue };
            let _ = follower.follow(&record).expect("it can be read");
            replayed.replay(&record).expect("it can be read");
            carried_out += 1;
            let text = |model: &Model| String::from_utf8(model.record_anew()).expect("JSON");
            assert_eq!(text(&follower), text(&leader), "seed {seed}, step {step}: {command:?}");
            assert_eq!(text(&replayed), text(&leader), "seed {seed}, step {step}, replayed: {command:?}");
        }
        assert!(carried_out > 50, "seed {seed}: {carried_out}");
    }
}

#[test]
fn a_state_that_replaces_another_is_that_state() {
    let mut dice = Dice(7);
    let (mut one, mut other) = (Model::new(), Model::new());
    for _ in 0..300 {
        let _ = one.submit(Permit::system(), command(&mut dice));
        let _ = other.submit(Permit::system(), command(&mut dice));
    }
    other.replay(&one.record_anew()).expect("it can be read");
    assert_eq!(other.snapshot(), one.snapshot());
    assert_eq!(Model::restore(&one.snapshot()).expect("it can be read").snapshot(), one.snapshot());
}

fn put(name: &str, node_id: u64, boot: u64, nonce: u32) -> Command {
    let addresses = vec!["localhost:25672".into()];
    Command::PutMember(PutMember { name: name.into(), node_id, boot, nonce, addresses })
}

#[test]
fn member_numbers_are_never_given_twice() {
    let mut model = Model::new();
    let number = |model: &mut Model, name: &str, node_id| {
        let _ = model.submit(Permit::system(), put(name, node_id, 1, 1)).expect("it joins");
        model.topology().member_named(name).expect("it is a member").number.0
    };
    assert_eq!((number(&mut model, "a", 1), number(&mut model, "b", 2), number(&mut model, "b", 2)), (0, 1, 1));
    let _ = model.submit(Permit::system(), Command::ForgetMember { name: "b".into() }).expect("it is struck");
    let mut model = Model::restore(&model.snapshot()).expect("it can be read");
    assert_eq!(number(&mut model, "b", 3), 2);
}

#[test]
fn taken_names_and_older_directories_are_refused() {
    let mut model = Model::new();
    let _ = model.submit(Permit::system(), put("a", 1, 5, 77)).expect("it joins");
    for (command, expected) in [
        (put("a", 2, 1, 1), "the cluster has a member 'a' already"),
        (put("a", 1, 4, 77), "is an older copy: it says start number 4, and the cluster has seen number 5"),
        (put("a", 1, 5, 78), "is an older copy"),
    ] {
        let refused = model.submit(Permit::system(), command).expect_err("it isn't the member");
        assert!(refused.text.contains(expected), "{refused}");
    }
}

#[test]
fn objects_of_a_start_end_with_the_next_one() {
    let mut model = Model::new();
    let _ = model.submit(Permit::system(), put("a", 1, 1, 1)).expect("it joins");
    let declare = |name: &str, durable, owner| DeclareQueue {
        durable,
        exclusive: owner,
        connection: owner.then_some(ConnectionId(1)),
        ..DeclareQueue::durable("/".into(), name.into(), Arguments::default())
    };
    for command in [declare("stays", true, false), declare("goes", true, true)] {
        let _ = model.submit(Permit::system(), Command::DeclareQueue(command)).expect("it is declared");
    }
    let left = |model: &Model| model.topology().queues("/").map(|queue| queue.name.to_string()).collect::<Vec<_>>();
    let _ = model.submit(Permit::system(), put("a", 1, 1, 1)).expect("the same start");
    assert_eq!(left(&model), ["goes", "stays"]);
    let _ = model.submit(Permit::system(), put("a", 1, 2, 1)).expect("the next one");
    assert_eq!(left(&model), ["stays"]);
}
