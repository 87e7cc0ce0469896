//! Malformed bytes of every kind end at most their own connection: never the node or another connection.

use std::io::Write as _;
use std::net::SocketAddr;

use leveret_tests::broker::Broker;
use leveret_tests::node::Options;
use leveret_tests::random::Random;
use leveret_tests::wire::{
    BODY, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER, Wire, Writer, declare_arguments, frame, method, method_frame,
    publish,
};

/// Another connection, which must not be affected.
struct Canary(Wire);

impl Canary {
    fn new(address: SocketAddr) -> Self {
        Self(Wire::open(address))
    }

    fn sings(&mut self, after: &str) {
        let answer = self.0.call(1, method::QUEUE_DECLARE, &exclusive(""), method::QUEUE_DECLARE_OK);
        assert_eq!(answer.channel, 1, "after {after}");
    }
}

fn exclusive(name: &str) -> Writer {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(name).put_octet(0b100).put_empty_table();
    arguments
}

fn payload(words: &[u16], rest: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    for word in words {
        writer.put_short(*word);
    }
    writer.put(rest);
    writer.bytes().to_vec()
}

/// Bytes sent to a connection with channel 1 open, and whether the broker must close that connection.
fn after_open() -> Vec<(&'static str, Vec<u8>, bool)> {
    let header = |class: u16, size: u64| {
        let mut writer = Writer::new();
        writer.put_short(class).put_short(0).put_long_long(size).put_short(0);
        writer.bytes().to_vec()
    };
    let mut start_publish = Writer::new();
    start_publish.put_short(0).put_short_string("").put_short_string("x").put_octet(0);
    let start_publish = method_frame(1, method::BASIC_PUBLISH, &start_publish);
    let with = |head: &[u8], tail: Vec<u8>| [head, &tail].concat();
    let mut no_end = method_frame(1, method::QUEUE_DECLARE, &exclusive("cell.malformed.q"));
    *no_end.last_mut().expect("an end mark") = 0;
    let table = |bytes: &[u8]| {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string("cell.malformed.t").put_octet(0b100).put_long_string(bytes);
        method_frame(1, method::QUEUE_DECLARE, &arguments)
    };
    let mut deep = Vec::new();
    for _ in 0..2000 {
        deep.extend([1, b'a', b'A', 0, 0, 0, 0]);
    }
    let mut nested = vec![];
    for _ in 0..1000 {
        let inner = nested;
        nested = vec![1, b'a', b'F'];
        nested.extend(u32::try_from(inner.len()).expect("small").to_be_bytes());
        nested.extend(inner);
    }
    let mut lying_array = vec![1, b'a', b'A'];
    lying_array.extend(u32::MAX.to_be_bytes());
    let mut lying_string = vec![1, b'a', b'S'];
    lying_string.extend(u32::MAX.to_be_bytes());
    vec![
        ("a frame without its end mark", no_end, true),
        ("an unknown frame type", frame(7, 1, b""), true),
        ("a frame of 4 GiB", [&[METHOD, 0, 1][..], &u32::MAX.to_be_bytes()].concat(), true),
        ("a frame above frame-max", [&[METHOD, 0, 1][..], &200_000_u32.to_be_bytes()].concat(), true),
        ("an empty method", frame(METHOD, 1, b""), true),
        ("half a method id", frame(METHOD, 1, &[0, 50, 0]), true),
        ("an unknown class", frame(METHOD, 1, &payload(&[77, 1], &[])), true),
        ("an unknown method", frame(METHOD, 1, &payload(&[50, 99], &[])), true),
        (
            "a method that only a broker sends",
            frame(METHOD, 1, &payload(&[50, 11], &[1, b'a', 0, 0, 0, 0, 0, 0, 0, 0])),
            true,
        ),
        ("arguments that end early", frame(METHOD, 1, &payload(&[50, 10], &[0, 0, 255, b'a'])), true),
        ("a connection method on a channel", frame(METHOD, 1, &payload(&[10, 40], &[1, b'/', 0, 0])), true),
        ("a channel method on channel 0", frame(METHOD, 0, &payload(&[50, 10], &[0; 8])), true),
        ("a channel opened twice", frame(METHOD, 1, &payload(&[20, 10], &[0])), true),
        ("a method on a channel that isn't open", frame(METHOD, 9, &payload(&[60, 70], &[0, 0, 1, b'q', 0])), true),
        ("start-ok once more", frame(METHOD, 0, &payload(&[10, 11], &[0; 12])), true),
        ("a header without a method", frame(HEADER, 1, &header(60, 0)), true),
        ("a body without a header", frame(BODY, 1, b"abc"), true),
        (
            "a method instead of a header",
            with(&start_publish, frame(METHOD, 1, &payload(&[60, 70], &[0, 0, 1, b'q', 0]))),
            true,
        ),
        ("a header of another class", with(&start_publish, frame(HEADER, 1, &header(50, 0))), true),
        ("a header of 3 bytes", with(&start_publish, frame(HEADER, 1, &[0, 60, 0])), true),
        (
            "properties that end early",
            with(&start_publish, frame(HEADER, 1, &payload(&[60, 0, 0, 0, 0, 0, 0x8000], &[200, b'a']))),
            true,
        ),
        (
            "more body than announced",
            with(&start_publish, [frame(HEADER, 1, &header(60, 2)), frame(BODY, 1, b"abc")].concat()),
            true,
        ),
        ("a body of 2^64-1 bytes", with(&start_publish, frame(HEADER, 1, &header(60, u64::MAX))), false),
        ("a heartbeat on channel 1", frame(HEARTBEAT, 1, b""), true),
        ("a heartbeat with a payload", frame(HEARTBEAT, 0, b"x"), true),
        ("a table value of an unknown type", table(&[1, b'a', 1, 1]), true),
        ("a table that ends in a key", table(&[200, b'a']), true),
        ("an array that claims 4 GiB", table(&lying_array), true),
        ("a string that claims 4 GiB", table(&lying_string), true),
        ("two thousand keys", table(&deep), false),
        ("a table a thousand deep", table(&nested), false),
        (
            "a name that isn't UTF-8",
            {
                let mut arguments = Writer::new();
                arguments.put_short(0).put(&[2, 0xff, 0xfe]).put_octet(0b100).put_empty_table();
                method_frame(1, method::QUEUE_DECLARE, &arguments)
            },
            false,
        ),
        ("the protocol header once more", PROTOCOL_HEADER.to_vec(), true),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), true),
    ]
}

