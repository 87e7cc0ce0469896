//! Host names of addresses, from the system's file of hosts and its name servers.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use leveret_cluster::forming::{ReverseError, hosts_name, nameservers, reverse_answer, reverse_question};

use crate::random;

/// Number of attempts at each server.
const ATTEMPTS: usize = 2;
/// Longest answer without extensions of the protocol, and some more.
const ANSWER_BYTES_MAX: usize = 1500;

/// The files and the times of look-ups.
#[derive(Debug)]
pub(crate) struct Resolver {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    port: u16,
    /// Time for one attempt.
    patience: Duration,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            hosts: "/etc/hosts".into(),
            resolv_conf: "/etc/resolv.conf".into(),
            port: 53,
            patience: Duration::from_secs(1),
        }
    }
}

impl Resolver {
    /// The host name of an address; `None` if it has none, or no server answers.
    pub(crate) fn host(&self, address: IpAddr) -> Option<String> {
        let of_file = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        if let Some(name) = hosts_name(&of_file(&self.hosts), address) {
            return Some(name);
        }
        let mut servers = nameservers(&of_file(&self.resolv_conf));
        if servers.is_empty() {
            servers.push(Ipv4Addr::LOCALHOST.into());
        }
        for server in servers.iter().flat_map(|server| [server; ATTEMPTS]) {
            if let Ok(answer) = self.ask(*server, address) {
                return answer;
            }
        }
        None
    }

    fn ask(&self, server: IpAddr, address: IpAddr) -> io::Result<Option<String>> {
        let mut id = [0; 2];
        random::fill(&mut id)?;
        let question = reverse_question(u16::from_be_bytes(id), address);
        let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(SocketAddr::new(server, self.port))?;
        socket.send(&question)?;
        let deadline = Instant::now() + self.patience;
        let mut bytes = [0; ANSWER_BYTES_MAX];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            let length = socket.recv(&mut bytes)?;
            match reverse_answer(&question, &bytes[..length]) {
                // One of another question, or a late one: the right one may follow.
                Err(ReverseError::Foreign) => {}
                Err(error) => return Err(io::Error::other(error)),
                Ok(name) => return Ok(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A resolver whose name server is this socket.
    fn resolver(directory: &tempfile::TempDir, port: u16, hosts: &str) -> Resolver {
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("is written");
            path
        };
        Resolver {
            hosts: file("hosts", hosts),
            resolv_conf: file("resolv.conf", "nameserver 127.0.0.1\n"),
            port,
            patience: Duration::from_millis(300),
        }
    }

    #[test]
    fn a_name_server_is_asked_after_the_file_of_hosts() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let directory = tempfile::tempdir().expect("a directory");
        let resolver = resolver(&directory, server.local_addr().expect("an address").port(), "10.0.0.1 from-file\n");
        let answering = thread::spawn(move || {
            let mut bytes = [0; 512];
            let (length, client) = server.recv_from(&mut bytes).expect("a question");
            let mut answer = bytes[..length].to_vec();
            answer[2] |= 0x80;
            answer[7] = 1;
            answer.extend([0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 0, 0, 6]);
            answer.extend(b"\x04mq-7\x00");
            // One that has another id comes first.
            let mut foreign = answer.clone();
            foreign[0] ^= 1;
            server.send_to(&foreign, client).expect("is sent");
            server.send_to(&answer, client).expect("is sent");
        });
        let find = |address: &str| resolver.host(address.parse().expect("an address"));
        assert_eq!(find("10.0.0.1").as_deref(), Some("from-file"));
        assert_eq!(find("10.0.0.2").as_deref(), Some("mq-7"));
        answering.join().expect("no panic");
        // No answer comes any more.
        assert_eq!(find("10.0.0.2"), None);
    }
}
