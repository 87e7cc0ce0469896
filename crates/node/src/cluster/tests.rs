//! Tests of the entry log's threads, and of placements over three nodes of one process.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{any, io};

use bytes::Bytes;
use leveret_cluster::metadata::replica_of;
use leveret_cluster::{Applied, Machine, Placement, PlacementState, Proposed, ReplicaId, Settings};
use leveret_log::{Disk, Entry, EntryKind, EntryOptions, FoundEntry, MemoryDisk, PlacementId, Vote};
use leveret_model::MemberNumber;
use leveret_peer::{Cookie, Hello, LinkKind, Versions};

use super::host::{NodeHost, RAFT, Replicas};
use super::links::{Answering, Links, LinksSetup, Peer, Service};
use super::log_driver::LogDriver;
use super::runtime::NodeRuntime;
use super::thread::{ClusterThread, spawn};
use super::tls::ClusterTls;
use crate::clock::Clock;
use crate::data_link::DataSeats;
use crate::disk::{Fatal, FsDisk};

const PLACEMENT: PlacementId = PlacementId(3);

fn small() -> EntryOptions {
    EntryOptions { file_bytes: 1 << 20, cached_bytes: 4096, disk_reserve: Some(0), ..EntryOptions::default() }
}

fn no_end() -> Fatal {
    Arc::new(|text: &str| panic!("the node ends: {text}"))
}

/// Runs this in a thread of the cluster, and waits for what it returns.
fn in_cluster<T: Send + 'static, F: Future<Output = T> + 'static>(
    fatal: &Fatal,
    work: impl FnOnce() -> F + Send + 'static,
) -> T {
    let (done, result) = mpsc::channel();
    let main = move || {
        let work = work();
        async move { done.send(work.await).expect("the test waits") }
    };
    let _thread = ClusterThread::start(fatal, main).expect("a thread");
    result.recv_timeout(Duration::from_secs(30)).expect("it ends")
}

async fn durable(driver: &LogDriver, position: u64) {
    driver.wake();
    while driver.log().with(|log| log.durable()) < position {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn entry(index: u64, term: u64) -> Entry {
    let (kind, placement, body) = (EntryKind::Commands, PLACEMENT, Bytes::from(vec![index as u8; 900]));
    Entry { kind, placement, index, term, led_by: 1, clock: 7, committed: 0, body }
}

#[test]
fn the_entry_log_has_everything_again_after_a_stop() {
    let directory = tempfile::tempdir().expect("one");
    let open = |directory: &Path, fatal: &Fatal| {
        let disk = Arc::new(FsDisk::open(directory).expect("a directory"));
        LogDriver::open(disk, &small(), &Clock::start(), fatal).expect("it opens")
    };
    let path = directory.path().to_owned();
    in_cluster(&no_end(), move || async move {
        let (driver, report) = open(&path, &no_end());
        assert_eq!(report.replayed, 0);
        let now = driver.clock().monotonic();
        let vote = Vote { term: 2, replica: 1, is_leader: true };
        driver.log().with(|log| log.save_vote(PLACEMENT, vote, now)).expect("it is the first one");
        let entries = (0..200).map(|index| entry(index, 2)).collect();
        let position = driver.log().with(|log| log.append(PLACEMENT, entries, now)).expect("they follow");
        durable(&driver, position).await;
        assert!(driver.syncs().count.load(Ordering::Relaxed) > 0 && driver.syncs().last.load(Ordering::Relaxed) > 0);
        let some = driver.log().with(|log| log.read(PLACEMENT, 0..1)).expect("it is there");
        driver.close().await;
        let FoundEntry::OnDisk(read) = some[0].clone() else { panic!("it isn't in memory") };
        assert_eq!(driver.read(vec![read]).await, Err("the node stops".into()));
    });
    let files: Vec<_> = std::fs::read_dir(directory.path()).expect("it is there").flatten().collect();
    assert!(files.iter().all(|file| file.file_name().to_string_lossy().starts_with("raft-")), "{files:?}");
    let path = directory.path().to_owned();
    in_cluster(&no_end(), move || async move {
        let (driver, report) = open(&path, &no_end());
        assert!(report.clean && report.replayed > 200, "{report:?}");
        let (vote, bounds) = driver.log().with(|log| (log.vote(PLACEMENT), log.bounds(PLACEMENT)));
        assert_eq!((vote.map(|vote| vote.term), bounds.end), (Some(2), 200));
        let found = driver.log().with(|log| log.read(PLACEMENT, 0..200)).expect("all are there");
        let on_disk = found.into_iter().filter_map(|found| match found {
            FoundEntry::OnDisk(read) => Some(read),
            FoundEntry::Here(_) => None,
        });
        let reads: Vec<_> = on_disk.collect();
        assert!(reads.len() > 150, "few are in memory: {}", reads.len());
        let count = reads.len() as u64;
        assert_eq!(driver.read(reads).await, Ok((0..count).map(|index| entry(index, 2)).collect()));
    });
}

/// A disk whose syncs fail from some time on.
#[derive(Default)]
struct Failing {
    disk: MemoryDisk,
    fails: AtomicBool,
}

impl Disk for Failing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        self.disk.create(name, length)
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.disk.write_at(name, offset, slices)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the disk is broken")),
            false => self.disk.sync(name),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(name, offset, buffer)
    }

    fn lend(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Arc<dyn any::Any + Send + Sync>>> {
        self.disk.lend(name, offset, length)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
}

#[test]
fn a_failed_sync_of_the_entry_log_ends_the_node() {
    let (told, texts) = mpsc::channel();
    let fatal: Fatal = Arc::new(move |text: &str| told.send(text.to_owned()).expect("the test listens"));
    let ends = fatal.clone();
    in_cluster(&fatal, move || async move {
        let disk = Arc::new(Failing::default());
        let (driver, _) = LogDriver::open(disk.clone(), &small(), &Clock::start(), &ends).expect("it opens");
        disk.fails.store(true, Ordering::Relaxed);
        let now = driver.clock().monotonic();
        driver.log().with(|log| log.append(PLACEMENT, vec![entry(0, 0)], now)).expect("it is the first one");
        driver.wake();
        let text = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if let Ok(text) = texts.try_recv() {
                    return text;
                }
            }
        });
        let text = text.await.expect("the node ends");
        assert!(text.contains("the disk is broken"), "{text}");
    });
}