#[test]
fn malformed_bytes_after_open_end_only_their_own_connection() {
    let broker = Broker::start();
    let mut canary = Canary::new(broker.amqp());
    for (what, bytes, fatal) in after_open() {
        let mut wire = Wire::open(broker.amqp());
        let _ = wire.socket.write_all(&bytes);
        if fatal {
            let reason = wire.until_closed();
            println!("{what}: {reason:?}");
        }
        canary.sings(what);
    }
    drop(canary);
    broker.finish("cell.malformed.");
}

#[test]
fn bytes_at_random_end_only_their_own_connection() {
    let broker = Broker::start();
    let mut canary = Canary::new(broker.amqp());
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for round in 0..300 {
        let mut wire = Wire::open(broker.amqp());
        let mut bytes = method_frame(1, method::QUEUE_DECLARE, &exclusive("cell.malformed.random"));
        bytes.extend(publish(1, "", "cell.malformed.random", &[b'x'; 300], true, true));
        bytes.extend(method_frame(1, method::QUEUE_DECLARE, &declare_arguments("cell.malformed.durable", true)));
        for _ in 0..=random.below(4) {
            match random.below(3) {
                0 => {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next().to_le_bytes()[0];
                }
                1 => bytes.truncate(random.below(bytes.len()).max(1)),
                _ => {
                    let at = random.below(bytes.len());
                    bytes.insert(at, random.next().to_le_bytes()[0]);
                }
            }
        }
        let _ = wire.socket.write_all(&bytes);
        // Every byte is processed before the end.
        let _ = wire.socket.shutdown(std::net::Shutdown::Write);
        let _ = wire.until_closed();
        if round % 20 == 0 {
            canary.sings("a round of random bytes");
        }
    }
    canary.sings("random bytes");
    drop(canary);
    broker.finish("cell.malformed.");
}

