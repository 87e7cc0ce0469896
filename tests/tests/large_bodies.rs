//! Large durable messages are transferred in pieces: with little memory, interleaved with others on the same
//! connection, and without leaving files when their transfer is interrupted.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp10::performative::Transfer;
use leveret_tests::amqp10::{Amqp10 as Peer, CHANNEL};
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Reader, Wire, Writer, frame, method, method_frame, publish};
use leveret_tests::{PATIENCE, conservation};

const MIB: usize = 1 << 20;
/// Frames of contents (specification 2.3.5).
const HEADER_FRAME: u8 = 2;
const BODY_FRAME: u8 = 3;

fn byte(number: usize, at: usize) -> u8 {
    (at % 251) as u8 ^ number as u8
}

fn body(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(number, at)).collect()
}

/// Method and header of a publish; a body of `length` bytes has to follow.
fn begin_publish(channel: u16, queue: &str, length: usize, mode: u8) -> Vec<u8> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("").put_short_string(queue).put_octet(0);
    let mut bytes = method_frame(channel, method::BASIC_PUBLISH, &arguments);
    let mut header = Writer::new();
    header.put_short(60).put_short(0).put_long_long(length as u64).put_short(1 << 12).put_octet(mode);
    bytes.extend(frame(HEADER_FRAME, channel, header.bytes()));
    bytes
}

/// Publishes a body that is never complete in the memory of the test either.
fn publish_in_frames(wire: &mut Wire, queue: &str, number: usize, length: usize) {
    wire.send(&begin_publish(1, queue, length, 2));
    let mut at = 0;
    while at < length {
        let end = length.min(at + 100_000);
        let piece: Vec<u8> = (at..end).map(|at| byte(number, at)).collect();
        wire.send(&frame(BODY_FRAME, 1, &piece));
        at = end;
    }
}

