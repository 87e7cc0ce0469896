//! Direct reply-to over AMQP 1.0.

use leveret_amqp10::Symbol;
use leveret_model::{Command, SetPermissions};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new("rabbitmq:volatile-queue")];

impl Client10 {
    /// The error with which the link is refused, if it is.
    fn attach_replies(&mut self, stage: &mut Stage) -> Option<String> {
        self.attach_dynamic(CHANNEL, "replies", 0, &CAPABILITIES);
        self.run(stage);
        self.refusal()
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
    let refusal = Client10::connect(&mut stage, "reader").attach_replies(&mut stage);
    assert_eq!(refusal.as_deref(), Some("amqp:unauthorized-access"));
    allow_reading(&mut stage, "^amq\\.rabbitmq\\.reply-to");
    assert_eq!(Client10::connect(&mut stage, "reader").attach_replies(&mut stage), None);
}

#[test]
fn a_sender_to_a_missing_requester_is_refused() {
    let mut stage = Stage::new();
    let mut requester = Client10::connect(&mut stage, "guest");
    assert_eq!(requester.attach_replies(&mut stage), None);
    let mut responder = Client10::connect(&mut stage, "guest");
    let address = requester.address.clone().expect("the broker's choice");
    responder.client.attach_sender(CHANNEL, 0, "known", Some(&address));
    responder.run(&mut stage);
    assert_eq!(responder.refusal(), None);
    responder.client.attach_sender(CHANNEL, 1, "unknown", Some(&format!("{address}x")));
    responder.run(&mut stage);
    assert_eq!(responder.refusal().as_deref(), Some("amqp:not-found"));
    requester.connection.disconnected(stage.now);
    let mut late = Client10::connect(&mut stage, "guest");
    late.client.attach_sender(CHANNEL, 0, "gone", Some(&address));
    late.run(&mut stage);
    assert_eq!(late.refusal().as_deref(), Some("amqp:not-found"));
}
