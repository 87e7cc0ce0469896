//! Frames between a client and RabbitMQ 4.3.6: one of each command, version and code.
//!
//! Each line of recorded.txt is a direction (`>` to the server), the frame in hexadecimal digits and its name.
//! `tests/golden/stream-protocol.py` records them.

mod support;

use std::collections::BTreeSet;

use leveret_stream_protocol::client::ServerCommand;
use leveret_stream_protocol::{Frame, Request, key, next_frame};

/// A line of the recording.
struct Recorded {
    to_server: bool,
    bytes: Vec<u8>,
    name: &'static str,
}

impl Recorded {
    fn frame(&self) -> Frame<'_> {
        let (frame, used) = next_frame(&self.bytes, 0).unwrap().unwrap();
        assert_eq!(used, self.bytes.len(), "{}", self.name);
        frame
    }
}

fn recorded() -> Vec<Recorded> {
    let line = |line: &'static str| {
        let mut parts = line.splitn(3, ' ');
        let (direction, digits, name) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        Recorded { to_server: direction == ">", bytes: (0..digits.len()).step_by(2).map(byte).collect(), name }
    };
    include_str!("recorded.txt").lines().map(line).collect()
}

#[test]
fn recorded_requests_are_read_and_written_byte_for_byte() {
    for recorded in recorded().iter().filter(|recorded| recorded.to_server) {
        let request = Request::decode(&recorded.frame()).unwrap_or_else(|error| panic!("{}: {error}", recorded.name));
        let mut out = Vec::new();
        request.encode(&mut out).unwrap();
        assert_eq!(out, recorded.bytes, "{}: {request:?}", recorded.name);
    }
}

#[test]
fn recorded_answers_are_read_and_written_byte_for_byte() {
    for recorded in recorded().iter().filter(|recorded| !recorded.to_server) {
        let answer =
            ServerCommand::decode(&recorded.frame()).unwrap_or_else(|error| panic!("{}: {error}", recorded.name));
        let mut out = Vec::new();
        support::encode(&mut out, &answer);
        assert_eq!(out, recorded.bytes, "{}: {answer:?}", recorded.name);
    }
}

#[test]
fn every_command_of_4_3_is_recorded() {
    let recorded = recorded();
    let keys: BTreeSet<u16> = recorded.iter().map(|recorded| recorded.frame().key).collect();
    assert!(keys.into_iter().eq(1..=31));
}

#[test]
fn the_versions_are_those_that_rabbitmq_names() {
    let recorded = recorded();
    let versions = recorded.iter().filter(|recorded| !recorded.to_server).find_map(|recorded| {
        match ServerCommand::decode(&recorded.frame()) {
            Ok(ServerCommand::CommandVersions { versions, .. }) => Some(versions.iter().collect::<Vec<_>>()),
            _ => None,
        }
    });
    let mut versions = versions.expect("an answer with versions");
    versions.sort_unstable();
    assert_eq!(versions, key::VERSIONS);
}