#[test]
fn malformed_bytes_before_login_end_only_their_connection() {
    let broker = Broker::start();
    let mut canary = Canary::new(broker.amqp());
    let start_ok = |mechanism: &str, response: &[u8]| {
        let mut arguments = Writer::new();
        arguments.put_empty_table().put_short_string(mechanism).put_long_string(response).put_short_string("en_US");
        method_frame(0, (10, 11), &arguments)
    };
    let with_header = |bytes: Vec<u8>| [PROTOCOL_HEADER.as_slice(), &bytes].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("another protocol version", b"AMQP\x00\x09\x00\x01".to_vec()),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("eight zeroes", vec![0; 8]),
        ("a method before start-ok", with_header(frame(METHOD, 0, &payload(&[10, 40], &[1, b'/', 0, 0])))),
        ("a channel before login", with_header(frame(METHOD, 1, &payload(&[20, 10], &[0])))),
        ("an unknown mechanism", with_header(start_ok("NONSENSE", b""))),
        ("a PLAIN response without zeroes", with_header(start_ok("PLAIN", b"guest"))),
        ("a wrong password", with_header(start_ok("PLAIN", b"\0guest\0wrong"))),
        ("an AMQPLAIN response that is no table", with_header(start_ok("AMQPLAIN", &[255; 9]))),
        ("a start-ok of 60 KiB", with_header(start_ok("PLAIN", &vec![b'x'; 60 * 1024]))),
        ("a frame that claims 1 GiB", with_header([&[METHOD, 0, 0][..], &(1_u32 << 30).to_be_bytes()].concat())),
    ];
    for (what, bytes) in cases {
        let mut wire = Wire::connect(broker.amqp());
        let _ = wire.socket.write_all(&bytes);
        // It may respond with its header or with connection.close; it closes in any case.
        if bytes.starts_with(PROTOCOL_HEADER) {
            println!("{what}: {:?}", wire.until_closed());
        } else {
            closes(&mut wire, what);
        }
        canary.sings(what);
    }
    drop(canary);
    broker.finish("cell.malformed.");
}

#[test]
fn a_silent_socket_is_closed() {
    let broker = Broker::start();
    let mut silent = Wire::connect(broker.amqp());
    let mut half = Wire::connect(broker.amqp());
    half.send(&PROTOCOL_HEADER[..3]);
    let mut stuck = Wire::connect(broker.amqp());
    stuck.send(PROTOCOL_HEADER);
    for (what, wire) in [("silence", &mut silent), ("half a header", &mut half), ("no start-ok", &mut stuck)] {
        closes(wire, what);
    }
    broker.finish("cell.malformed.");
}