/// The number of commands that were applied.
#[derive(Default)]
struct Count {
    state: PlacementState,
    commands: u64,
}

impl Machine for Count {
    fn state(&self) -> PlacementState {
        self.state.clone()
    }

    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied {
        self.commands += u64::from(commands.is_some());
        self.state = state;
        Applied(Bytes::copy_from_slice(&self.commands.to_le_bytes()))
    }

    fn save(&self) -> Option<(PlacementState, Bytes)> {
        Some((self.state.clone(), Bytes::copy_from_slice(&self.commands.to_le_bytes())))
    }

    fn restore(&mut self, state: PlacementState, saved: Bytes) -> Result<(), String> {
        let commands = saved[..].try_into().map(u64::from_le_bytes).map_err(|_| "it isn't a count")?;
        *self = Count { state, commands };
        Ok(())
    }
}

type Replica = Placement<NodeRuntime, NodeHost, Count>;

/// A node with one replica.
struct Shell {
    member: u16,
    links: OnceCell<Links>,
    replicas: Replicas,
    replica: OnceCell<Replica>,
}

impl Service for Shell {
    fn data_seats(&self) -> Option<Arc<dyn DataSeats>> {
        None
    }

    fn hello(&self, link: LinkKind) -> Hello {
        Hello {
            versions: Versions::OWN,
            release: "0.1.0".into(),
            node_name: format!("rabbit@{}", self.member),
            node_id: self.member.into(),
            cluster_id: None,
            member: Some(self.member),
            boot: 1,
            start_nonce: std::process::id(),
            started_at_ms: 1,
            members: 3,
            is_blank: false,
            link,
            addresses: Vec::new(),
            challenge: [0; 32],
        }
    }

    fn admit(&self, _: &Hello) -> Result<(), String> {
        Ok(())
    }

    fn request(self: Rc<Self>, _: Rc<Hello>, _: LinkKind, kind: u8, body: Bytes) -> Answering {
        assert_eq!(kind, RAFT);
        Box::pin(async move { self.replicas.answer(body).await })
    }

    fn notice(&self, _: &Hello, _: u8, _: Bytes) {}
    fn link_up(&self, _: &Hello) {}
    fn link_down(&self, _: &Hello, _: &str) {}

    fn gone(&self, _: u16) {}
}

thread_local! {
    static SHELL: OnceCell<Rc<Shell>> = const { OnceCell::new() };
}

/// The shell of this thread.
fn shell() -> Rc<Shell> {
    SHELL.with(|shell| shell.get().expect("it was started").clone())
}

