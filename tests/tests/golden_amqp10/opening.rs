//! Protocol headers, SASL, `open` and `close`.

use leveret_amqp10::performative::{Close, Open};
use leveret_amqp10::{Error, HEADER_AMQP, HEADER_SASL, condition};

use super::script::Step::{Await, Send};
use super::script::{Script, Step, begin, begun, init, login, on, open, raw, say, script, sender, session};

fn opened(open: Open<'_>) -> Vec<Step> {
    let mut steps = login();
    steps.extend([say(open), Await("open")]);
    steps
}

fn refused(open: Open<'_>) -> Vec<Step> {
    let mut steps = login();
    steps.extend([say(open), Await("close")]);
    steps
}

fn login_by(mechanism: &'static str, response: Option<&[u8]>) -> Vec<Step> {
    vec![Send(HEADER_SASL.to_vec()), init(mechanism, response), Await("sasl-outcome")]
}

pub(crate) fn scripts() -> Vec<Script> {
    let hostname = |name| Open { hostname: name, ..open() };
    let mut scripts = vec![
        script("a header without SASL", [Send(HEADER_AMQP.to_vec())]),
        script("a header that nobody speaks", [Send(b"NOPE\x01\x02\x03\x04".to_vec())]),
        script("a header of AMQP 1.1", [Send(b"AMQP\x00\x01\x01\x00".to_vec())]),
        script("a header of AMQP over TLS", [Send(b"AMQP\x02\x01\x00\x00".to_vec())]),
        script("SASL with a wrong password", login_by("PLAIN", Some(b"\0guest\0wrong"))),
        script("SASL with an unknown mechanism", login_by("NOTHING", Some(b"\0guest\0guest"))),
        script("SASL with PLAIN and no response", login_by("PLAIN", None)),
        script("SASL with a malformed response", login_by("PLAIN", Some(b"guest"))),
        script("SASL with PLAIN in another's name", login_by("PLAIN", Some(b"other\0guest\0guest"))),
        script("SASL with ANONYMOUS", login_by("ANONYMOUS", Some(b"me"))),
        script("SASL followed by the SASL header", {
            let mut steps = login_by("PLAIN", Some(b"\0guest\0guest"));
            steps.push(Send(HEADER_SASL.to_vec()));
            steps
        }),
        script("open with defaults", opened(open())),
        script("open without a host name", opened(hostname(None))),
        script("open with another host name", opened(hostname(Some("localhost")))),
        script("open with an empty host name", opened(hostname(Some("")))),
        script("open of an unknown vhost", refused(hostname(Some("vhost:nowhere")))),
        script("open with frames of 511 bytes", refused(Open { max_frame_size: 511, ..open() })),
        script("open with frames of 512 bytes", opened(Open { max_frame_size: 512, ..open() })),
        script("open with an idle time of 0", opened(Open { idle_time_out: Some(0), ..open() })),
        script("open with an idle time of 500 ms", refused(Open { idle_time_out: Some(500), ..open() })),
        script("open with an idle time of 999 ms", refused(Open { idle_time_out: Some(999), ..open() })),
        script("open with an idle time of 1000 ms", opened(Open { idle_time_out: Some(1000), ..open() })),
        script("open with channel-max 0", opened(Open { channel_max: 0, ..open() })),
        script("open with channel-max 3", opened(Open { channel_max: 3, ..open() })),
        script("open twice", {
            let mut steps = opened(open());
            steps.extend([say(open()), Await("close")]);
            steps
        }),
        script("open on channel 1", {
            let mut steps = login();
            steps.extend([on(1, open()), Await("open")]);
            steps
        }),
        script("begin before open", {
            let mut steps = login();
            steps.extend([say(begin()), Await("close")]);
            steps
        }),
        script("a frame before open that is no performative", {
            let mut steps = login();
            steps.extend([raw(0, &[0, 0x53, 0x24, 0x45]), Await("close")]);
            steps
        }),
        script("close before open", {
            let mut steps = login();
            steps.push(say(Close { error: None }));
            steps
        }),
        script("close with an error", {
            let error = Error { condition: condition::INTERNAL_ERROR, description: Some("mine"), info: None };
            let mut steps = begun();
            steps.extend([say(Close { error: Some(error) }), Await("close")]);
            steps
        }),
        script("close with a session and a link", {
            session([say(sender(super::script::TO)), Await("flow"), say(Close { error: None }), Await("close")])
        }),
        script("an empty frame", {
            let mut steps = opened(open());
            steps.push(raw(0, &[]));
            steps.extend([say(begin()), Await("begin")]);
            steps
        }),
        script("an unknown performative", session([raw(0, &[0, 0x53, 0x70, 0xC0, 1, 0]), Await("end")])),
        script("a performative that is no list", session([raw(0, &[0, 0x53, 0x11, 0x40]), Await("close")])),
        script("a performative without a mandatory field", {
            // An attach without a name.
            session([raw(0, &[0, 0x53, 0x12, 0xC0, 4, 3, 0x40, 0x43, 0x42]), Await("end")])
        }),
        script(
            "a performative that ends early",
            session([raw(0, &[0, 0x53, 0x11, 0xC0, 20, 4, 0x43]), Await("close")]),
        ),
        script("a performative of SASL after the login", session([raw(0, &[0, 0x53, 0x41, 0x45]), Await("end")])),
        script("a frame of type SASL after open", {
            session([Send(vec![0, 0, 0, 12, 2, 1, 0, 0, 0, 0x53, 0x41, 0x45]), Await("close")])
        }),
        script("a frame of an unknown type", session([Send(vec![0, 0, 0, 8, 2, 9, 0, 0]), Await("close")])),
        script("a frame of 7 bytes", session([Send(vec![0, 0, 0, 7, 2, 0, 0, 0]), Await("close")])),
        script("a frame with a data offset of 1", session([Send(vec![0, 0, 0, 8, 1, 0, 0, 0]), Await("close")])),
        script("a frame with a data offset beyond it", session([Send(vec![0, 0, 0, 8, 3, 0, 0, 0]), Await("close")])),
        script("a frame larger than max-frame-size", session([Send(vec![0, 32, 0, 0, 2, 0, 0, 0]), Await("close")])),
    ];
    scripts.push(Script {
        restricted: true,
        ..script("open by a restricted user of an unknown vhost", refused(hostname(Some("vhost:nowhere"))))
    });
    scripts
}
