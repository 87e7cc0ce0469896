//! Topic permissions: the routing keys that a user may publish and bind with at a topic exchange.

use leveret_amqp091::{FieldTable, Properties};
use leveret_model::{Command, SetTopicPermissions};
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

use crate::stage::Stage;

impl Stage {
    fn limit(&mut self, exchange: &str, write: &str, read: &str) {
        self.command(Command::SetTopicPermissions(SetTopicPermissions {
            user: "guest".into(),
            vhost: "/".into(),
            exchange: exchange.into(),
            write: write.to_owned(),
            read: read.to_owned(),
        }));
    }

    fn queue(&mut self) -> usize {
        let link = self.connect();
        self.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
        self.settle();
        self.links[link].told();
        link
    }

    fn publish_to(&mut self, link: usize, exchange: &[u8], key: &[u8], properties: &[u8]) -> Option<(u16, String)> {
        self.links[link].client.publish(1, Publication::to(exchange, key, b"x").with(properties));
        self.settle();
        self.links[link].refusal()
    }
}

fn refused(part: &str, key: &str) -> Option<(u16, String)> {
    let text = format!(
        "ACCESS_REFUSED - {part} access to topic '{key}' in exchange 'amq.topic' in vhost '/' refused for user 'guest'"
    );
    Some((403, text))
}

#[test]
fn publishing_takes_write_on_the_key() {
    let mut stage = Stage::new();
    let link = stage.connect();
    assert_eq!(stage.publish_to(link, b"amq.topic", b"b.c", &[0, 0]), None, "no limit without one");
    stage.limit("amq.topic", "^a", "^a");
    assert_eq!(stage.publish_to(link, b"amq.topic", b"a.c", &[0, 0]), None);
    // The route of this key is cached, but checked again since permissions have changed.
    assert_eq!(stage.publish_to(link, b"amq.topic", b"b.c", &[0, 0]), refused("write", "b.c"));
}

#[test]
fn keys_of_copies_count_too() {
    let mut stage = Stage::new();
    let link = stage.connect();
    stage.limit("amq.topic", "^a", "^a");
    let copies = FieldTable::new().with("CC", leveret_amqp091::FieldValue::Array(vec!["b.c".into()])).encoded();
    let mut raw = Vec::new();
    Properties { headers: Some(copies.as_table()), ..Properties::default() }.encode(&mut raw);
    assert_eq!(stage.publish_to(link, b"amq.topic", b"a.c", &raw), refused("write", "b.c"));
}

#[test]
fn binding_and_unbinding_take_read_on_the_key() {
    for unbind in [false, true] {
        let mut stage = Stage::new();
        stage.limit("amq.topic", "", "^{username}-{vhost}");
        let link = stage.queue();
        let none = FieldTable::new();
        stage.links[link].client.bind_queue(1, b"q", b"amq.topic", b"guest-/.x", &none);
        stage.settle();
        assert_eq!(stage.links[link].refusal(), None);
        match unbind {
            true => stage.links[link].client.unbind_queue(1, b"q", b"amq.topic", b"other", &none),
            false => stage.links[link].client.bind_queue(1, b"q", b"amq.topic", b"other", &none),
        }
        stage.settle();
        assert_eq!(stage.links[link].refusal(), refused("read", "other"));
    }
    let mut stage = Stage::new();
    stage.limit("amq.topic", "", "");
    let link = stage.connect();
    stage.links[link].client.bind_exchange(1, b"amq.fanout", b"amq.topic", b"k");
    stage.settle();
    assert_eq!(stage.links[link].refusal(), refused("read", "k"), "exchange to exchange as well");
}

#[test]
fn topic_permissions_limit_only_the_named_topic_exchange() {
    let mut stage = Stage::new();
    let link = stage.queue();
    stage.limit("amq.topic", "", "");
    stage.limit("amq.direct", "", "");
    assert_eq!(stage.publish_to(link, b"amq.direct", b"k", &[0, 0]), None);
    assert_eq!(stage.publish_to(link, b"", b"q", &[0, 0]), None);
    assert_eq!(stage.publish_to(link, b"amq.topic", b"", &[0, 0]), None, "the empty pattern is the empty key");
    stage.links[link].client.declare_exchange(1, b"own", "topic", false, &FieldTable::new());
    stage.settle();
    assert_eq!(stage.publish_to(link, b"own", b"k", &[0, 0]), None);
    stage.command(Command::ClearTopicPermissions { user: "guest".into(), vhost: "/".into(), exchange: None });
    assert_eq!(stage.publish_to(link, b"amq.topic", b"k", &[0, 0]), None);
}
