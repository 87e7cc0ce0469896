//! A node in this process, seen through its sockets and its data directory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::{Authenticate, Settings};
use leveret_model::Topology;
use leveret_node::{
    AlarmLimits, DirectoryLock, FirstUser, Listener, LoopbackUsers, Node, NodeOptions, Ports, SocketOptions,
};

const HEADER: &[u8] = b"AMQP\0\0\x09\x01";

struct Nobody;

impl Authenticate for Nobody {
    fn authenticate(&self, _: &Topology, _: &str, _: &[u8], _: bool) -> Result<String, String> {
        Err("nobody may".to_owned())
    }

    fn recognise(&self, _: &Topology, _: &str, _: bool) -> Result<String, String> {
        Err("nobody may".to_owned())
    }
}

fn options(cores: usize) -> NodeOptions {
    NodeOptions {
        vhost_defaults: Default::default(),
        cores: Some(cores),
        sync_delay: Duration::ZERO,
        fits_log_to_volume: true,
        loopback_users: LoopbackUsers::default(),
        log: leveret_log::Options::default(),
        first_user: Some(FirstUser::default()),
        alarms: AlarmLimits::default(),
        sockets: SocketOptions::default(),
        broker: Settings::default(),
        authenticate: Arc::new(Nobody),
        fatal: Arc::new(|text| panic!("{text}")),
    }
}

fn start(directory: &Path, cores: usize) -> (Node, SocketAddr) {
    let lock = DirectoryLock::acquire(directory).expect("is free");
    let (mut node, _) = Node::start(lock, options(cores)).expect("starts");
    let listener = Node::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let address = listener.local_addr().expect("is bound");
    node.accept(vec![Listener { socket: listener, tls: None }], Ports::default(), Vec::new()).expect("accepts");
    (node, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
    stream
}

/// Class and method of the method frame that comes next.
fn read_method(stream: &mut TcpStream) -> (u16, u16) {
    let mut head = [0; 7];
    stream.read_exact(&mut head).expect("a frame");
    assert_eq!(head[0], 1, "a method frame");
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let mut payload = vec![0; length as usize + 1];
    stream.read_exact(&mut payload).expect("its payload");
    (u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]]))
}

#[test]
fn every_core_serves_connections() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, address) = start(directory.path(), 3);
    let mut connections: Vec<_> = (0..9).map(|_| connect(address)).collect();
    for connection in &mut connections {
        connection.write_all(HEADER).expect("is sent");
        assert_eq!(read_method(connection), (10, 10), "connection.start");
    }
    assert_eq!(node.handle().connections_per_core(), [3, 3, 3]);
    drop(connections);
    node.stop("test");
}

#[test]
fn a_protocol_that_is_not_spoken_is_answered_with_ours_and_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, address) = start(directory.path(), 1);
    let mut connection = connect(address);
    // More than is read before the answer: a reset would take the answer away.
    connection.write_all(b"EHLO localhost\r\n").expect("is sent");
    connection.write_all(&[b'x'; 100_000]).expect("is sent");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("an orderly end");
    // AMQP 1.0 behind SASL, as RabbitMQ 4.3 answers.
    assert_eq!(answer, b"AMQP\x03\x01\0\0");
    node.stop("test");
}

#[test]
fn input_that_comes_byte_by_byte_is_understood() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, address) = start(directory.path(), 1);
    let mut connection = connect(address);
    connection.set_nodelay(true).expect("is set");
    for byte in HEADER {
        connection.write_all(&[*byte]).expect("is sent");
    }
    assert_eq!(read_method(&mut connection), (10, 10));
    node.stop("test");
}

#[test]
fn a_stop_ends_connections_and_leaves_a_directory_that_starts_again() {
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let (node, address) = start(directory.path(), 2);
        assert!(directory.path().join("ports.json").exists());
        let mut connection = connect(address);
        connection.write_all(HEADER).expect("is sent");
        assert_eq!(read_method(&mut connection), (10, 10));
        let stopped = std::thread::spawn(move || node.stop("test"));
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).expect("an orderly end");
        drop(connection);
        stopped.join().expect("stops");
        assert!(!directory.path().join("ports.json").exists());
        TcpStream::connect(address).expect_err("nobody listens");
    }
}

#[test]
fn a_second_node_on_the_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, _) = start(directory.path(), 1);
    let refused = DirectoryLock::acquire(directory.path()).expect_err("is held").to_string();
    assert!(refused.contains("is in use by process"), "{refused}");
    node.stop("test");
}