/// Reads a delivery and compares it on the fly. Returns its tag.
fn compare_delivery(wire: &mut Wire, number: usize, length: usize) -> u64 {
    let deliver = wire.next_method(method::BASIC_DELIVER).unwrap_or_else(|frame| panic!("a delivery: {frame:?}"));
    let mut arguments = deliver.arguments();
    let _ = arguments.short_string();
    let tag = arguments.long_long();
    let header = wire.next_frame().expect("a header");
    let mut reader = Reader::new(&header.payload);
    let (_, _, size) = (reader.short(), reader.short(), reader.long_long());
    assert_eq!((header.kind, size), (HEADER_FRAME, length as u64));
    let mut at = 0;
    while at < length {
        let piece = wire.next_frame().expect("a body");
        assert_eq!((piece.kind, piece.channel), (BODY_FRAME, 1));
        assert!(piece.payload.iter().enumerate().all(|(i, found)| *found == byte(number, at + i)), "near byte {at}");
        at += piece.payload.len();
    }
    assert_eq!(at, length);
    tag
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else if name.starts_with("body-") {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

fn wait_for_files(node: &Node, wanted: usize) {
    let deadline = Instant::now() + PATIENCE;
    while files(node.directory()).len() != wanted {
        assert!(Instant::now() < deadline, "{wanted} expected: {:?}", files(node.directory()));
        thread::yield_now();
    }
}

/// Lets `connections` publish and then receive one message of this length each, concurrently. Returns the node's peak
/// memory for it.
fn pass(connections: usize, length: usize) -> u64 {
    let node = Node::start(Options::new().set("max_message_size", 536_870_912));
    let mut wire = Wire::open(node.amqp());
    for number in 0..connections {
        wire.declare(1, &format!("large-{number}"), true);
    }
    wire.close();
    let (before, address) = (node.resident_bytes_max(), node.amqp());
    thread::scope(|scope| {
        for number in 0..connections {
            scope.spawn(move || {
                let queue = format!("large-{number}");
                let mut wire = Wire::open(address);
                wire.confirm_select(1);
                publish_in_frames(&mut wire, &queue, number, length);
                wire.confirms(1);
                wire.close();
                let mut wire = Wire::open(address);
                wire.consume(1, &queue, false);
                let tag = compare_delivery(&mut wire, number, length);
                wire.ack(1, tag, false);
                wire.close();
            });
        }
    });
    wait_for_files(&node, 0);
    conservation::check(&node.http());
    node.resident_bytes_max() - before
}

#[test]
fn large_messages_pass_through_little_memory() {
    if is_given() {
        return;
    }
    // A few MiB for each, and the allocator's overhead.
    let grown = pass(3, 64 * MIB);
    assert!(grown < 96 * MIB as u64, "3 messages of 64 MiB at a time took {grown} bytes");
}

#[test]
#[ignore = "half a gigabyte: make soak"]
fn the_largest_message_passes_through_little_memory() {
    let grown = pass(1, 512 * MIB);
    assert!(grown < 32 * MIB as u64, "a message of 512 MiB took {grown} bytes");
}

#[test]
fn large_messages_pass_between_the_protocols_in_little_memory() {
    if is_given() {
        return;
    }
    const LENGTH: usize = 40 * MIB;
    let node = Node::start(Options::new().set("max_message_size", 536_870_912));
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    publish_in_frames(&mut wire, "large", 1, LENGTH);
    wire.confirms(1);
    let mut peer = Peer::open(node.amqp());
    peer.receiver(0, "/queues/large", 1);
    let before = node.resident_bytes_max();
    let received = peer.receive(0);
    assert!(received.data() == body(1, LENGTH), "the body differs");
    peer.accept(&received);
    peer.sender(1, "/queues/large");
    peer.publish_accepted(1, &received.data());
    drop(received);
    wire.consume(1, "large", true);
    compare_delivery(&mut wire, 1, LENGTH);
    wait_for_files(&node, 0);
    let grown = node.resident_bytes_max() - before;
    assert!(grown < 32 * MIB as u64, "{grown} bytes were needed");
    wire.close();
    peer.close();
    conservation::check(&node.http());
}

#[test]
fn an_upload_that_is_cut_off_leaves_no_file() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    // The connection is cut.
    wire.send(&begin_publish(1, "large", 4 * MIB, 2));
    (0..20).for_each(|_| wire.send(&frame(BODY_FRAME, 1, &[7; 100_000])));
    wait_for_files(&node, 1);
    drop(wire);
    wait_for_files(&node, 0);
    // The client violates the protocol in the middle of it.
    let mut wire = Wire::open(node.amqp());
    wire.send(&begin_publish(1, "large", 4 * MIB, 2));
    (0..20).for_each(|_| wire.send(&frame(BODY_FRAME, 1, &[7; 100_000])));
    wait_for_files(&node, 1);
    wire.send(&frame(HEADER_FRAME, 1, &[0; 14]));
    assert_eq!(wire.until_closed().map(|(code, _)| code), Some(505));
    wait_for_files(&node, 0);
    // A transfer is aborted; the link continues.
    let mut peer = Peer::open(node.amqp());
    peer.sender(0, "/queues/large");
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, &body(1, 2 * MIB));
    peer.wait_credit(CHANNEL, 0);
    let id = peer.client.next_delivery_id(CHANNEL);
    let first = Transfer {
        delivery_id: Some(id.0),
        delivery_tag: Some(b"large"),
        message_format: Some(0),
        more: true,
        ..Transfer::default()
    };
    let later = Transfer { more: true, ..Transfer::default() };
    for (at, piece) in payload[..MIB + MIB / 2].chunks(60_000).enumerate() {
        peer.client.transfer(CHANNEL, if at == 0 { &first } else { &later }, piece);
    }
    peer.flush();
    wait_for_files(&node, 1);
    peer.client.transfer(CHANNEL, &Transfer { aborted: true, ..Transfer::default() }, b"");
    peer.flush();
    wait_for_files(&node, 0);
    peer.publish_accepted(0, &body(2, MIB));
    wait_for_files(&node, 1);
    peer.close();
    conservation::check(&node.http());
}

#[test]
fn a_kill_during_an_upload_leaves_no_file_after_the_start() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    wire.send(&publish(1, "", "large", &body(1, MIB), true, true));
    wire.confirms(1);
    wire.send(&begin_publish(1, "large", 8 * MIB, 2));
    (0..40).for_each(|_| wire.send(&frame(BODY_FRAME, 1, &[7; 100_000])));
    wait_for_files(&node, 2);
    node.kill();
    drop(wire);
    node.restart();
    wait_for_files(&node, 1);
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "large", false);
    compare_delivery(&mut wire, 1, MIB);
    wire.close();
    conservation::check(&node.http());
}

