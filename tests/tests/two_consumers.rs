//! Consumers that share a queue: a stalled one doesn't delay the other and uses little memory, and equal ones get
//! equal shares.

use std::fs;
use std::net::SocketAddr;
use std::thread;

use leveret_tests::broker::{Broker, is_given};
use leveret_tests::wire::{Wire, method, publish};

const BODY: usize = 4000;
const MIB: usize = 1024 * 1024;

/// Memory of the kernel for a stalled socket (send and receive buffer) and of the node.
const STALLED_MAX: usize = 16 * MIB;

/// Bodies start with their number.
fn body(number: u32) -> Vec<u8> {
    let mut body = vec![b'.'; BODY];
    body[..4].copy_from_slice(&number.to_be_bytes());
    body
}

fn number(body: &[u8]) -> u32 {
    u32::from_be_bytes(body[..4].try_into().expect("a numbered body"))
}

fn publish_numbers(address: SocketAddr, queue: &str, count: u32) {
    let mut publisher = Wire::open(address);
    publisher.confirm_select(1);
    for first in (0..count).step_by(100) {
        let end = (first + 100).min(count);
        let bytes: Vec<u8> = (first..end).flat_map(|n| publish(1, "", queue, &body(n), false, false)).collect();
        publisher.send(&bytes);
    }
    publisher.confirms(u64::from(count));
}

#[test]
fn the_idle_one_gets_what_the_stalled_one_cannot_take() {
    const COUNT: u32 = 20_000;
    const QUEUE: &str = "cell.stalled.acked";
    if is_given() {
        // RabbitMQ sends a stalled consumer without a prefetch as much as there is.
        return;
    }
    let broker = Broker::start();
    let mut stalled = Wire::open(broker.amqp());
    stalled.declare(1, QUEUE, true);
    stalled.consume(1, QUEUE, false);
    let mut idle = Wire::open(broker.amqp());
    idle.consume(1, QUEUE, false);
    let address = broker.amqp();
    let publisher = thread::spawn(move || publish_numbers(address, QUEUE, COUNT));

    let mut seen = vec![false; COUNT as usize];
    let mut take = |wire: &mut Wire, count: usize| {
        for _ in 0..count {
            let (tag, _, body) = wire.delivery();
            let number = number(&body) as usize;
            assert_eq!(body.len(), BODY);
            assert!(!seen[number], "message {number} twice");
            seen[number] = true;
            wire.ack(1, tag, false);
        }
        seen.iter().filter(|seen| **seen).count()
    };
    let least = COUNT as usize - STALLED_MAX / BODY;
    assert_eq!(take(&mut idle, least), least);
    publisher.join().expect("the publisher");
    // The unacknowledged messages of the stalled one go to the idle one as soon as the stalled one disconnects.
    drop(stalled);
    assert_eq!(take(&mut idle, COUNT as usize - least), COUNT as usize);
    idle.declare(1, QUEUE, true);
    drop(idle);
    broker.finish("cell.stalled.");
}

#[test]
fn a_stalled_one_without_acks_holds_under_a_megabyte() {
    const COUNT: u32 = 20_000;
    const QUEUE: &str = "cell.stalled.unacked";
    const MARKER: u32 = u32::MAX;
    let broker = Broker::start();
    let mut stalled = Wire::open(broker.amqp());
    stalled.declare(1, QUEUE, true);
    stalled.consume(1, QUEUE, true);
    let mut idle = Wire::open(broker.amqp());
    idle.consume(1, QUEUE, true);
    let address = broker.amqp();
    let publisher = thread::spawn(move || publish_numbers(address, QUEUE, COUNT));

    // The idle one has received all of its share when it gets the marker that was published last. The stalled one may
    // have room for a few markers itself.
    let mut received = 0;
    let mut marked = false;
    let mut publisher = Some(publisher);
    while !marked {
        if received >= COUNT as usize - STALLED_MAX / BODY
            && let Some(publisher) = publisher.take()
        {
            publisher.join().expect("the publisher");
            let mut marks = Wire::open(address);
            marks.confirm_select(1);
            for _ in 0..8 {
                marks.send(&publish(1, "", QUEUE, &body(MARKER), false, false));
            }
            marks.confirms(8);
        }
        let (_, _, body) = idle.delivery();
        if number(&body) == MARKER {
            marked = true;
        } else {
            received += 1;
        }
    }
    let taken = (COUNT as usize - received) * BODY;
    let in_kernel = kernel_buffers(broker.amqp().port(), stalled.socket.local_addr().expect("an address").port());
    println!("the stalled consumer was given {taken} bytes, {in_kernel} of them are in socket buffers");
    assert!(taken < in_kernel + MIB, "the node holds {} bytes for a consumer that doesn't read", taken - in_kernel);
    drop((stalled, idle));
    broker.finish("cell.stalled.");
}

/// Bytes in the kernel between the broker's socket and the client's, at both ends, from /proc/net/tcp.
fn kernel_buffers(broker_port: u16, client_port: u16) -> usize {
    let mut bytes = 0;
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap_or(""), 16).ok();
            let queue = |half: usize| {
                let half = fields[4].split(':').nth(half).unwrap_or("0");
                usize::from_str_radix(half, 16).unwrap_or(0)
            };
            match (port(fields[1]), port(fields[2])) {
                (Some(local), Some(remote)) if local == broker_port && remote == client_port => bytes += queue(0),
                (Some(local), Some(remote)) if local == client_port && remote == broker_port => bytes += queue(1),
                _ => {}
            }
        }
    }
    bytes
}

#[test]
fn equal_consumers_get_equal_shares() {
    const COUNT: u32 = 20_000;
    const QUEUE: &str = "cell.equal.parts";
    let broker = Broker::start();
    let address = broker.amqp();
    let mut control = Wire::open(address);
    control.declare(1, QUEUE, true);
    let consumers: Vec<_> = (0..2)
        .map(|_| {
            let mut wire = Wire::open(address);
            // No prefetch: only the broker decides, not the scheduling of both threads.
            wire.consume(1, QUEUE, false);
            thread::spawn(move || {
                let mut count = 0_u32;
                loop {
                    let (tag, _, body) = wire.delivery();
                    if body == b"end" {
                        wire.ack(1, tag, true);
                        // Anything else in flight to this one, such as the other end, goes to the other one.
                        wire.close();
                        return count;
                    }
                    count += 1;
                    if count.is_multiple_of(10) {
                        wire.ack(1, tag, true);
                    }
                }
            })
        })
        .collect();
    publish_numbers(address, QUEUE, COUNT);
    // One end marker for each.
    control.confirm_select(1);
    control.send(&publish(1, "", QUEUE, b"end", false, false));
    control.send(&publish(1, "", QUEUE, b"end", false, false));
    control.confirms(2);
    let counts: Vec<u32> = consumers.into_iter().map(|consumer| consumer.join().expect("a consumer")).collect();
    assert_eq!(counts.iter().sum::<u32>(), COUNT);
    for count in &counts {
        assert!((COUNT * 2 / 5..=COUNT * 3 / 5).contains(count), "{counts:?} isn't equal enough");
    }
    control.call(1, method::BASIC_GET, &get_arguments(QUEUE), method::BASIC_GET_EMPTY);
    drop(control);
    broker.finish("cell.equal.");
}

fn get_arguments(queue: &str) -> leveret_tests::wire::Writer {
    let mut arguments = leveret_tests::wire::Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(1);
    arguments
}
