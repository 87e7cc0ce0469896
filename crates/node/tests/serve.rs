//! A node in this process, seen through its sockets and its data directory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::asked::NowOrLater;
use leveret_broker::authenticate::{LoginOrigin, LoginOutcome};
use leveret_broker::{Authenticate, Settings};
use leveret_model::Topology;
use leveret_node::offline::{OfflineDirectory, verify};
use leveret_node::{
    AlarmLimits, DirectoryLock, FirstUser, Listener, LoopbackUsers, Node, NodeOptions, SocketOptions, listener_kind,
};
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;

const HEADER: &[u8] = b"AMQP\0\0\x09\x01";

struct Nobody;

impl Authenticate for Nobody {
    fn authenticate(&self, _: &Topology, _: &str, _: &[u8], _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(Err("nobody may".to_owned()))
    }

    fn recognise(&self, _: &Topology, _: &str, _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(Err("nobody may".to_owned()))
    }
}

fn options(cores: usize) -> NodeOptions {
    NodeOptions {
        vhost_defaults: Default::default(),
        cores: Some(cores),
        sync_delay: Duration::ZERO,
        clock_ahead_ms: 0,
        fits_log_to_volume: true,
        loopback_users: LoopbackUsers::default(),
        log: leveret_log::Options::default(),
        first_user: Some(FirstUser::default()),
        alarms: AlarmLimits::default(),
        sockets: SocketOptions::default(),
        own_exchanges: Vec::new(),
        broker: Settings::default(),
        protocols: vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol)],
        authenticate: Arc::new(Nobody),
        cluster: None,
        fatal: Arc::new(|text| panic!("{text}")),
    }
}

fn start(directory: &Path, cores: usize) -> (Node, SocketAddr) {
    let lock = DirectoryLock::acquire(directory).expect("is free");
    let (mut node, _) = Node::start(lock, options(cores)).expect("starts");
    let listener = Node::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let address = listener.local_addr().expect("is bound");
    node.accept(
        vec![Listener { kind: &listener_kind::AMQP, socket: listener, tls: None, proxy_protocol: false }],
        Vec::new(),
    )
    .expect("accepts");
    (node, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("is set");
    stream
}

/// Class and method of the next method frame.
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
fn an_unsupported_protocol_is_answered_with_ours_and_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, address) = start(directory.path(), 1);
    let mut connection = connect(address);
    // More than is read before the answer: a reset would make the answer unreadable.
    connection.write_all(b"EHLO localhost\r\n").expect("is sent");
    connection.write_all(&[b'x'; 100_000]).expect("is sent");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("an orderly end");
    // AMQP 1.0 with SASL, as RabbitMQ 4.3 answers.
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
fn a_stop_ends_connections_and_the_directory_starts_again() {
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

/// Unpacks the files of a data directory that a release without identities left.
fn unpack_fixture(directory: &Path) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/data-1/clean");
    let lengths = std::fs::read(fixture.join("lengths.json")).expect("is there");
    let lengths: std::collections::BTreeMap<String, usize> = serde_json::from_slice(&lengths).expect("JSON");
    std::fs::create_dir(directory.join("store")).expect("is made");
    for (name, length) in lengths {
        let mut content = std::fs::read(fixture.join("store").join(&name)).expect("is there");
        content.resize(length, 0);
        std::fs::write(directory.join("store").join(&name), content).expect("is written");
    }
}

fn identity_of(directory: &Path) -> Vec<u8> {
    std::fs::read(directory.join("store/identity")).expect("is there")
}

/// Starts and stops a node on the directory. Returns the cluster id that it showed.
fn start_and_stop(directory: &Path) -> String {
    let (node, _) = start(directory, 1);
    let topology = node.handle().broker().registry.snapshot().topology.clone();
    let shown = topology.global_parameter("internal_cluster_id").and_then(|id| id.as_str()).expect("is set").to_owned();
    node.stop("test");
    shown
}

/// A cluster id in the form that is shown.
fn shown(identity: &[u8]) -> String {
    let digits: String = identity[16..32].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("rabbitmq-cluster-id-{digits}")
}

#[test]
fn each_start_counts_and_keeps_the_identity_of_its_directory() {
    let (new, old) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    unpack_fixture(old.path());
    for (directory, keeps_0) in [(new.path(), false), (old.path(), true)] {
        let cluster = start_and_stop(directory);
        let first = identity_of(directory);
        assert_eq!(shown(&first), cluster);
        assert_eq!(start_and_stop(directory), cluster);
        let second = identity_of(directory);
        assert_eq!((first[32], second[32]), (1, 2), "starts are counted");
        // Each start has a nonce of its own, in bytes 42 to 46.
        assert_eq!([&first[..32], &first[33..42], &first[46..60]], [&second[..32], &second[33..42], &second[46..60]]);
        let log = if keeps_0 { &[0; 8][..] } else { &first[8..16] };
        assert_eq!(&first[48..56], log, "the node id in the log");
    }
}

#[test]
fn a_damaged_identity_refuses_the_start_and_a_copy_has_another() {
    let (new, old) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let copies = tempfile::tempdir().expect("a directory");
    unpack_fixture(old.path());
    for (name, directory) in [("new", new.path()), ("old", old.path())] {
        let cluster = start_and_stop(directory);
        let whole = identity_of(directory);
        let check = |copy: &Path| {
            let offline = OfflineDirectory::open(directory).expect("is one");
            verify(&offline, Some(copy)).expect("is checked and copied")
        };
        let sound = check(&copies.path().join(format!("{name}-sound")));
        assert!(sound.is_sound(), "{:?}", sound.verified);
        assert_eq!(identity_of(&copies.path().join(format!("{name}-sound"))), whole, "a copy keeps it");
        assert_eq!(start_and_stop(&copies.path().join(format!("{name}-sound"))), cluster);

        let file = directory.join("store/identity");
        std::fs::write(&file, &whole[..12]).expect("is written");
        let lock = DirectoryLock::acquire(directory).expect("is free");
        let Err(refused) = Node::start(lock, options(1)) else { panic!("it starts with half an identity") };
        let expected = format!("cannot use {}: it has 12 bytes, not 64; restore ", file.display());
        assert!(refused.to_string().starts_with(&expected), "{refused}");

        let copy = copies.path().join(name);
        let checked = check(&copy);
        let [damage] = &checked.verified.damaged[..] else { panic!("{:?}", checked.verified) };
        assert_eq!((&*damage.file, damage.range.clone()), ("identity", 0..12));
        assert_eq!(checked.copied, sound.copied, "no message is lost with it");
        assert_eq!(start_and_stop(&copy), cluster);
        let copied = identity_of(&copy);
        assert_ne!(copied[8..16], whole[8..16], "the node is another one");
        assert_eq!(copied[48..56], whole[48..56], "the log's files keep their id");
    }
}
