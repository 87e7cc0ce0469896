//! Replays the scripts that were recorded from RabbitMQ against the model, and compares codes and texts.

use leveret_model::{
    Action, Arguments, Bind, Command, ConnectionId, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DestinationName, Identity, Model, Permit, PutUser, Refused, RefusedKind, Resource, SetPermissions, authorize,
};
use serde_json::Value as Json;

const RECORDED: &str = include_str!("../../../tests/golden/amqp091-errors.json");

/// Calls that the model answers; scenarios with others are replayed by the broker's tests.
const CALLS: &[&str] = &[
    "queue_declare",
    "queue_bind",
    "queue_unbind",
    "queue_delete",
    "exchange_declare",
    "exchange_delete",
    "exchange_bind",
    "exchange_unbind",
];

struct Stage {
    model: Model,
    vhost: String,
}

impl Stage {
    fn new(vhost: &str, permissions: Option<&Json>) -> Self {
        let mut stage = Stage { model: Model::new(), vhost: vhost.to_owned() };
        stage.system(Command::CreateVhost { name: vhost.into() });
        let all = serde_json::json!([".*", ".*", ".*"]);
        for (user, patterns) in [("guest", &all), ("golden", permissions.unwrap_or(&all))] {
            stage.system(Command::PutUser(PutUser {
                name: user.into(),
                password_hash: None,
                hashing_algorithm: "rabbit_password_hashing_sha256".into(),
                tags: Vec::new(),
            }));
            let pattern = |at: usize| patterns[at].as_str().unwrap().to_owned();
            stage.system(Command::SetPermissions(SetPermissions {
                user: user.into(),
                vhost: vhost.into(),
                configure: pattern(0),
                write: pattern(1),
                read: pattern(2),
            }));
        }
        stage
    }

    fn system(&mut self, command: Command) {
        let _ = self.model.submit(Permit::system(), command).unwrap();
    }

    fn permit(&self, user: &str, action: Action<'_>) -> Result<Permit, Refused> {
        authorize(self.model.topology(), &Identity::of_model(user), &self.vhost, action)
    }

    fn call(&mut self, user: &str, connection: u64, name: &str, args: &Json) -> Result<(), Refused> {
        let text = |key: &str| args[key].as_str().unwrap_or("").to_owned();
        let flag = |key: &str| args[key].as_bool().unwrap_or(false);
        let connection = Some(ConnectionId(connection));
        let arguments = arguments(&args["arguments"]);
        let vhost = self.vhost.clone();
        let (permit, command) = match name {
            "queue_declare" => {
                let dead_letter = arguments.get("x-dead-letter-exchange").and_then(|value| value.as_str());
                let queue = if text("queue").is_empty() { "amq.gen-name".into() } else { text("queue") };
                let action = Action::DeclareQueue { queue: &queue, dead_letter_exchange: dead_letter };
                // A reserved name is refused before permissions are checked.
                let permit = self.permit(user, action)?;
                if flag("passive") {
                    let topology = self.model.topology();
                    return topology.usable_queue(&vhost, &queue, connection).map(drop);
                }
                let command = DeclareQueue {
                    vhost: vhost.into(),
                    server_named: text("queue").is_empty(),
                    name: queue.clone().into(),
                    durable: flag("durable"),
                    auto_delete: flag("auto_delete"),
                    exclusive: flag("exclusive"),
                    connection,
                    arguments: arguments.clone(),
                };
                (permit, Command::DeclareQueue(command))
            }
            "queue_delete" => {
                let queue = text("queue");
                let permit = self.permit(user, Action::DeleteQueue(&queue))?;
                let command = DeleteQueue { vhost: vhost.into(), name: queue.into(), connection, id: None };
                (permit, Command::DeleteQueue(command))
            }
            "exchange_declare" => {
                let exchange = text("exchange");
                let alternate = arguments.get("alternate-exchange").and_then(|value| value.as_str());
                let action = Action::DeclareExchange { exchange: &exchange, alternate };
                let permit = self.permit(user, action)?;
                if flag("passive") {
                    return self.model.topology().passive_exchange(&vhost, &exchange).map(drop);
                }
                let command = DeclareExchange {
                    vhost: vhost.into(),
                    name: exchange.clone().into(),
                    kind: text("exchange_type"),
                    durable: flag("durable"),
                    auto_delete: flag("auto_delete"),
                    internal: flag("internal"),
                    arguments: arguments.clone(),
                };
                (permit, Command::DeclareExchange(command))
            }
            "exchange_delete" => {
                let exchange = text("exchange");
                let permit = self.permit(user, Action::DeleteExchange(&exchange))?;
                let command =
                    DeleteExchange { vhost: vhost.into(), name: exchange.clone().into(), if_unused: flag("if_unused") };
                (permit, Command::DeleteExchange(command))
            }
            _ => {
                let (source, destination) = match name.starts_with("queue") {
                    true => (text("exchange"), DestinationName::Queue(text("queue").into())),
                    false => (text("source"), DestinationName::Exchange(text("destination").into())),
                };
                let resource = match &destination {
                    DestinationName::Queue(name) => Resource::Queue(name),
                    DestinationName::Exchange(name) => Resource::Exchange(name),
                };
                let key = text("routing_key");
                let action = Action::Bind { source: &source, destination: resource, routing_key: key.as_bytes() };
                let permit = self.permit(user, action)?;
                let command = Bind {
                    vhost: vhost.into(),
                    source: source.clone().into(),
                    destination: destination.clone(),
                    routing_key: key.into_bytes().into(),
                    arguments,
                    connection,
                };
                match name.ends_with("unbind") {
                    true => (permit, Command::Unbind(command)),
                    false => (permit, Command::Bind(command)),
                }
            }
        };
        self.model.submit(permit, command).map(drop)
    }
}

