//! `max_connections`.

use leveret_broker::Settings;
use leveret_strict_client::amqp091::{Event, Options};

use crate::stage::{Stage, Told};

#[test]
fn one_connection_too_many_is_refused_when_it_opens() {
    let mut stage = Stage::with(Settings { max_connections: Some(2), ..Settings::default() });
    let (_, second) = (stage.connect(), stage.connect());
    let third = stage.dial(Options::default());
    let text = "NOT_ALLOWED - connection refused: node connection limit (2) is reached; raise max_connections";
    assert_eq!(stage.links[third].refusal(), Some((530, text.to_owned())));
    let now = stage.now;
    stage.links[third].connection.disconnected(now);
    stage.links[second].connection.disconnected(now);
    let fourth = stage.dial(Options::default());
    assert_eq!(stage.links[fourth].told().last(), Some(&Told::Event(Event::Connected)), "a place is free again");
}
