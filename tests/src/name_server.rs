//! A name server for the nodes of one test: it answers on port 53 of a loopback address of its own, with the names that it was given.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use crate::node::new_directory;
use crate::not_run::not_run;

/// Types of records: addresses of both kinds, and names of addresses.
const A: u16 = 1;
const AAAA: u16 = 28;
const PTR: u16 = 12;
/// The only class.
const IN: u16 = 1;
const HEAD_BYTES: usize = 12;
/// Interval at which it looks whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

/// The names that a server knows. Names are in lower case, without a dot at their ends.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    addresses: BTreeMap<String, Vec<IpAddr>>,
    names: BTreeMap<String, String>,
}

impl Zone {
    /// Adds an address of a name.
    #[must_use]
    pub fn with_address(mut self, name: &str, address: IpAddr) -> Self {
        self.addresses.entry(name.to_owned()).or_default().push(address);
        self
    }

    /// Adds the name of an address.
    #[must_use]
    pub fn with_name(mut self, address: IpAddr, name: &str) -> Self {
        self.names.insert(reverse(address), name.to_owned());
        self
    }

    /// Type and data of the records of a name; `None` if there is no such name.
    fn records(&self, name: &str, kind: u16) -> Option<Vec<Vec<u8>>> {
        if let Some(host) = self.names.get(name) {
            return Some(if kind == PTR { vec![encoded(host)] } else { Vec::new() });
        }
        let of_kind = |address: &IpAddr| match (address, kind) {
            (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
            (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
            _ => None,
        };
        Some(self.addresses.get(name)?.iter().filter_map(of_kind).collect())
    }
}

/// The name under which the name of an address is asked for.
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    }
}

/// A name in the form of the protocol (RFC 1035, 3.1).
fn encoded(name: &str) -> Vec<u8> {
    let label = |label: &str| [&[label.len() as u8], label.as_bytes()].concat();
    [name.split('.').flat_map(label).collect(), vec![0]].concat()
}

/// Name, type and end of the only question of a message.
fn question(message: &[u8]) -> Option<(String, u16, usize)> {
    let (mut labels, mut at) = (Vec::new(), HEAD_BYTES);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1 + length;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(message.get(at - length..at)?).to_lowercase());
    }
    let kind = message.get(at..at + 4)?;
    let is_single = message[4..6] == [0, 1] && u16::from_be_bytes([kind[2], kind[3]]) == IN;
    is_single.then(|| (labels.join("."), u16::from_be_bytes([kind[0], kind[1]]), at + 4))
}

/// The answer to a message; `None` if it is no question.
fn answer(zone: &Zone, message: &[u8]) -> Option<(String, u16, Vec<u8>)> {
    let (name, kind, end) = question(message)?;
    let records = zone.records(&name, kind);
    let mut bytes = message[..end].to_vec();
    // An answer of the server that is responsible, which passes questions on: code 3 says that there is no such name.
    bytes[2] = 0x84 | message[2] & 1;
    bytes[3] = 0x80 | if records.is_some() { 0 } else { 3 };
    let records = records.unwrap_or_default();
    bytes[6..HEAD_BYTES].copy_from_slice(&[0, records.len() as u8, 0, 0, 0, 0]);
    for record in records {
        // The name of the question, for which its place stands. Nobody keeps an answer.
        bytes.extend([0xc0, HEAD_BYTES as u8]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, IN as u8, 0, 0, 0, 0, 0, record.len() as u8]);
        bytes.extend(record);
    }
    Some((name, kind, bytes))
}

/// A running server.
#[derive(Debug)]
pub struct NameServer {
    asked: Arc<Mutex<Vec<(String, u16)>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    files: TempDir,
}

impl NameServer {
    /// Starts one on an address of loopback. Returns `None` if the port, or a file system of a process's own, isn't to be had (it takes
    /// root); the test then says so and does nothing.
    ///
    /// # Panics
    /// If its files can't be written.
    pub fn start(address: &str, zone: Zone) -> Option<NameServer> {
        let may_mount = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
        if !may_mount {
            not_run("no process may have files of its own (unshare --mount)");
            return None;
        }
        let socket = match UdpSocket::bind((address, 53)) {
            Ok(socket) => socket,
            Err(error) => {
                not_run(&format!("port 53 of {address} can't be had: {error}"));
                return None;
            }
        };
        let files = new_directory();
        let texts = [
            ("resolv.conf", format!("nameserver {address}\n")),
            ("hosts", "127.0.0.1 localhost\n".to_owned()),
            ("nsswitch.conf", "hosts: files dns\n".to_owned()),
        ];
        texts.iter().for_each(|(name, text)| std::fs::write(files.path().join(name), text).expect("is written"));
        let (asked, ends) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (asked, ends) = (Arc::clone(&asked), Arc::clone(&ends));
            move || {
                socket.set_read_timeout(Some(LOOK)).expect("a timeout");
                let mut message = [0; 512];
                while !ends.load(Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut message) else { continue };
                    let answered = answer(&zone, &message[..length]);
                    if let Some((name, kind, bytes)) = answered {
                        asked.lock().expect("no panic").push((name, kind));
                        // The asker may be gone.
                        let _ = socket.send_to(&bytes, from);
                    }
                }
            }
        });
        Some(NameServer { asked, ends, thread: Some(thread), files })
    }

    /// The system's files by which a process asks this server, each with the path in whose place it is.
    pub fn files(&self) -> Vec<(PathBuf, PathBuf)> {
        let system = ["resolv.conf", "hosts", "nsswitch.conf"].map(|name| (name, PathBuf::from("/etc").join(name)));
        let there = system.into_iter().filter(|(_, path)| path.exists());
        there.map(|(name, path)| (self.files.path().join(name), path)).collect()
    }

    /// Whether the name of an address was asked for.
    pub fn was_asked_for_name_of(&self, address: IpAddr) -> bool {
        self.asked.lock().expect("no panic").contains(&(reverse(address), PTR))
    }

    /// Whether the addresses of a name were asked for, those of both kinds.
    pub fn was_asked_for_addresses_of(&self, name: &str) -> bool {
        let asked = self.asked.lock().expect("no panic");
        [A, AAAA].into_iter().all(|kind| asked.iter().any(|one| *one == (name.to_owned(), kind)))
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