fn arguments(json: &Json) -> Arguments {
    // {"long": n} is the recorder's way to write an integer of 64 bits.
    let plain = json.as_object().into_iter().flatten().map(|(key, value)| {
        let value = value.get("long").unwrap_or(value);
        (key.clone(), value.clone())
    });
    Arguments::from_json(&Json::Object(plain.collect()))
}

#[test]
fn refusals_are_those_of_rabbitmq() {
    let recorded: Json = serde_json::from_str(RECORDED).unwrap();
    let vhost = recorded["vhost"].as_str().unwrap();
    let mut played = 0;
    let mut not_implemented = Vec::new();
    for scenario in recorded["scenarios"].as_array().unwrap() {
        let name = scenario["name"].as_str().unwrap();
        let Some(script) = scenario["script"].as_array() else {
            continue;
        };
        let known = |step: &Json| {
            let call = step["call"].as_str().unwrap();
            CALLS.contains(&call.split(':').next_back().unwrap())
        };
        // The last queue of a channel is the session's state.
        if name == "queue bind without last queue" || !script.iter().all(known) {
            continue;
        }
        played += 1;
        let mut stage = Stage::new(vhost, scenario.get("permissions"));
        let mut answer = Ok(());
        for (at, step) in script.iter().enumerate() {
            let call = step["call"].as_str().unwrap();
            let (user, connection, call) = match call.split_once(':') {
                Some((_, call)) => ("guest", 2, call),
                None => ("golden", 1, call),
            };
            answer = stage.call(user, connection, call, &step["args"]).map_err(|refused| (at, refused));
            if answer.is_err() {
                break;
            }
        }
        let expected = &scenario["result"];
        match answer {
            Err((_, refused)) if refused.kind == RefusedKind::NotImplemented => {
                not_implemented.push(name.to_owned());
            }
            Ok(()) => assert_eq!(expected["ok"], true, "{name}: RabbitMQ says {expected}"),
            Err((at, refused)) => {
                assert_eq!(expected["at"], at, "{name}: {refused:?}, RabbitMQ says {expected}");
                assert_eq!(expected["code"], refused.kind.code(), "{name}: {refused:?}");
                let text = expected["text"].as_str().unwrap();
                let (ours, theirs) = match refused.kind {
                    // Erlang's text continues with advice for its own configuration.
                    RefusedKind::InternalError => (refused.reply_text(), &text[..refused.reply_text().len()]),
                    // A generated name differs in each run.
                    _ if text.contains("amq.gen-") => continue,
                    _ => (refused.reply_text(), text),
                };
                assert_eq!(ours, theirs, "{name}");
            }
        }
    }
    assert!(played > 150, "only {played} scenarios were played");
    assert_eq!(not_implemented, Vec::<String>::new());
}
