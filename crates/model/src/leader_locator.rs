/// Where a new queue of a cluster is (`queue_leader_locator`, `x-queue-leader-locator`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderLocator {
    /// On the node of the client that declares it.
    #[default]
    ClientLocal,
    /// On the node with the fewest queues.
    Balanced,
}

impl LeaderLocator {
    /// The locator with this name in an argument, a policy or the configuration. The last three are older names of `balanced`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "client-local" => Some(LeaderLocator::ClientLocal),
            "balanced" | "random" | "least-leaders" | "min-masters" => Some(LeaderLocator::Balanced),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::{
        Arguments, Command, DeclareQueue, DeleteQueue, Limits, MemberNumber, Model, Permit, PolicyKind, PutMember,
        SetPolicy,
    };

    fn submit(model: &mut Model, command: Command) {
        let _ = model.submit(Permit::system(), command).expect("it is allowed");
    }

    fn cluster() -> Model {
        let mut model = Model::new();
        for number in 0..3 {
            let (name, addresses) = (format!("node-{number}").into(), Vec::new());
            submit(
                &mut model,
                Command::PutMember(PutMember { name, node_id: number + 1, boot: 1, nonce: 1, addresses }),
            );
        }
        model.set_asker(MemberNumber(1));
        model
    }

    fn declare(model: &mut Model, name: &str, locator: Option<&str>) -> u16 {
        let arguments = Arguments::default();
        let arguments = match locator {
            Some(locator) => arguments.with("x-queue-leader-locator", locator.into()),
            None => arguments,
        };
        let declare = DeclareQueue {
            vhost: "/".into(),
            name: name.into(),
            server_named: false,
            durable: true,
            auto_delete: false,
            exclusive: false,
            connection: None,
            arguments,
        };
        submit(model, Command::DeclareQueue(declare));
        let home = model.topology().queue("/", name).expect("it is declared").home;
        let member = home.owner().expect("it is a classic queue");
        member.0
    }

    #[test]
    fn a_balanced_queue_is_where_the_fewest_are() {
        let mut model = cluster();
        assert_eq!(["a", "b"].map(|name| declare(&mut model, name, None)), [1, 1]);
        let balanced: Vec<_> = ["c", "d", "e", "f", "g"].map(|name| declare(&mut model, name, Some("balanced"))).into();
        assert_eq!(balanced, [0, 2, 0, 2, 1], "of as few, the client's own");
        let deleted = DeleteQueue { vhost: "/".into(), name: "d".into(), connection: None, id: None };
        submit(&mut model, Command::DeleteQueue(deleted));
        assert_eq!(declare(&mut model, "h", Some("random")), 2);
        let counts = |model: &Model| [0, 1, 2].map(|member| model.topology().queues_of_member(MemberNumber(member)));
        assert_eq!(counts(&model), [2, 3, 2]);
        let copy = Model::restore(&model.snapshot()).expect("it can be read");
        assert_eq!(counts(&copy), [2, 3, 2]);
        submit(&mut model, Command::DeleteVhost { name: "/".into() });
        assert_eq!(counts(&model), [0, 0, 0]);
    }

    #[test]
    fn queues_count_from_the_first_member_on() {
        let mut model = Model::new();
        submit(&mut model, Command::CreateVhost { name: "/".into() });
        assert_eq!(["a", "b"].map(|name| declare(&mut model, name, None)), [0, 0]);
        let count = |model: &Model| model.topology().queues_of_member(MemberNumber(0));
        assert_eq!(count(&model), 0, "a node that is alone counts none");
        let member = |name: &str, node_id| PutMember {
            name: name.into(),
            node_id,
            boot: 1,
            nonce: 1,
            addresses: Default::default(),
        };
        submit(&mut model, Command::PutMember(member("n@a", 1)));
        assert_eq!(count(&model), 2);
        submit(&mut model, Command::PutMember(member("n@b", 2)));
        assert_eq!(declare(&mut model, "c", Some("balanced")), 1);
        let deleted = DeleteQueue { vhost: "/".into(), name: "a".into(), connection: None, id: None };
        submit(&mut model, Command::DeleteQueue(deleted));
        assert_eq!(count(&model), 1);
    }

    #[test]
    fn an_argument_comes_before_a_policy_and_before_the_key() {
        let mut model = cluster();
        assert_eq!(declare(&mut model, "a", None), 1);
        model.set_limits(Limits { leader_locator: LeaderLocator::Balanced, ..Limits::default() });
        assert_eq!(declare(&mut model, "b", None), 0);
        let mut definition = Map::new();
        definition.insert("queue-leader-locator".to_owned(), json!("client-local"));
        let policy = SetPolicy {
            kind: PolicyKind::User,
            vhost: "/".into(),
            name: "local".into(),
            pattern: json!("^local"),
            apply_to: Some(json!("queues")),
            priority: Some(json!(0)),
            definition: serde_json::Value::Object(definition),
        };
        submit(&mut model, Command::SetPolicy(policy));
        assert_eq!(declare(&mut model, "local-a", None), 1);
        assert_eq!(declare(&mut model, "local-b", Some("balanced")), 2);
    }

    #[test]
    fn members_that_are_down_get_no_queue() {
        let mut model = cluster();
        model.set_members_up([MemberNumber(1), MemberNumber(2)].into());
        let homes: Vec<_> = ["a", "b", "c", "d"].map(|name| declare(&mut model, name, Some("balanced"))).into();
        assert_eq!(homes, [1, 2, 1, 2]);
    }

    #[test]
    fn a_node_that_is_alone_has_all() {
        let mut model = Model::new();
        assert_eq!(declare(&mut model, "a", Some("balanced")), 0);
    }
}
