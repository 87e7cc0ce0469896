//! Who may come in over AMQP 0-9-1, by which mechanism.

use leveret_broker::Settings;
use leveret_strict_client::amqp091::{Event, Options};

use crate::stage::{Stage, Told};

#[test]
fn whoever_is_anonymous_is_the_configured_user() {
    let login = Some(("guest".to_owned(), "guest".to_owned()));
    let mut stage = Stage::with(Settings { anonymous_login: login, ..Settings::default() });
    let link = stage.dial(Options { anonymous: true, ..Options::default() });
    assert_eq!(stage.links[link].told().last(), Some(&Told::Event(Event::Connected)));
}

#[test]
fn nobody_is_anonymous_where_there_is_no_user_for_it() {
    let mut stage = Stage::with(Settings { anonymous_login: None, ..Settings::default() });
    let link = stage.dial(Options { anonymous: true, ..Options::default() });
    let (code, text) = stage.links[link].refusal().expect("it is refused");
    assert_eq!(code, 403);
    assert!(text.contains("Login was refused using authentication mechanism ANONYMOUS"), "{text}");
}
