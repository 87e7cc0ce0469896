//! Measures operations that happen once per message, in nanoseconds: `cargo run --release -p leveret-amqp10 --example
//! speed`.

use leveret_amqp10::message::{Header, Sections, write_data};
use leveret_amqp10::performative::{Disposition, Flow, Transfer};
use leveret_amqp10::{DeliveryState, Performative, Role, decode_frame, encode_performative, encode_transfer};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 5_000_000;

fn main() {
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, b"Hello world!");
    let tag = [0, 1, 2, 3];
    let transfer = Transfer {
        handle: 0,
        delivery_id: Some(1_000_000),
        delivery_tag: Some(&tag),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    };
    let disposition = Disposition {
        role: Role::Receiver,
        first: 1_000_000,
        last: Some(1_000_100),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    };
    let flow = Flow {
        next_incoming_id: Some(1_000_000),
        incoming_window: 65_535,
        next_outgoing_id: 1,
        outgoing_window: 65_535,
        handle: Some(0),
        delivery_count: Some(1_000_000),
        link_credit: Some(200),
        ..Flow::default()
    };

    let mut out = Vec::with_capacity(1024);
    measure("encode transfer", || {
        out.clear();
        encode_transfer(&mut out, 0, black_box(&transfer), black_box(&payload));
    });
    let bytes = out.clone();
    measure("decode transfer", || {
        let (frame, _) = decode_frame(black_box(&bytes), 65_536).unwrap().unwrap();
        let (Performative::Transfer(transfer), payload) = Performative::decode(frame.body).unwrap() else {
            unreachable!("a transfer was written")
        };
        black_box((transfer.delivery_id, transfer.handle, payload));
    });
    measure("find sections", || {
        black_box(Sections::parse(black_box(&payload)).unwrap().bare);
    });
    for (name, performative) in [("disposition", Performative::from(disposition)), ("flow", flow.into())] {
        let mut out = Vec::with_capacity(1024);
        measure(&format!("encode {name}"), || {
            out.clear();
            encode_performative(&mut out, 0, black_box(&performative));
        });
        let bytes = out.clone();
        measure(&format!("decode {name}"), || {
            let (frame, _) = decode_frame(black_box(&bytes), 65_536).unwrap().unwrap();
            black_box(Performative::decode(frame.body).unwrap());
        });
    }
}

fn measure(name: &str, mut work: impl FnMut()) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        work();
    }
    println!("{name}: {:.1} ns", start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
}