async fn begin(member: u16, ports: [u16; 3], directory: std::path::PathBuf, started: mpsc::Sender<()>) {
    let disk = Arc::new(FsDisk::open(&directory).expect("a directory"));
    let (driver, _) = LogDriver::open(disk, &small(), &Clock::start(), &no_end()).expect("it opens");
    let replicas = Replicas::new(driver.clone());
    let service = Rc::new(Shell { member, links: OnceCell::new(), replicas, replica: OnceCell::new() });
    let address = |of: u16| SocketAddr::from(([127, 0, 0, 1], ports[usize::from(of) - 1]));
    let setup = LinksSetup {
        listeners: vec![crate::cores::listen(address(member)).expect("a port")],
        cookie: Cookie::new(b"cookie"),
        tls: Some(ClusterTls::own().expect("a certificate")),
        counters: Arc::default(),
    };
    let links = Links::start(setup, service.clone()).expect("it starts");
    let others = (1..=3).filter(|other| *other != member);
    links.set_peers(others.map(|other| peer(other, address(other))).collect());
    assert!(service.links.set(links.clone()).is_ok());
    let host = NodeHost::new(driver.clone(), links, |placement, text| panic!("{placement}: {text}"));
    let identity = (PLACEMENT, replica_of(MemberNumber(member)));
    let log = driver.log().clone();
    let replica = Placement::start(&Settings::default(), identity, log, host, Count::default()).await;
    let replica = replica.expect("it starts");
    let answering = replica.clone();
    service.replicas.insert(identity, move |frame| {
        let replica = answering.clone();
        async move { replica.answer(&frame).await }
    });
    // It has members if it was started before.
    let _ = replica.initialize(&BTreeSet::from([1, 2, 3].map(|member| replica_of(MemberNumber(member))))).await;
    assert!(service.replica.set(replica).is_ok());
    SHELL.with(|shell| assert!(shell.set(service).is_ok()));
    started.send(()).expect("the test waits");
}

fn peer(member: u16, address: SocketAddr) -> Peer {
    Peer { member, node_name: format!("rabbit@{member}"), addresses: vec![address.to_string()] }
}

fn start(member: u16, ports: [u16; 3], directory: &Path) -> ClusterThread {
    let (started, is_started) = mpsc::channel();
    let directory = directory.join(member.to_string());
    let main = move || begin(member, ports, directory, started);
    let thread = ClusterThread::start(&no_end(), main).expect("a thread");
    is_started.recv_timeout(Duration::from_secs(20)).expect("it starts");
    thread
}

fn ask<T: Send + 'static, F: Future<Output = T>>(
    thread: &ClusterThread,
    work: impl FnOnce(Replica) -> F + Send + 'static,
) -> T {
    let (done, result) = mpsc::channel();
    thread.run(move || {
        spawn(async move {
            let replica = shell().replica.get().expect("it was started").clone();
            done.send(work(replica).await).expect("the test waits");
        });
    });
    result.recv_timeout(Duration::from_secs(20)).expect("it answers")
}

/// Proposes to whoever leads until it is applied. Returns the count.
fn commit(threads: &[&ClusterThread]) -> u64 {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        for thread in threads {
            let proposed =
                ask(thread, |replica: Replica| async move { replica.propose(Bytes::from_static(b"one")).await });
            if let Proposed::Applied { answer, .. } = proposed {
                return u64::from_le_bytes(answer.0[..].try_into().expect("it is a count"));
            }
        }
        assert!(Instant::now() < until, "nobody leads");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn leader(thread: &ClusterThread) -> Option<ReplicaId> {
    ask(thread, |replica: Replica| async move { replica.leader().1 })
}

fn count(thread: &ClusterThread) -> u64 {
    ask(thread, |replica: Replica| async move { replica.with_machine(|machine| machine.commands) })
}

fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.each_ref().map(|listener| listener.local_addr().expect("it has one").port())
}

#[test]
fn a_placement_commits_on_three_nodes_and_without_its_leader() {
    let directory = tempfile::tempdir().expect("one");
    let ports = free_ports();
    let mut threads = [1, 2, 3].map(|member| Some(start(member, ports, directory.path())));
    let all = |threads: &[Option<ClusterThread>; 3]| -> u64 { commit(&threads.iter().flatten().collect::<Vec<_>>()) };
    for expected in 1..=20 {
        assert_eq!(all(&threads), expected);
    }
    let leading = threads.iter().flatten().find_map(leader).expect("one leads");
    let victim = usize::try_from((leading >> 32) - 1).expect("it is a member");
    let begun = Instant::now();
    drop(threads[victim].take());
    assert!(all(&threads) >= 21);
    println!("the next commit came {:?} after the leader ended", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let last = (0..20).map(|_| all(&threads)).max().expect("some");

    threads[victim] = Some(start(victim as u16 + 1, ports, directory.path()));
    let until = Instant::now() + Duration::from_secs(10);
    while count(threads[victim].as_ref().expect("it lives")) < last {
        assert!(Instant::now() < until, "it doesn't catch up");
        std::thread::sleep(Duration::from_millis(10));
    }
}
