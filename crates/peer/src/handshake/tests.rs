use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::hello::tests::hello;

fn pair(cookies: [&str; 2], exporters: [&[u8]; 2]) -> (Handshake, Handshake) {
    let [dialer, acceptor] = cookies.map(|cookie| Cookie::new(cookie.as_bytes()));
    (
        Handshake::dialer(&hello("a@x", 1), &dialer, exporters[0]),
        Handshake::acceptor(&hello("b@x", 2), &acceptor, exporters[1]),
    )
}

type Outcome = Result<HandshakeStep, HandshakeError>;

/// Hands bytes over in pieces until nobody has more to say; both sides welcome each other.
fn run(dialer: &mut Handshake, acceptor: &mut Handshake, piece: usize) -> (Outcome, Outcome) {
    let mut last = (Ok(HandshakeStep::Incomplete), Ok(HandshakeStep::Incomplete));
    loop {
        let (there, back) = (dialer.output(), acceptor.output());
        if there.is_empty() && back.is_empty() {
            return last;
        }
        for (bytes, to, last) in [(there, &mut *acceptor, &mut last.1), (back, &mut *dialer, &mut last.0)] {
            for bytes in bytes.chunks(piece) {
                if last.is_ok() && !matches!(last, Ok(HandshakeStep::Done(_))) {
                    *last = to.receive(bytes);
                }
                if matches!(last, Ok(HandshakeStep::Proven)) {
                    *last = to.decide(Ok(()));
                }
            }
        }
    }
}

fn done(outcome: Outcome) -> Verdict {
    match outcome.unwrap() {
        HandshakeStep::Done(verdict) => *verdict,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_know_each_other_in_the_end() {
    for piece in [1, 7, 4096] {
        let (mut dialer, mut acceptor) = pair(["c", "c"], [b"x", b"x"]);
        let (there, back) = run(&mut dialer, &mut acceptor, piece);
        let (b, a) = (done(there), done(back));
        assert_eq!((&*a.hello.node_name, &*b.hello.node_name), ("a@x", "b@x"));
        assert_eq!((a.version, b.version, a.rest, b.rest), (1, 1, vec![], vec![]));
    }
}

#[test]
fn another_cookie_or_connection_of_tls_is_told_to_both() {
    for (cookies, exporters) in [(["c", "d"], [&b""[..], b""]), (["c", "c"], [b"x", b"y"]), (["c", ""], [b"", b""])] {
        let (mut dialer, mut acceptor) = pair(cookies, exporters);
        let (there, back) = run(&mut dialer, &mut acceptor, 4096);
        assert_eq!(back, Err(HandshakeError::Cookie));
        assert_eq!(acceptor.proven(), None);
        assert_eq!(acceptor.claimed_name(), Some("a@x"));
        let Err(HandshakeError::RefusedUnproven(text)) = there else { panic!("{there:?}") };
        assert!(text.contains("give all nodes the same RABBITMQ_ERLANG_COOKIE or .erlang.cookie"), "{text}");
    }
}

#[test]
fn an_acceptor_that_doesnt_know_the_cookie_isnt_believed() {
    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    acceptor.receive(&dialer.output()).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    let proof = dialer.output();
    // Its own proof, sent back.
    assert_eq!(dialer.receive(&proof), Err(HandshakeError::Cookie));
    assert_eq!(dialer.proven(), None);

    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    acceptor.receive(&dialer.output()).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    let welcome = message(WELCOME, &1u16.to_le_bytes());
    assert!(matches!(dialer.receive(&welcome), Err(HandshakeError::Malformed(_))));
}

#[test]
fn a_proof_isnt_one_for_another_handshake() {
    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    let first = dialer.output();
    acceptor.receive(&first).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    let proof = dialer.output();
    let again = &mut Handshake::acceptor(&hello("b@x", 3), &Cookie::new(b"c"), b"");
    again.receive(&first).unwrap();
    assert_eq!(again.receive(&proof), Err(HandshakeError::Cookie));
}

#[test]
fn refusals_of_both_sides_come_with_their_text_and_proof() {
    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    acceptor.receive(&dialer.output()).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    assert_eq!(acceptor.receive(&dialer.output()), Ok(HandshakeStep::Proven));
    assert_eq!(acceptor.proven().unwrap().node_name, "a@x");
    assert_eq!(acceptor.decide(Err("no room".into())), Err(HandshakeError::RefusedHere("no room".into())));
    assert_eq!(dialer.receive(&acceptor.output()), Err(HandshakeError::Refused("no room".into())));
    assert_eq!(dialer.output(), []);

    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    acceptor.receive(&dialer.output()).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    acceptor.receive(&dialer.output()).unwrap();
    assert_eq!(acceptor.decide(Ok(())), Ok(HandshakeStep::Incomplete));
    assert_eq!(dialer.receive(&acceptor.output()), Ok(HandshakeStep::Proven));
    dialer.decide(Err("another cluster\n".into())).unwrap_err();
    assert_eq!(acceptor.receive(&dialer.output()), Err(HandshakeError::Refused("another cluster ".into())));
}

#[test]
fn versions_without_a_common_one_are_named_on_both_sides() {
    let newer = Hello { versions: Versions { min: 2, max: 3 }, ..hello("b@x", 2) };
    let cookie = Cookie::new(b"c");
    let mut dialer = Handshake::dialer(&hello("a@x", 1), &cookie, b"");
    let mut acceptor = Handshake::acceptor(&newer, &cookie, b"");
    let (there, back) = run(&mut dialer, &mut acceptor, 4096);
    let (there, back) = (there.unwrap_err().to_string(), back.unwrap_err().to_string());
    assert!(there.contains("versions 2 to 3") && back.contains("the other 2 to 3"), "{there}; {back}");
}

#[test]
fn other_protocols_get_no_answer_and_a_reason() {
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], "HTTP"),
        (b"AMQP\0\0\x09\x01", "AMQP"),
        (&[0x16, 3, 1, 0, 200, 1, 0, 0], "TLS"),
        (&[9; 40], "begins with the bytes 09 09"),
        (b"LVRX", "begins with the bytes 4c 56 52 58"),
    ] {
        let (_, mut acceptor) = pair(["c", "c"], [b"", b""]);
        let error = acceptor.receive(bytes).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(acceptor.output(), []);
    }
    let (_, mut acceptor) = pair(["c", "c"], [b"", b""]);
    let error = acceptor.receive(b"LVRP\x02\0\0\0").unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
    assert_eq!(acceptor.output(), refusal(&error.to_string()));
}

