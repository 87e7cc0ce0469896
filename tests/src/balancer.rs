//! A balancer of TCP connections, and three nodes of one cluster behind it: each connection goes to the next node in turn.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cluster;
use crate::http::Http;
use crate::node::{Node, Options};

/// Number of nodes behind the balancer.
const NODES: usize = 3;

/// A listener whose connections go to several targets in turn.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Balancer {
    /// Listens at a free port.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start(targets: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let ended = Arc::new(AtomicBool::new(false));
        let (is_over, next) = (Arc::clone(&ended), AtomicUsize::new(0));
        thread::spawn(move || {
            for accepted in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // As a balancer with health checks: a node that is down is passed over.
                let first = next.fetch_add(1, Ordering::Relaxed);
                let in_turn = (0..targets.len()).map(|at| targets[(first + at) % targets.len()]);
                if let Some(forward) = in_turn.filter_map(|target| TcpStream::connect(target).ok()).next() {
                    let _ = join(&accepted, &forward);
                }
            }
        });
        Self { address, ended }
    }

    /// The address that clients use.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Carries bytes both ways. The end of one way ends that way only, as TCP has it.
fn join(accepted: &TcpStream, forward: &TcpStream) -> io::Result<()> {
    for (from, to) in [(accepted, forward), (forward, accepted)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        let _ = to.set_nodelay(true);
        thread::spawn(move || {
            if io::copy(&mut from, &mut to).is_ok() {
                let _ = to.shutdown(Shutdown::Write);
            } else {
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            }
        });
    }
    Ok(())
}

/// Three nodes behind a balancer for each protocol.
#[derive(Debug)]
pub struct Balanced {
    amqp: Balancer,
    http: Balancer,
    transfers: Option<Transfers>,
    nodes: Vec<Node>,
}

impl Balanced {
    /// Starts three nodes with these options, which spread the queues among themselves. With `transfers`, quorum queues get another
    /// leader each second.
    pub fn start(options: &Options, transfers: bool) -> Self {
        let (_, members) = cluster::options(NODES);
        let with = |member: Options| member.with_all(options).set("queue_leader_locator", "balanced");
        let nodes = cluster::start(members.into_iter().map(with).collect());
        cluster::wait_until_formed(&nodes);
        let before = |address: fn(&Node) -> SocketAddr| Balancer::start(nodes.iter().map(address).collect());
        let amqp = before(Node::amqp);
        let http = before(|node| SocketAddr::from(([127, 0, 0, 1], node.ports().http)));
        let transfers = transfers.then(|| Transfers::start(&nodes));
        Self { amqp, http, transfers, nodes }
    }

    /// The AMQP address of the balancer.
    pub fn amqp(&self) -> SocketAddr {
        self.amqp.address()
    }

    /// The HTTP API behind the balancer.
    pub fn http(&self) -> Http {
        Http::guest(self.http.address().to_string())
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Ends the transfers. Returns their number.
    pub fn end_transfers(&mut self) -> Option<usize> {
        self.transfers.take().map(Transfers::end)
    }
}

/// A thread that gives each placement another leader, once a second.
#[derive(Debug)]
struct Transfers {
    end: mpsc::Sender<()>,
    thread: JoinHandle<usize>,
}

impl Transfers {
    fn start(nodes: &[Node]) -> Self {
        let (end, ended) = mpsc::channel();
        let (http, directory) = (nodes[0].http(), nodes[0].directory().to_owned());
        let thread = thread::spawn(move || {
            let mut count = 0;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let queues = http.get("/api/queues").map(|answer| answer.json()).unwrap_or_default();
                let replicated = queues.as_array().into_iter().flatten().filter(|queue| queue["type"] == "quorum");
                // Of each leader one queue: the others of its placement go with it.
                let mut moved = Vec::new();
                for queue in replicated {
                    let (Some(name), Some(leader)) = (queue["name"].as_str(), queue["leader"].as_str()) else {
                        continue;
                    };
                    let members: Vec<_> =
                        queue["members"].as_array().into_iter().flatten().flat_map(|one| one.as_str()).collect();
                    let Some(at) = members.iter().position(|member| *member == leader) else { continue };
                    let to = members[(at + 1) % members.len()];
                    let vhost = queue["vhost"].as_str().unwrap_or("/");
                    if to == leader || moved.contains(&leader) {
                        continue;
                    }
                    moved.push(leader);
                    let words = ["transfer_leadership", "--vhost", vhost, "--", name, to];
                    // The queue may be gone by now.
                    count += usize::from(cluster::tool(&directory, "queues", &words).0 == 0);
                }
            }
            count
        });
        Self { end, thread }
    }

    fn end(self) -> usize {
        let _ = self.end.send(());
        self.thread.join().expect("the transfers")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn connections_go_to_the_targets_in_turn() {
        let targets: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let addresses = targets.iter().map(|target| target.local_addr().expect("an address")).collect();
        let balancer = Balancer::start(addresses);
        for at in [0, 1, 2, 0] {
            let mut client = TcpStream::connect(balancer.address()).expect("a connection");
            let (mut accepted, _) = targets[at].accept().expect("a connection");
            client.write_all(b"question").and_then(|()| client.shutdown(Shutdown::Write)).expect("sent");
            let mut text = String::new();
            accepted.read_to_string(&mut text).expect("the end of one way");
            accepted.write_all(b"answer").expect("the other way is open");
            drop(accepted);
            client.read_to_string(&mut text).expect("its end");
            assert_eq!(text, "questionanswer");
        }
    }
}
