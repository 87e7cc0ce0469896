//! Direct reply-to over AMQP 1.0.

use std::net::SocketAddr;
use std::sync::Arc;

use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::{ExpiryPolicy, TerminusDurability};
use leveret_amqp10::{Performative, Role, SenderSettleMode, Source, Symbol, Symbols, Target, TargetArchetype};
use leveret_broker::{Connection, Peer};
use leveret_model::{Command, SetPermissions};
use leveret_strict_client::amqp10::{Client, Event, Mechanism, Options, SessionOptions};

use crate::stage::{Nobody, Stage};

const CHANNEL: u16 = 0;
const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new("rabbitmq:volatile-queue")];

struct Requester {
    client: Client,
    connection: Connection,
    events: Vec<Event>,
    /// Of the source that the broker made.
    address: Option<String>,
}

impl Requester {
    fn connect(stage: &mut Stage, user: &str) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer { address: address(50_001), local: address(5672) };
        let mechanism = Mechanism::Plain { user: user.into(), password: "secret".into() };
        let mut requester = Self {
            client: Client::new(Options { mechanism, ..Options::default() }),
            connection: stage.broker.accept(peer, Arc::new(Nobody), 0, stage.now),
            events: Vec::new(),
            address: None,
        };
        requester.run(stage);
        requester.client.begin(CHANNEL, SessionOptions::default());
        requester.run(stage);
        requester
    }

    /// Lets both sides go on until nobody has anything to say.
    fn run(&mut self, stage: &mut Stage) {
        loop {
            let input = std::mem::take(self.client.output());
            assert_eq!(self.connection.receive(&input, stage.now), input.len());
            stage.disk_work();
            self.connection.turn(stage.now);
            let output = self.connection.output();
            let (count, answers) = (output.len(), output.pending().to_vec());
            output.written(count);
            let before = self.events.len();
            let used = self.client.receive(&answers, &mut self.events).expect("the broker keeps to the specification");
            assert_eq!(used, answers.len());
            for event in &self.events[before..] {
                if let Event::Attached { attach, .. } = event
                    && let Ok((Performative::Attach(attach), _)) = Performative::decode(self.client.bytes(*attach))
                    && let Some(address) = attach.source.and_then(|source| source.address)
                {
                    self.address = Some(address.to_owned());
                }
            }
            if input.is_empty() && answers.is_empty() {
                return;
            }
        }
    }

    /// The error with which the link is refused, if it is.
    fn attach(&mut self, stage: &mut Stage) -> Option<String> {
        let source = Source {
            durable: TerminusDurability::None,
            expiry_policy: ExpiryPolicy::LinkDetach,
            dynamic: true,
            capabilities: Symbols::of(&CAPABILITIES),
            ..Source::default()
        };
        let attach = Attach {
            name: "replies",
            handle: 0,
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Settled,
            source: Some(source),
            target: Some(TargetArchetype::Target(Target::default())),
            ..Attach::default()
        };
        self.client.attach(CHANNEL, &attach);
        self.run(stage);
        self.refusal()
    }

    fn refusal(&self) -> Option<String> {
        self.events.iter().find_map(|event| match event {
            Event::Detached { error: Some(error), .. } | Event::Ended { error: Some(error), .. } => {
                Some(error.condition.clone())
            }
            _ => None,
        })
    }
}

fn allow_reading(stage: &mut Stage, pattern: &str) {
    stage.command(Command::SetPermissions(SetPermissions {
        user: "reader".into(),
        vhost: "/".into(),
        configure: String::new(),
        write: String::new(),
        read: pattern.into(),
    }));
}

#[test]
fn a_link_for_answers_takes_the_permission_to_read_them() {
    let mut stage = Stage::new();
    stage.user("reader");
    allow_reading(&mut stage, "^orders");
    let refusal = Requester::connect(&mut stage, "reader").attach(&mut stage);
    assert_eq!(refusal.as_deref(), Some("amqp:unauthorized-access"));
    allow_reading(&mut stage, "^amq\\.rabbitmq\\.reply-to");
    assert_eq!(Requester::connect(&mut stage, "reader").attach(&mut stage), None);
}

#[test]
fn nobody_answers_a_requester_that_is_not_there() {
    let mut stage = Stage::new();
    let mut requester = Requester::connect(&mut stage, "guest");
    assert_eq!(requester.attach(&mut stage), None);
    let mut responder = Requester::connect(&mut stage, "guest");
    let address = requester.address.clone().expect("the broker's choice");
    responder.client.attach_sender(CHANNEL, 0, "known", Some(&address));
    responder.run(&mut stage);
    assert_eq!(responder.refusal(), None);
    responder.client.attach_sender(CHANNEL, 1, "unknown", Some(&format!("{address}x")));
    responder.run(&mut stage);
    assert_eq!(responder.refusal().as_deref(), Some("amqp:not-found"));
    requester.connection.disconnected(stage.now);
    let mut late = Requester::connect(&mut stage, "guest");
    late.client.attach_sender(CHANNEL, 0, "gone", Some(&address));
    late.run(&mut stage);
    assert_eq!(late.refusal().as_deref(), Some("amqp:not-found"));
}