#[test]
fn nobody_sends_more_than_16_kib_without_a_proof() {
    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    let mut begin = dialer.output();
    begin.extend([HELLO, 0xff, 0xff]);
    assert!(matches!(acceptor.receive(&begin), Err(HandshakeError::Malformed(_))));
    // A HELLO with so many unknown fields that the message behind it doesn't fit.
    let (_, mut acceptor) = pair(["c", "c"], [b"", b""]);
    acceptor.receive(&PREAMBLE).unwrap();
    let mut long = hello("a@x", 1).encode();
    long.resize(BODY_BYTES_MAX, 0);
    acceptor.receive(&message(HELLO, &long)).unwrap();
    acceptor.receive(&[PROOF, 0, 0x20]).unwrap();
    let left = UNPROVEN_BYTES_MAX - PREAMBLE.len() - 2 * HEAD - BODY_BYTES_MAX;
    acceptor.receive(&vec![0; left]).unwrap();
    let error = acceptor.receive(&[0]).unwrap_err();
    assert!(error.to_string().contains("more than 16384 bytes before it proved"), "{error}");
}

#[test]
fn bytes_behind_the_handshake_are_handed_on() {
    let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
    acceptor.receive(&dialer.output()).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    acceptor.receive(&dialer.output()).unwrap();
    acceptor.decide(Ok(())).unwrap();
    dialer.receive(&acceptor.output()).unwrap();
    assert_eq!(done(dialer.decide(Ok(()))).rest, []);
    let mut last = dialer.output();
    last.extend(b"frames");
    assert_eq!(done(acceptor.receive(&last)).rest, b"frames");
}

proptest! {
    #[test]
    fn any_bytes_end_without_a_proof(pieces in vec(vec(any::<u8>(), 0..3000), 0..12), is_node in any::<bool>()) {
        let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
        for side in [&mut dialer, &mut acceptor] {
            if is_node {
                side.receive(&PREAMBLE).unwrap();
            }
            for piece in &pieces {
                if side.receive(piece).is_err() {
                    break;
                }
            }
            prop_assert_eq!(side.proven(), None);
            prop_assert!(side.input.len() <= UNPROVEN_BYTES_MAX + 3000);
        }
    }

    #[test]
    fn a_changed_byte_is_no_proof(at in 0usize..600, bit in 0u8..8) {
        let (mut dialer, mut acceptor) = pair(["c", "c"], [b"", b""]);
        let mut first = dialer.output();
        // The preamble is checked by itself.
        let at = PREAMBLE.len() + at % (first.len() - PREAMBLE.len());
        first[at] ^= 1 << bit;
        if acceptor.receive(&first).is_ok() {
            let _ = dialer.receive(&acceptor.output());
            let _ = acceptor.receive(&dialer.output());
        }
        prop_assert_eq!(acceptor.proven(), None);
    }
}
