//! Any bytes between nodes: no panic, no proof, no allocation by announced sizes beyond the bound, and messages that are found are found again.
//!
//! The first byte selects the side of the handshake, or frames; the second one the length of the pieces in which the bytes come.

#![no_main]

use leveret_peer::{
    Assembler, Cookie, ForwardedRequest, ForwardedResponse, Gossip, Handshake, Hello, LinkKind, Outgoing, PREAMBLE, PeerMessage,
    UNPROVEN_BYTES_MAX, Versions, decode,
};
use libfuzzer_sys::fuzz_target;

/// Bytes that unfinished bodies may have.
const BODIES_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let [mode, step, bytes @ ..] = data else { return };
    let pieces = bytes.chunks(usize::from(*step) + 1);
    match mode % 4 {
        0 => shake(&mut Handshake::dialer(&hello(), &Cookie::new(b"cookie"), b""), pieces),
        1 => shake(&mut Handshake::acceptor(&hello(), &Cookie::new(b"cookie"), b"exporter"), pieces),
        2 => {
            let mut side = Handshake::acceptor(&hello(), &Cookie::new(b"cookie"), b"");
            side.receive(&PREAMBLE).expect("it is the beginning");
            shake(&mut side, pieces);
        }
        _ => {
            bodies(bytes);
            let counted = allocation_counter::measure(|| frames(bytes));
            assert!(
                counted.bytes_max <= 8 * bytes.len() as u64 + 65536 + BODIES_BYTES_MAX as u64,
                "{} bytes for {}",
                counted.bytes_max,
                bytes.len()
            );
        }
    }
});

fn hello() -> Hello {
    Hello {
        versions: Versions::OWN,
        release: "0.1.0".into(),
        node_name: "rabbit@fuzz".into(),
        node_id: 1,
        cluster_id: None,
        member: Some(1),
        boot: 1,
        start_nonce: 1,
        started_at_ms: 1,
        members: 1,
        is_blank: true,
        link: LinkKind::Control,
        addresses: Vec::new(),
        challenge: [1; 32],
    }
}

fn shake<'a>(side: &mut Handshake, pieces: impl Iterator<Item = &'a [u8]>) {
    let mut sent = side.output().len();
    for piece in pieces {
        let result = side.receive(piece);
        sent += side.output().len();
        assert!(side.proven().is_none(), "nobody guesses a proof");
        assert!(sent <= UNPROVEN_BYTES_MAX);
        if result.is_err() {
            return;
        }
    }
}

fn frames(mut bytes: &[u8]) {
    let mut assembler = Assembler::new(BODIES_BYTES_MAX);
    while let Ok(Some((part, length))) = decode(bytes) {
        bytes = &bytes[length..];
        match assembler.take(part) {
            Ok(Some(message)) => again(&message),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Decodes the bodies that nodes exchange. Those that are found are found again.
fn bodies(bytes: &[u8]) {
    if let Some(gossip) = Gossip::decode(bytes) {
        assert_eq!(Gossip::decode(&gossip.encode()).as_ref(), Some(&gossip));
    }
    let bytes = bytes.to_vec().into();
    if let Some(request) = ForwardedRequest::decode(&bytes) {
        let again = request.encode().and_then(|bytes| ForwardedRequest::decode(&bytes));
        assert_eq!(again.as_ref(), Some(&request));
    }
    if let Some(response) = ForwardedResponse::decode(&bytes) {
        assert_eq!(ForwardedResponse::decode(&response.encode()).as_ref(), Some(&response));
    }
}

/// Sends a message and receives it.
fn again(message: &PeerMessage) {
    let (mut outgoing, mut bytes, mut found) = (Outgoing::default(), Vec::new(), None);
    outgoing.push(message.clone());
    while outgoing.next(&mut bytes) {}
    let (mut bytes, mut assembler) = (&bytes[..], Assembler::new(1 << 30));
    while let Some((part, length)) = decode(bytes).expect("it was encoded") {
        found = assembler.take(part).expect("it fits");
        bytes = &bytes[length..];
    }
    assert_eq!(found.as_ref(), Some(message), "a message is found again");
}
