//! A proxy in front of a node's listener for other nodes, which can stop what goes one way between two nodes, and delay it.
//!
//! Nothing is lost: bytes wait while the way is cut, as a network's retransmissions have it. A new connection is made once both ways are
//! open. The dialling node is found by its socket, as all have the same source address on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// A way from a node to another one, by their numbers.
type Way = (usize, usize);

/// The faults of the links between the nodes of a test. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LinkFaults(Arc<Faults>);

#[derive(Debug, Default)]
struct Faults {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cut: BTreeSet<Way>,
    delays: BTreeMap<Way, Duration>,
}

impl LinkFaults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no thread has panicked")
    }

    /// Lets nothing pass from a node to another one.
    pub fn cut(&self, from: usize, to: usize) {
        self.state().cut.insert((from, to));
    }

    /// Cuts a node off from others, both ways.
    pub fn isolate(&self, node: usize, others: impl IntoIterator<Item = usize>) {
        for other in others.into_iter().filter(|other| *other != node) {
            self.cut(node, other);
            self.cut(other, node);
        }
    }

    /// Delays each piece of what passes from a node to another one.
    pub fn delay(&self, from: usize, to: usize, by: Duration) {
        self.state().delays.insert((from, to), by);
    }

    /// Mends all links.
    pub fn heal(&self) {
        *self.state() = State::default();
        self.0.changed.notify_all();
    }

    /// Waits until all of these ways are open. Returns the delay of the first one.
    fn wait_until_open(&self, ways: &[Way]) -> Duration {
        let is_cut = |state: &mut State| ways.iter().any(|way| state.cut.contains(way));
        let state = self.0.changed.wait_while(self.state(), is_cut).expect("no thread has panicked");
        ways.first().and_then(|way| state.delays.get(way)).copied().unwrap_or_default()
    }

    /// Begins to accept connections to a node at `own`, for its listener at `target`. The names of all nodes, in the order of their numbers,
    /// say which one dials. Ends with the process.
    ///
    /// # Panics
    /// If the address is taken.
    pub fn guard(&self, node: usize, own: &str, target: &str, names: &[String]) {
        let listener = TcpListener::bind(own).unwrap_or_else(|error| panic!("{own}: {error}"));
        let (faults, target, names) = (self.clone(), target.to_owned(), names.to_vec());
        thread::spawn(move || {
            for accepted in listener.incoming().map_while(Result::ok) {
                let (faults, target, names) = (faults.clone(), target.clone(), names.clone());
                thread::spawn(move || {
                    let Some(dialler) = dialler_of(&accepted, &names) else { return };
                    faults.wait_until_open(&[(dialler, node), (node, dialler)]);
                    if let Ok(forward) = TcpStream::connect(&*target) {
                        faults.join(accepted, forward, (dialler, node));
                    }
                });
            }
        });
    }

    /// Carries bytes both ways until one side ends.
    fn join(&self, dialled: TcpStream, forward: TcpStream, (from, to): Way) {
        let both = || Ok::<_, io::Error>((dialled.try_clone()?, forward.try_clone()?));
        let Ok((back_to, back_from)) = both() else { return };
        let faults = self.clone();
        thread::spawn(move || faults.carry(back_from, back_to, (to, from)));
        self.carry(dialled, forward, (from, to));
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, way: Way) {
        let _ = to.set_nodelay(true);
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let delay = self.wait_until_open(&[way]);
            thread::sleep(delay);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        // An end is no better than other bytes.
        self.wait_until_open(&[way]);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}

/// The number of the node that has the other end of a connection, by the name in its environment.
fn dialler_of(accepted: &TcpStream, names: &[String]) -> Option<usize> {
    let inode = inode_of(accepted.peer_addr().ok()?, accepted.local_addr().ok()?)?;
    let socket = format!("socket:[{inode}]");
    let has_it = |process: &fs::DirEntry| {
        let open = fs::read_dir(process.path().join("fd")).ok();
        open.into_iter().flatten().flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| *to == *socket))
    };
    let process = fs::read_dir("/proc").ok()?.flatten().find(has_it)?;
    let environment = fs::read(process.path().join("environ")).ok()?;
    let name = environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(b"RABBITMQ_NODENAME="))?;
    names.iter().position(|known| known.as_bytes() == name)
}

/// The inode of the socket with these addresses.
fn inode_of(own: SocketAddr, peer: SocketAddr) -> Option<String> {
    let hex = |address: SocketAddr| match address {
        SocketAddr::V4(address) => {
            Some(format!("{:08X}:{:04X}", u32::from(*address.ip()).swap_bytes(), address.port()))
        }
        SocketAddr::V6(_) => None,
    };
    let (own, peer) = (hex(own)?, hex(peer)?);
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = row.filter(|row| row.len() > 9 && row[1] == own && row[2] == peer);
    rows.next().map(|row| row[9].to_owned())
}
