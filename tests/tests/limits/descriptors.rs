//! Clients take all descriptors that the limit of open files leaves to them, without logging in. The log still has those
//! that it needs.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::http::Http;
use leveret_tests::node::{Options, Ports, Process, binary, new_directory};
use leveret_tests::wire::{Confirmed, Wire, Writer, method, publish};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bodies of this size have files of their own.
const BODY_BYTES: usize = 300_000;
/// More bodies than the log may have files open, at any of the limits.
const BODIES: usize = 150;
/// Unconfirmed messages of the publisher.
const WINDOW: u64 = 5;

fn body(number: usize) -> Vec<u8> {
    let mut body = format!("{number}.").into_bytes();
    body.resize(BODY_BYTES, b'B');
    body
}

/// Lets this process open as many files as the system allows.
fn raise_own_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("is raised");
}

/// Opens more connections than a node with this limit may have, of all its protocols.
fn take_all(ports: &Ports, limit: usize) -> Vec<TcpStream> {
    let kinds = [ports.amqp, ports.stream, ports.http];
    let connect = |port: &u16| {
        let address = SocketAddr::from(([127, 0, 0, 1], *port));
        TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()
    };
    kinds.iter().cycle().take(limit + 100).filter_map(connect).collect()
}

#[track_caller]
fn check(limit: usize) {
    if is_given() {
        return;
    }
    raise_own_limit();
    let directory = new_directory();
    let options = Options::new().set("stream.listeners.tcp.default", 0).set("cores", 2);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
    command.arg(binary()).args(options.arguments(directory.path()));
    let mut process = Process::of(command);
    assert!(process.wait_for_line("Server startup complete"), "it doesn't start: {}", process.log());
    let ports = Ports::read(directory.path());

    let mut wire = Wire::open(SocketAddr::from(([127, 0, 0, 1], ports.amqp)));
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("a").put_octet(2).put_string_table(&[("x-queue-type", "quorum")]);
    wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
    wire.confirm_select(1);
    let idle = take_all(&ports, limit);
    assert!(idle.len() >= limit, "only {} connections", idle.len());

    let mut confirmed = Confirmed::default();
    for number in 0..BODIES {
        wire.send(&publish(1, "", "a", &body(number), true, true));
        while number as u64 + 1 - confirmed.count() > WINDOW {
            confirmed.wait(&mut wire);
        }
    }
    while confirmed.count() < BODIES as u64 {
        confirmed.wait(&mut wire);
    }
    wire.consume(1, "a", true);
    for number in 0..BODIES {
        let (_, _, received) = wire.delivery();
        assert!(received == body(number), "message {number}");
    }
    assert!(!process.log().contains("Too many open files"), "{}", process.log());
    drop((idle, wire));
    conservation::check(&Http::guest(format!("127.0.0.1:{}", ports.http)));
    process.ask_to_stop();
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn clients_that_hold_all_of_128_files_do_not_end_the_node() {
    check(128);
}

#[test]
fn clients_that_hold_all_of_256_files_do_not_end_the_node() {
    check(256);
}

#[test]
fn clients_that_hold_all_of_1024_files_do_not_end_the_node() {
    check(1024);
}