#[test]
fn small_messages_are_interleaved_with_a_large_one() {
    if is_given() {
        return;
    }
    const LENGTH: usize = 16 * MIB;
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.open_channel(2);
    wire.declare(1, "large", true);
    wire.declare(2, "small", true);
    wire.confirm_select(2);
    // While publishing.
    wire.send(&begin_publish(1, "large", LENGTH, 2));
    let large = body(1, LENGTH);
    for (at, piece) in large.chunks(131_064).enumerate() {
        wire.send(&frame(BODY_FRAME, 1, piece));
        if at % 32 == 0 {
            wire.send(&publish(2, "", "small", b"small", true, true));
            let ack = wire.next_method(method::BASIC_ACK).expect("a confirm while the large one comes");
            assert_eq!(ack.channel, 2);
        }
    }
    // While delivering.
    wire.consume(1, "large", true);
    let deliver = wire.next_method(method::BASIC_DELIVER).expect("the large one");
    assert_eq!(deliver.channel, 1);
    wire.next_frame().expect("its header");
    let mut consume = Writer::new();
    consume.put_short(0).put_short_string("small").put_short_string("").put_octet(2).put_empty_table();
    wire.send(&method_frame(2, method::BASIC_CONSUME, &consume));
    let mut received = Vec::new();
    let mut beside = 0;
    while received.len() < LENGTH {
        let frame = wire.next_frame().expect("a frame");
        match frame.channel {
            1 => {
                assert_eq!(frame.kind, BODY_FRAME, "only its body comes on the channel of the large one");
                received.extend(frame.payload);
            }
            _ => beside += u32::from(frame.method() == Some(method::BASIC_DELIVER)),
        }
    }
    assert!(received == large, "the body differs");
    assert_eq!(beside, (LENGTH / 131_064 / 32 + 1) as u32, "small ones pass in between");
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn frames_for_the_channel_of_a_large_message_follow_it() {
    if is_given() {
        return;
    }
    const LENGTH: usize = 8 * MIB;
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    publish_in_frames(&mut wire, "large", 1, LENGTH);
    wire.confirms(1);
    let mut get = Writer::new();
    get.put_short(0).put_short_string("large").put_octet(0);
    wire.send(&method_frame(1, method::BASIC_GET, &get));
    wire.send(&publish(1, "", "large", b"next", true, true));
    let got = wire.next_method(method::BASIC_GET_OK).expect("the large one");
    assert_eq!(got.channel, 1);
    assert!(wire.content().expect("its body") == body(1, LENGTH));
    assert!(wire.next_method(method::BASIC_ACK).is_ok(), "the confirm");
    // Errors of the connection are reported at once, those of the channel after the content.
    publish_in_frames(&mut wire, "large", 2, LENGTH);
    let mut consume = Writer::new();
    consume.put_short(0).put_short_string("large").put_short_string("").put_octet(0).put_empty_table();
    wire.send(&method_frame(1, method::BASIC_CONSUME, &consume));
    let mut wrong = Writer::new();
    wrong.put_long_long(99).put_octet(0);
    // The large one is confirmed when its file is synced, and delivered after that.
    let mut is_confirmed = false;
    let mut answer = |wire: &mut Wire, wanted| {
        while let Err(other) = wire.next_method(wanted) {
            assert_eq!(other.method(), Some(method::BASIC_ACK), "{other:?}");
            assert!(!std::mem::replace(&mut is_confirmed, true), "it is confirmed once");
        }
        is_confirmed
    };
    answer(&mut wire, method::BASIC_CONSUME_OK);
    answer(&mut wire, method::BASIC_DELIVER);
    assert_eq!(wire.content().expect("its body"), b"next");
    assert!(answer(&mut wire, method::BASIC_DELIVER), "the large one was delivered before it was confirmed");
    wire.send(&method_frame(1, method::BASIC_ACK, &wrong));
    assert!(wire.content().expect("its body") == body(2, LENGTH));
    let close = wire.next_frame().expect("a close");
    assert_eq!(close.reason().map(|(code, _)| code), Some(406), "{close:?}");
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn a_damaged_piece_stops_the_queue_and_ends_its_transfer() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let queues = ["first", "middle", "amqp10"];
    queues.iter().for_each(|queue| drop(wire.declare(1, queue, true)));
    wire.confirm_select(1);
    for queue in queues {
        publish_in_frames(&mut wire, queue, 1, 4 * MIB);
    }
    wire.confirms(3);
    wire.close();
    node.kill();
    let mut damaged = files(node.directory());
    damaged.sort_unstable();
    for (file, at) in damaged.iter().zip([512 + 100, 512 + 3 * MIB, 512 + 3 * MIB]) {
        let mut bytes = fs::read(file).expect("a body file");
        bytes[at] ^= 1;
        fs::write(file, bytes).expect("it is changed");
    }
    node.restart();
    let name = |at: usize| damaged[at].rsplit('/').next().expect("a name").to_owned();
    // No part of it was sent: the channel is closed, the connection continues.
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "first", false);
    let close = loop {
        let frame = wire.next_frame().expect("a close");
        if let Some((code, text)) = frame.reason() {
            break (frame.channel, code, text);
        }
    };
    assert!(close.0 == 1 && close.1 == 404 && close.2.contains("queue 'first'"), "{close:?}");
    // A part of it was sent: that can only be ended by closing the connection.
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "middle", false);
    let (code, text) = wire.until_closed().expect("a reason");
    assert!(code == 541 && text.contains("queue 'middle'") && text.contains(&name(1)), "{code} {text}");
    let mut peer = Peer::open(node.amqp());
    peer.receiver(0, "/queues/amqp10", 1);
    let error = format!("{:?}", peer.error());
    assert!(error.contains("queue 'amqp10'") && error.contains(&name(2)), "{error}");
    for queue in queues {
        let json = node.http().get(&format!("/api/queues/%2F/{queue}")).expect("the queue").json();
        assert_eq!(json["state"], "crashed", "{json}");
    }
}
