//! Messages of sending clients: their transfers, their routes, and their outcomes.

use leveret_amqp10::message::{Header, Properties};
use leveret_amqp10::performative::{Attach, Transfer};
use leveret_amqp10::{DeliveryState, ReceiverSettleMode, SenderSettleMode, Value};

use super::script::Step::Await;
use super::script::{
    FANOUT, Script, Step, TO, annotated, begin, login, message, open, plain, say, script, send, sender, sending,
    session, transfer,
};

/// Sends one message on a new link, and waits for the frame that answers it.
fn sent(address: Option<&str>, transfer: &Transfer<'_>, payload: &[u8]) -> Vec<Step> {
    let mut steps = sending(address);
    steps.extend([send(transfer, payload), Await("disposition or detach")]);
    steps
}

fn with_to(to: &str) -> Vec<u8> {
    message(&Properties { to: Some(to), ..Properties::default() })
}

pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = routed();
    scripts.extend(malformed());
    scripts.extend(in_parts());
    scripts
}

fn routed() -> Vec<Script> {
    let one = transfer(0, false);
    let settled = transfer(0, true);
    vec![
        script("a message that a queue takes", sent(TO, &one, &plain())),
        script("a message that nobody gets", sent(FANOUT, &one, &plain())),
        script("a message that a full queue refuses", sent(Some("/queues/golden10.full"), &one, &plain())),
        script("a message to a queue by its to", sent(None, &one, &with_to("/queues/golden10.queue"))),
        script("a message to an exchange by its to", sent(None, &one, &with_to("/exchanges/amq.fanout"))),
        script("a message to an unknown queue by its to", sent(None, &one, &with_to("/queues/golden10.none"))),
        script("a message without to", sent(None, &one, &plain())),
        script("a message with a bad to", sent(None, &one, &with_to("nowhere"))),
        script("a message to an unknown exchange by its to", sent(None, &one, &with_to("/exchanges/golden10.none"))),
        script("a message to an internal exchange by its to", {
            sent(None, &one, &with_to("/exchanges/golden10.internal"))
        }),
        script("a settled message that a queue takes", {
            let mut steps = sending(TO);
            steps.push(send(&settled, &plain()));
            steps.extend([send(&transfer(1, false), &plain()), Await("disposition or detach")]);
            steps
        }),
        script("a settled message that nobody gets", {
            let mut steps = sending(FANOUT);
            steps.push(send(&settled, &plain()));
            steps.extend([send(&transfer(1, false), &plain()), Await("disposition or detach")]);
            steps
        }),
        script("a settled message with a bad to", sent(None, &settled, &with_to("nowhere"))),
        script("a settled message without to", sent(None, &settled, &plain())),
        script("a message with x-cc that is null", sent(FANOUT, &one, &annotated("x-cc", Value::Null))),
        script("a message with a durable header and a ttl", {
            let mut payload = Vec::new();
            Header { durable: Some(true), ttl: Some(60_000), priority: Some(7), ..Header::default() }
                .encode(&mut payload);
            leveret_amqp10::message::write_data(&mut payload, b"body");
            sent(TO, &one, &payload)
        }),
        script("a message of an own user-id", {
            sent(TO, &one, &message(&Properties { user_id: Some(b"guest"), ..Properties::default() }))
        }),
        script("a message of another user", {
            sent(TO, &one, &message(&Properties { user_id: Some(b"somebody"), ..Properties::default() }))
        }),
    ]
}

fn malformed() -> Vec<Script> {
    let one = transfer(0, false);
    let mut no_body = Vec::new();
    Properties { subject: Some("no body"), ..Properties::default() }.encode(&mut no_body);
    vec![
        script("a message without a body", sent(FANOUT, &one, &no_body)),
        script("a message without anything", sent(FANOUT, &one, &[])),
        script("a message that is nonsense", sent(FANOUT, &one, b"nonsense")),
        script("a message that ends early", sent(FANOUT, &one, &plain()[..12])),
        script("a message with a section twice", {
            let mut payload = Vec::new();
            Header::default().encode(&mut payload);
            payload.extend(plain());
            sent(FANOUT, &one, &payload)
        }),
        script("a message with a reserved annotation", sent(FANOUT, &one, &annotated("mine", "value"))),
        script("a message with x-cc that is no list", sent(FANOUT, &one, &annotated("x-cc", "value"))),
        script("a message larger than max-message-size", {
            // Enough frames of the size announced by the broker to exceed 16 MiB.
            let piece = vec![0u8; 100_000];
            let mut steps = sending(FANOUT);
            let first = Transfer { more: true, ..one };
            steps.push(send(&first, &piece));
            let next = Transfer { more: true, ..Transfer::default() };
            for _ in 0..180 {
                steps.push(send(&next, &piece));
            }
            steps.push(Await("detach"));
            steps
        }),
    ]
}

