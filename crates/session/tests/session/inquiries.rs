//! Connections' answers to inquiries.

use std::sync::mpsc::channel;

use leveret_broker::Settings;
use leveret_broker::inquiry::Inquiry;

use crate::stage::Stage;

#[test]
fn a_brief_answer_has_all_but_what_the_client_said_of_itself() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = stage.broker.clients()[0].id;
    let (answer, answers) = channel();
    let brief = answer.clone();
    stage.broker.describe(client, Inquiry::brief(move |view| brief.send(view).expect("is awaited")));
    stage.broker.describe(client, Inquiry::new(move |view| answer.send(view).expect("is awaited")));
    while stage.links[link].step(stage.now) {}
    let [brief, whole] = [answers.recv().expect("an answer"), answers.recv().expect("another")];
    let product = |view: &leveret_broker::views::ConnectionView| {
        view.client_properties.get("product").and_then(|value| value.as_str().map(str::to_owned))
    };
    assert_eq!((product(&brief), product(&whole).as_deref()), (None, Some("leveret-strict-client")));
    assert_eq!((brief.channels.len(), whole.channels.len()), (1, 1));
}

#[test]
fn events_behind_those_of_an_earlier_turn_are_not_forgotten() {
    let mut stage = Stage::with(Settings { turn_work_max: 100, ..Settings::default() });
    let link = stage.connect();
    stage.settle();
    let client = stage.broker.clients()[0].id;
    let broker = stage.broker.clone();
    let (answer, answers) = channel();
    let ask = || {
        let answer = answer.clone();
        broker.describe(client, Inquiry::brief(move |_| answer.send(()).expect("is awaited")));
    };
    // More than a turn handles.
    (0..60).for_each(|_| ask());
    let connection = &mut stage.links[link].connection;
    connection.turn(stage.now);
    assert!(connection.wants_turn());
    ask();
    while connection.wants_turn() {
        connection.turn(stage.now);
    }
    assert_eq!(answers.try_iter().count(), 61);
}