/// Half a start-ok on each of many sockets: before login each may use at most 16 KiB of the node's memory.
#[test]
fn many_halves_of_a_login_hold_little() {
    const SOCKETS: u64 = 400;
    const EACH_MAX: u64 = 16 * 1024;
    /// Additional memory of the sockets' tasks and the allocator.
    const BESIDES: u64 = 8 * 1024 * 1024;
    let mut broker = Broker::start();
    let address = broker.amqp();
    let Some(node) = broker.node() else { return };
    // The first connection allocates memory shared by all later ones.
    drop(Wire::open(address));
    let before = node.resident_bytes();
    let half = [PROTOCOL_HEADER.as_slice(), &[METHOD, 0, 0], &16_000_u32.to_be_bytes(), &[b'x'; 15_000]].concat();
    let mut sockets: Vec<Wire> = (0..SOCKETS).map(|_| Wire::connect(address)).collect();
    for socket in &mut sockets {
        let _ = socket.socket.write_all(&half);
    }
    for socket in &mut sockets {
        // connection.start shows that the node has read from this socket.
        let start = socket.next_frame().expect("connection.start");
        assert_eq!(start.method(), Some((10, 10)));
    }
    let grown = node.resident_bytes().saturating_sub(before);
    println!("{SOCKETS} sockets before login hold {grown} bytes");
    assert!(grown <= SOCKETS * EACH_MAX + BESIDES, "{SOCKETS} sockets before login hold {grown} bytes");
    drop(sockets);
    broker.finish("cell.malformed.");
}

/// An incomplete body on each of many channels.
#[test]
fn unfinished_messages_are_bounded() {
    if leveret_tests::broker::is_given() {
        return;
    }
    let options =
        Options::new().set("max_message_size", 1 << 20).set("partial_message_bytes_max_per_connection", 4 << 20);
    let broker = Broker::start_with(options);
    let mut canary = Canary::new(broker.amqp());
    let mut wire = Wire::open(broker.amqp());
    let mut start = Writer::new();
    start.put_short(0).put_short_string("").put_short_string("cell.malformed.part").put_octet(0);
    let mut header = Writer::new();
    header.put_short(60).put_short(0).put_long_long(1 << 20).put_short(0);
    let part = vec![b'x'; 100_000];
    for channel in 2..20 {
        wire.open_channel(channel);
    }
    for channel in 2..20 {
        let mut bytes = method_frame(channel, method::BASIC_PUBLISH, &start);
        bytes.extend(frame(HEADER, channel, header.bytes()));
        (0..5).for_each(|_| bytes.extend(frame(BODY, channel, &part)));
        let _ = wire.socket.write_all(&bytes);
    }
    let (code, text) = wire.until_closed().expect("the broker says why");
    assert_eq!(code, 506, "{text}");
    assert!(text.starts_with("RESOURCE_ERROR - unfinished messages of this connection would hold 42000"), "{text}");
    canary.sings("unfinished messages");
    drop(canary);
    broker.finish("cell.malformed.");
}

/// Requests whose replies are never read: the node stops reading them.
#[test]
fn requests_whose_replies_are_never_read_are_not_accepted() {
    const MOST: usize = 64 << 20;
    let mut broker = Broker::start();
    let mut canary = Canary::new(broker.amqp());
    let mut wire = Wire::open(broker.amqp());
    wire.call(1, method::QUEUE_DECLARE, &exclusive("cell.malformed.deaf"), method::QUEUE_DECLARE_OK);
    let mut get = Writer::new();
    get.put_short(0).put_short_string("cell.malformed.deaf").put_octet(1);
    let questions = method_frame(1, method::BASIC_GET, &get).repeat(1000);
    let Some(node) = broker.node() else { return };
    let before = node.resident_bytes();
    // A socket that stays full for this long isn't being read.
    wire.socket.set_write_timeout(Some(std::time::Duration::from_millis(500))).expect("a write timeout");
    let (mut taken, mut at) = (0, 0);
    while taken < MOST
        && let Ok(count) = wire.socket.write(&questions[at..])
    {
        (taken, at) = (taken + count, (at + count) % questions.len());
    }
    assert!(taken < MOST, "the node reads on although nobody reads what it answers");
    canary.sings("questions");
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes more");
    drop((canary, wire));
    broker.finish("cell.malformed.");
}

/// Reads until the socket is closed.
fn closes(wire: &mut Wire, what: &str) {
    use std::io::{ErrorKind, Read as _};
    let mut buffer = [0; 4096];
    loop {
        match wire.socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("{what}: the broker didn't close the connection")
            }
            Err(_) => return,
        }
    }
}