fn in_parts() -> Vec<Script> {
    let one = transfer(0, false);
    let first = Transfer { more: true, ..one };
    let rest = Transfer::default();
    let payload = plain();
    let (head, tail) = payload.split_at(5);
    let parts = |parts: Vec<Step>| {
        let mut steps = sending(FANOUT);
        steps.extend(parts);
        steps.push(Await("disposition or detach"));
        steps
    };
    vec![
        script("a message in two transfers", parts(vec![send(&first, head), send(&rest, tail)])),
        script("a message in two transfers, both with its id", parts(vec![send(&first, head), send(&one, tail)])),
        script("a continuation with another delivery-id", {
            parts(vec![send(&first, head), send(&transfer(1, false), tail)])
        }),
        script("a continuation with another delivery-tag", {
            parts(vec![send(&first, head), send(&Transfer { delivery_tag: Some(b"u"), ..rest }, tail)])
        }),
        script("a continuation that is settled", {
            parts(vec![send(&first, head), send(&Transfer { settled: Some(true), ..rest }, tail)])
        }),
        script("a continuation with another message-format", {
            parts(vec![send(&first, head), send(&Transfer { message_format: Some(1), ..rest }, tail)])
        }),
        script("a transfer without a delivery-id", parts(vec![send(&Transfer { delivery_id: None, ..one }, &payload)])),
        script("a transfer without a delivery-tag", {
            parts(vec![send(&Transfer { delivery_tag: None, ..one }, &payload)])
        }),
        script("a transfer without a message-format", {
            parts(vec![send(&Transfer { message_format: None, ..one }, &payload)])
        }),
        script("a transfer with an unknown message-format", {
            parts(vec![send(&Transfer { message_format: Some(0x8001_3700), ..one }, &payload)])
        }),
        script("a transfer with a delivery-tag of 33 bytes", {
            parts(vec![send(&Transfer { delivery_tag: Some(&[b't'; 33]), ..one }, &payload)])
        }),
        script("a transfer that says how it is settled", {
            let second = Transfer { rcv_settle_mode: Some(ReceiverSettleMode::Second), ..one };
            parts(vec![send(&second, &payload)])
        }),
        script("a transfer with a state", {
            parts(vec![send(&Transfer { state: Some(DeliveryState::Accepted), ..one }, &payload)])
        }),
        script("a transfer that resumes", parts(vec![send(&Transfer { resume: true, ..one }, &payload)])),
        script("an aborted message", {
            let aborted = Transfer { aborted: true, ..rest };
            parts(vec![send(&first, head), send(&aborted, b""), send(&transfer(1, false), &payload)])
        }),
        script("a message aborted at once", {
            let aborted = Transfer { aborted: true, ..one };
            parts(vec![send(&aborted, b""), send(&transfer(1, false), &payload)])
        }),
        script("a settled message on a link that never settles", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Unsettled, ..sender(FANOUT) };
            session([say(attach), Await("flow"), send(&transfer(0, true), &payload), Await("detach")])
        }),
        script("an unsettled message on a link that always settles", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..sender(FANOUT) };
            session([say(attach), Await("flow"), send(&one, &payload), Await("detach")])
        }),
        script("a transfer on a handle that isn't attached", {
            session([send(&Transfer { handle: 7, ..one }, &payload), Await("end")])
        }),
        script("a transfer on a handle on which the client receives", {
            let mut steps = super::script::receiving(TO);
            steps.extend([send(&Transfer { handle: 1, ..one }, &payload), Await("end")]);
            steps
        }),
        Script {
            without_flows: true,
            ..script("171 settled messages and one more with credit for 170", {
                let mut steps = sending(FANOUT);
                let mut bytes = Vec::new();
                for at in 0..171 {
                    leveret_amqp10::encode_transfer(&mut bytes, 0, &transfer(at, true), &payload);
                }
                steps.extend([
                    Step::Send(bytes),
                    send(&transfer(171, false), &payload),
                    Await("disposition or detach"),
                ]);
                steps
            })
        },
        Script {
            without_flows: true,
            ..script("500 messages of one read with credit for 170", {
                let mut steps = sending(TO);
                let mut bytes = Vec::new();
                for at in 0..500 {
                    leveret_amqp10::encode_transfer(&mut bytes, 0, &transfer(at, true), &payload);
                }
                steps.extend([Step::Send(bytes), Await("detach")]);
                steps
            })
        },
        script("delivery-ids that begin anywhere", {
            let mut steps = login();
            let begin = leveret_amqp10::performative::Begin { next_outgoing_id: u32::MAX, ..begin() };
            steps.extend([say(open()), Await("open"), say(begin), Await("begin"), say(sender(FANOUT)), Await("flow")]);
            steps.extend([send(&transfer(u32::MAX, false), &payload), Await("disposition or detach")]);
            steps.extend([send(&transfer(0, false), &payload), Await("disposition or detach")]);
            steps
        }),
        script("delivery-ids with gaps, and backwards", {
            let mut steps = sending(FANOUT);
            for id in [7, 3, 3] {
                steps.extend([send(&transfer(id, false), &payload), Await("disposition or detach")]);
            }
            steps
        }),
    ]
}
