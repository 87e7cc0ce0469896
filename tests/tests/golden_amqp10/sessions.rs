//! `begin` and `end`.

use leveret_amqp10::performative::{Begin, Detach, End, Flow, Open};
use leveret_amqp10::{Error, condition};

use super::script::Step::Await;
use super::script::{
    FANOUT, Script, Step, another_sender, begin, begun, disposition, flow, login, on, open, plain, say, script,
};
use super::script::{send, sender, session, transfer};

fn with(open: Open<'_>, steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let mut script = login();
    script.extend([say(open), Await("open")]);
    script.extend(steps);
    script
}

fn started(begin: Begin<'_>) -> Vec<Step> {
    with(open(), [say(begin), Await("begin")])
}

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script("begin with defaults", begun()),
        script("begin with handle-max 0", started(Begin { handle_max: 0, ..begin() })),
        script("begin with windows of 0", started(Begin { incoming_window: 0, outgoing_window: 0, ..begin() })),
        script("begin in the middle of the numbers", started(Begin { next_outgoing_id: u32::MAX - 1, ..begin() })),
        script(
            "begin with a remote-channel",
            with(open(), [say(Begin { remote_channel: Some(0), ..begin() }), Await("close")]),
        ),
        script(
            "begin on channel 63",
            with(open(), [on(63, begin()), Await("begin"), on(63, End { error: None }), Await("end")]),
        ),
        script("begin on channel 64", with(open(), [on(64, begin()), Await("close")])),
        script("begin beyond the client's channel-max", {
            with(Open { channel_max: 3, ..open() }, [on(4, begin()), Await("close")])
        }),
        script("begin twice on a channel", with(open(), [say(begin()), Await("begin"), say(begin()), Await("end")])),
        script("begin after end on the same channel", {
            with(
                open(),
                [say(begin()), Await("begin"), say(End { error: None }), Await("end"), say(begin()), Await("begin")],
            )
        }),
        script("two sessions", {
            let end = || End { error: None };
            with(
                open(),
                [
                    say(begin()),
                    Await("begin"),
                    on(1, begin()),
                    Await("begin"),
                    on(1, end()),
                    Await("end"),
                    say(end()),
                    Await("end"),
                ],
            )
        }),
        script("attach without a session", with(open(), [say(sender(FANOUT))])),
        script("flow without a session", with(open(), [say(flow())])),
        script("transfer without a session", with(open(), [send(&transfer(0, false), &plain())])),
        script("disposition without a session", with(open(), [disposition(0, None, true, None)])),
        script("detach without a session", with(open(), [say(Detach { handle: 0, closed: true, error: None })])),
        script("end without a session", with(open(), [say(End { error: None })])),
        script("attach on a channel beyond channel-max", with(open(), [on(64, sender(FANOUT)), Await("close")])),
        script("attach on another channel than the session's", session([on(1, sender(FANOUT))])),
        script("an end", session([say(End { error: None }), Await("end")])),
        script("an end with an error", {
            let error = Error { condition: condition::INTERNAL_ERROR, description: Some("mine"), info: None };
            session([say(End { error: Some(error) }), Await("end")])
        }),
        script("frames after an end", session([say(End { error: None }), Await("end"), say(sender(FANOUT))])),
        script("an end twice", session([say(End { error: None }), Await("end"), say(End { error: None })])),
        script("frames for a session that was ended with an error", {
            let mut steps = session([say(Flow { handle: Some(7), ..flow() }), Await("end")]);
            steps.extend([say(sender(FANOUT)), say(End { error: None }), say(begin()), Await("begin")]);
            steps
        }),
        script(
            "a flow that has seen too much",
            session([say(Flow { next_incoming_id: Some(5), ..flow() }), Await("end")]),
        ),
        script("a flow that has seen nothing", session([say(Flow { next_incoming_id: None, ..flow() })])),
        script("a flow with an echo", {
            let mut steps = session([say(Flow { echo: true, ..flow() })]);
            steps.extend(another_sender());
            steps
        }),
        script("a flow without its windows", {
            session([super::script::raw(0, &[0, 0x53, 0x13, 0xC0, 2, 1, 0x43]), Await("close")])
        }),
        script("a flow that sets the client's outgoing id", {
            session([say(Flow { next_outgoing_id: 17, ..flow() }), say(sender(FANOUT)), Await("flow")])
        }),
    ]
}
