//! `flow`: credit, drain, available.

use leveret_amqp10::SenderSettleMode;
use leveret_amqp10::performative::{Attach, Begin, Flow};
use leveret_amqp10::value::EncodedMap;

use super::script::Step::Await;
use super::script::{
    FANOUT, Script, Step, TO, another_sender, begin, credit, flow, login, open, plain, published, receiver, receiving,
    say, script, send, sending, session, transfer,
};

fn filled(count: u32, steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut script = published(count);
    script.extend([say(receiver(TO)), Await("attach")]);
    script.extend(steps);
    script
}

fn empty(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut script = receiving(TO);
    script.extend(steps);
    script
}

/// A flow of the receiver after the session has published this many messages.
fn after(published: u32, flow: Flow<'static>) -> Step {
    say(Flow { next_outgoing_id: published, ..flow })
}

pub(crate) fn scripts() -> Vec<Script> {
    let transfers = |count| (0..count).map(|_| Await("transfer"));
    vec![
        script("credit on an empty queue", empty([say(credit(5))])),
        script("credit on an empty queue with an echo", empty([say(Flow { echo: true, ..credit(5) }), Await("flow")])),
        script("a drain of an empty queue", empty([say(Flow { drain: true, ..credit(5) }), Await("flow")])),
        script("a drain of an empty queue with an echo", {
            empty([say(Flow { drain: true, echo: true, ..credit(5) }), Await("flow")])
        }),
        script("a drain without credit", empty([say(Flow { drain: true, ..credit(0) }), Await("flow")])),
        script("no credit with an echo", empty([say(Flow { echo: true, ..credit(0) }), Await("flow")])),
        script(
            "what is available to no credit",
            filled(3, [after(3, Flow { echo: true, ..credit(0) }), Await("flow")]),
        ),
        script("credit for more than there is", filled(2, [after(2, credit(10))].into_iter().chain(transfers(2)))),
        script("credit for less than there is", {
            let more = [after(3, Flow { echo: true, ..credit(2) }), Await("flow")];
            filled(3, [after(3, credit(2))].into_iter().chain(transfers(2)).chain(more))
        }),
        script("a drain of more than there is", {
            filled(
                2,
                [after(2, Flow { drain: true, ..credit(10) })].into_iter().chain(transfers(2)).chain([Await("flow")]),
            )
        }),
        script("a drain of as much as there is", {
            filled(
                2,
                [after(2, Flow { drain: true, ..credit(2) })].into_iter().chain(transfers(2)).chain([Await("flow")]),
            )
        }),
        script("a drain of less than there is", {
            filled(
                3,
                [after(3, Flow { drain: true, ..credit(2) })].into_iter().chain(transfers(2)).chain([Await("flow")]),
            )
        }),
        script("credit after a drain", {
            let drained = [say(Flow { drain: true, ..credit(5) }), Await("flow")];
            let more = [say(Flow { delivery_count: Some(5), echo: true, ..credit(1) }), Await("flow")];
            empty(drained.into_iter().chain(more))
        }),
        script("credit that is taken back", {
            let more = [say(Flow { echo: true, ..credit(0) }), Await("flow")];
            empty([say(credit(5))].into_iter().chain(more))
        }),
        script("credit with a delivery-count of the past", {
            let again = Flow { delivery_count: Some(0), echo: true, ..credit(3) };
            filled(2, [after(2, credit(2))].into_iter().chain(transfers(2)).chain([after(2, again), Await("flow")]))
        }),
        script("credit without a delivery-count", {
            filled(1, [after(1, Flow { delivery_count: None, ..credit(1) }), Await("transfer")])
        }),
        script("credit with properties", {
            let properties = EncodedMap::new().with("mine", "value");
            empty([say(Flow { properties: Some(properties.as_map()), echo: true, ..credit(1) }), Await("flow")])
        }),
        script("credit with a session window of 0", {
            let shut = Flow { incoming_window: 0, echo: true, ..credit(5) };
            let more = [after(1, Flow { incoming_window: 1, ..flow() }), Await("transfer"), Await("flow")];
            filled(1, [after(1, shut)].into_iter().chain(more))
        }),
        script("a session window of 1 and two messages", {
            let mut steps = published(2);
            steps.extend([super::script::Step::Cut]);
            steps.extend(login());
            let begin = Begin { incoming_window: 1, ..begin() };
            steps.extend([say(open()), Await("open"), say(begin), Await("begin"), say(receiver(TO)), Await("attach")]);
            steps.extend([say(Flow { incoming_window: 1, ..credit(5) }), Await("transfer")]);
            steps.extend([say(Flow { next_incoming_id: Some(1), incoming_window: 1, ..flow() }), Await("transfer")]);
            steps
        }),
        script("settled messages", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..receiver(TO) };
            let mut steps = published(2);
            steps.extend([say(attach), Await("attach"), after(2, credit(2)), Await("transfer"), Await("transfer")]);
            steps
        }),
        script("a message in frames of 512 bytes", {
            let mut payload = Vec::new();
            leveret_amqp10::message::write_data(&mut payload, &[b'x'; 1200]);
            let mut steps = sending(TO);
            steps.extend([send(&transfer(0, false), &payload), Await("disposition"), super::script::Step::Cut]);
            steps.extend(login());
            let small = leveret_amqp10::performative::Open { max_frame_size: 512, ..open() };
            steps.extend([say(small), Await("open"), say(begin()), Await("begin"), say(receiver(TO)), Await("attach")]);
            steps.push(say(credit(1)));
            steps.extend(transfers(3));
            steps
        }),
        script("a message larger than the receiver takes", {
            let mut steps = published(1);
            steps.extend([say(Attach { max_message_size: Some(10), ..receiver(TO) }), Await("attach")]);
            steps.extend([after(1, credit(1)), Await("detach")]);
            steps
        }),
        script(
            "a flow on a handle that isn't attached",
            session([say(Flow { handle: Some(7), ..flow() }), Await("end")]),
        ),
        script("a sender's flow with an echo", {
            let mut steps = sending(FANOUT);
            let flow = Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(170), echo: true, ..flow() };
            steps.push(say(flow));
            steps.extend(another_sender());
            steps
        }),
        script("a sender's flow that says what is available", {
            let mut steps = sending(FANOUT);
            let flow = Flow { handle: Some(0), delivery_count: Some(0), available: Some(9), ..flow() };
            steps.push(say(flow));
            steps.extend(another_sender());
            steps
        }),
        script("a sender's flow that used credit up", {
            let mut steps = sending(FANOUT);
            let flow = Flow { handle: Some(0), delivery_count: Some(170), link_credit: Some(0), echo: true, ..flow() };
            steps.push(say(flow));
            steps.extend(another_sender());
            steps
        }),
        script("credit as messages are sent", {
            let mut steps = sending(FANOUT);
            for at in 0..100 {
                steps.extend([send(&transfer(at, false), &plain()), Await("disposition")]);
            }
            steps.push(Await("flow"));
            steps
        }),
    ]
}
