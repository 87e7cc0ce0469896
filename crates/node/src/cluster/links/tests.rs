use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::*;
use crate::data_link::DataSeats;

const ECHO: u8 = 1;
const LENGTH: u8 = 2;
const NEVER: u8 = 3;
const REFUSED: u8 = 4;
const SOON: Duration = Duration::from_secs(5);

/// A node that echoes.
struct Node {
    name: String,
    member: Cell<Option<u16>>,
    boot: u64,
    links: OnceCell<Links>,
    address: String,
    refuses: RefCell<Option<String>>,
    admitted: RefCell<Vec<LinkKind>>,
    notices: RefCell<Vec<Bytes>>,
    ups: RefCell<Vec<LinkKind>>,
    downs: RefCell<Vec<(LinkKind, String)>>,
    gone: RefCell<Vec<u16>>,
}

impl Service for Node {
    fn data_seats(&self) -> Option<Arc<dyn DataSeats>> {
        None
    }

    fn hello(&self, link: LinkKind) -> Hello {
        Hello {
            versions: leveret_peer::Versions::OWN,
            release: "0.1.0".into(),
            node_name: self.name.clone(),
            node_id: self.name.len() as u64,
            cluster_id: None,
            member: self.member.get(),
            boot: self.boot,
            start_nonce: 1,
            started_at_ms: 1,
            members: 1,
            is_blank: false,
            link,
            addresses: vec![self.address.clone()],
            challenge: [0; 32],
        }
    }

    fn admit(&self, hello: &Hello) -> Result<(), String> {
        self.admitted.borrow_mut().push(hello.link);
        self.refuses.borrow().clone().map_or(Ok(()), Err)
    }

    fn request(self: Rc<Self>, from: Rc<Hello>, link: LinkKind, kind: u8, body: Bytes) -> Answering {
        Box::pin(async move {
            match kind {
                ECHO => Ok(body),
                LENGTH => Ok(Bytes::copy_from_slice(&(body.len() as u64).to_le_bytes())),
                NEVER => std::future::pending().await,
                REFUSED => Err(format!("{} doesn't answer {} on {}", self.name, from.node_name, link.name())),
                _ => unreachable!("no such kind"),
            }
        })
    }

    fn notice(&self, _: &Hello, _: u8, body: Bytes) {
        self.notices.borrow_mut().push(body);
    }

    fn link_up(&self, hello: &Hello) {
        self.ups.borrow_mut().push(hello.link);
    }

    fn link_down(&self, hello: &Hello, reason: &str) {
        self.downs.borrow_mut().push((hello.link, reason.to_owned()));
    }

    fn gone(&self, member: u16) {
        self.gone.borrow_mut().push(member);
    }
}

impl Node {
    fn links(&self) -> &Links {
        self.links.get().expect("it was started")
    }

    fn peer(&self) -> Peer {
        self.at(&self.address)
    }

    fn at(&self, address: &str) -> Peer {
        let member = self.member.get().expect("it is a member");
        Peer { member, node_name: self.name.clone(), addresses: vec![address.to_owned()] }
    }

    fn is_linked(&self, member: u16) -> bool {
        KEPT.into_iter().all(|kind| self.links().is_up(member, kind))
    }

    async fn echo(&self, member: u16, link: LinkKind, body: &'static str) -> Result<Bytes, String> {
        self.links().call(member, link, ECHO, Bytes::from_static(body.as_bytes()), SOON).await
    }

    /// The texts about refused connections.
    fn refusals(&self) -> Vec<String> {
        self.links().0.refusals.texts()
    }
}

/// The parts by which nodes of a test differ.
#[derive(Clone, Copy)]
struct Trait {
    cookie: &'static str,
    is_tls: bool,
    boot: u64,
    port: u16,
}

const PLAIN: Trait = Trait { cookie: "c", is_tls: false, boot: 1, port: 0 };
const TLS: Trait = Trait { is_tls: true, ..PLAIN };

fn start(member: u16, of: Trait) -> Rc<Node> {
    let tls = of.is_tls.then(|| ClusterTls::own().expect("a certificate"));
    start_with(member, of, tls)
}

fn start_with(member: u16, of: Trait, tls: Option<ClusterTls>) -> Rc<Node> {
    let listener = crate::cores::listen(SocketAddr::from(([127, 0, 0, 1], of.port))).expect("a port");
    let address = listener.local_addr().expect("it has one").to_string();
    let node = Rc::new(Node {
        name: format!("rabbit@{}", "n".repeat(member.into())),
        member: Cell::new(Some(member)),
        boot: of.boot,
        links: OnceCell::new(),
        address,
        refuses: RefCell::default(),
        admitted: RefCell::default(),
        notices: RefCell::default(),
        ups: RefCell::default(),
        downs: RefCell::default(),
        gone: RefCell::default(),
    });
    let cookie = Cookie::new(of.cookie.as_bytes());
    let setup = LinksSetup { listeners: vec![listener], cookie, tls, counters: Arc::default() };
    let links = Links::start(setup, node.clone()).expect("it starts");
    assert!(node.links.set(links).is_ok());
    node
}

fn introduce(nodes: &[&Rc<Node>]) {
    for node in nodes {
        let others = nodes.iter().filter(|other| !Rc::ptr_eq(node, other));
        node.links().set_peers(others.map(|other| other.peer()).collect());
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it takes too long until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, test);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    Stall,
    Cut,
}

/// A proxy that can hold bytes back or cut connections. Returns its address.
async fn proxy(target: String, mode: watch::Receiver<Mode>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has one").to_string();
    tokio::task::spawn_local(async move {
        while let Ok((there, _)) = listener.accept().await {
            let Ok(back) = TcpStream::connect(&target).await else { continue };
            let ((from, to), (answers, back)) = (there.into_split(), back.into_split());
            tokio::task::spawn_local(pass(from, back, mode.clone()));
            tokio::task::spawn_local(pass(answers, to, mode.clone()));
        }
    });
    address
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = *mode.borrow_and_update();
        let read = async {
            match now {
                Mode::Pass => from.read(&mut buffer).await,
                Mode::Stall => std::future::pending().await,
                Mode::Cut => Ok(0),
            }
        };
        tokio::select! {
            _ = mode.changed() => {}
            read = read => match read {
                Ok(count) if count > 0 => if to.write_all(&buffer[..count]).await.is_err() { return },
                _ => return,
            },
        }
    }
}

#[test]
fn three_nodes_hold_one_link_of_each_kind_to_each_other() {
    for of in [PLAIN, TLS] {
        run(async {
            let nodes = [1, 2, 3].map(|member| start(member, of));
            introduce(&nodes.each_ref());
            let pairs = [(0, 2), (0, 3), (1, 1), (1, 3), (2, 1), (2, 2)];
            let took =
                until("all are linked", || pairs.iter().all(|(node, member)| nodes[*node].is_linked(*member))).await;
            assert!(took < Duration::from_millis(900), "the lower ones dial at once: {took:?}");
            for (node, member) in pairs {
                for link in KEPT {
                    assert_eq!(nodes[node].echo(member, link, "hey").await.as_deref(), Ok(&b"hey"[..]));
                }
                nodes[node].links().tell(member, 7, Bytes::from_static(b"news"));
            }
            until("notices came", || nodes.iter().all(|node| node.notices.borrow().len() == 2)).await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
            for node in &nodes {
                let counters = &node.links().0.counters;
                assert!(KEPT.into_iter().all(|kind| counters.all().up(kind).load(Ordering::Relaxed) == 2));
                assert_eq!((node.ups.borrow().len(), node.downs.borrow().len()), (6, 0));
                assert_eq!(counters.dials_failed.load(Ordering::Relaxed), 0);
                assert!(counters.all().sent(LinkKind::Append).load(Ordering::Relaxed) > 0);
            }
            let refused = nodes[0].links().call(2, LinkKind::Bulk, REFUSED, Bytes::new(), SOON).await;
            assert_eq!(refused.as_ref().map_err(|text| &**text), Err("rabbit@nn doesn't answer rabbit@n on bulk"));
            let late =
                nodes[0].links().call(2, LinkKind::Control, NEVER, Bytes::new(), Duration::from_millis(50)).await;
            assert_eq!(late.unwrap_err(), "node rabbit@nn didn't answer within 50ms");
            let nobody = nodes[0].echo(9, LinkKind::Control, "").await;
            assert_eq!(nobody.unwrap_err(), "there is no member 9");
            nodes[0].links().set_peers(vec![nodes[1].peer()]);
            until("the third is gone", || !nodes[0].links().is_up(3, LinkKind::Control)).await;
            assert!(nodes[0].is_linked(2));
        });
    }
}

#[test]
fn nodes_with_other_cookies_are_told_on_both_sides() {
    for of in [PLAIN, TLS] {
        run(async {
            let (one, other) = (start(1, of), start(2, Trait { cookie: "d", ..of }));
            introduce(&[&one, &other]);
            let text = "give all nodes the same RABBITMQ_ERLANG_COOKIE or .erlang.cookie";
            let is_told =
                |node: &Node, member| node.links().failure(member).is_some_and(|failure| failure.contains(text));
            until("both know", || is_told(&one, 2) && is_told(&other, 1)).await;
            let failure = one.links().failure(2).expect("it failed");
            assert!(
                failure.starts_with(&format!("cannot reach node rabbit@nn at {}: it refuses: ", other.address)),
                "{failure}"
            );
            let refused = other.refusals().concat();
            assert!(refused.contains("a node that says it is rabbit@n: the Erlang cookies differ"), "{refused}");
            let asked = one.links().ask(&other.address, ECHO, Bytes::new(), SOON).await;
            assert!(matches!(&asked, Err(AskError::Refused(reason)) if reason.contains(text)), "{asked:?}");
            assert_eq!((one.ups.borrow().len(), other.ups.borrow().len()), (0, 0));
        });
    }
}

#[test]
fn nodes_with_and_without_tls_are_told_on_both_sides() {
    run(async {
        let (plain, tls) = (start(1, PLAIN), start(2, TLS));
        introduce(&[&plain, &tls]);
        let is_told =
            |node: &Node, member| node.links().failure(member).is_some_and(|text| text.contains("cluster.tls"));
        until("both know", || is_told(&plain, 2) && is_told(&tls, 1)).await;
        until("both say it", || [&plain, &tls].iter().all(|node| node.refusals().concat().contains("cluster.tls")))
            .await;
    });
}

#[test]
fn strangers_are_refused_with_a_reason_and_dont_keep_nodes_out() {
    for of in [PLAIN, TLS] {
        run(async {
            let (one, other) = (start(1, of), start(2, of));
            for (bytes, reason) in [
                (&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "HTTP"),
                (b"AMQP\0\0\x09\x01", "AMQP"),
                (&[0, 30, b'N', 0, 0, 0, 0, 0], "RabbitMQ"),
                (&[7; 100_000], "begins with the bytes 07 07"),
            ] {
                let mut stranger = TcpStream::connect(&one.address).await.expect("it listens");
                let _ = stranger.write_all(bytes).await;
                let mut answer = Vec::new();
                let _ = stranger.read_to_end(&mut answer).await;
                assert_eq!(answer, b"");
                until(reason, || one.refusals().concat().contains(reason)).await;
            }
            // They say nothing, and more of them than are kept.
            let mut silent = Vec::new();
            for _ in 0..300 {
                silent.push(TcpStream::connect(&one.address).await.expect("it listens"));
            }
            introduce(&[&one, &other]);
            until("the nodes are linked", || one.is_linked(2) && other.is_linked(1)).await;
            let (mut first, mut byte) = (silent.swap_remove(0), [0]);
            assert_eq!(first.read(&mut byte).await.ok(), Some(0), "the oldest was closed");
        });
    }
}

#[test]
fn a_process_is_gone_once_nothing_listens_where_it_did() {
    run(async {
        let (one, other) = (start(1, PLAIN), start(2, PLAIN));
        let (mode, seen) = watch::channel(Mode::Pass);
        let there = proxy(other.address.clone(), seen).await;
        one.links().set_peers(vec![other.at(&there)]);
        other.links().set_peers(vec![one.peer()]);
        until("they are linked", || one.is_linked(2)).await;
        mode.send_replace(Mode::Cut);
        until("it is known", || !one.links().is_up(2, LinkKind::Control)).await;
        mode.send_replace(Mode::Pass);
        until("they are linked again", || one.is_linked(2)).await;
        assert!(one.gone.borrow().is_empty(), "a link that ends says nothing of a process");
        one.links().set_peers(vec![other.peer()]);
        other.links().stop("the node stops");
        until("it is gone", || one.gone.borrow().first() == Some(&2)).await;
    });
}

#[test]
fn links_that_are_cut_or_go_silent_come_back_by_themselves() {
    run(async {
        let (one, other) = (start(1, TLS), start(2, TLS));
        let (mode, seen) = watch::channel(Mode::Pass);
        let (there, back) = (proxy(other.address.clone(), seen.clone()).await, proxy(one.address.clone(), seen).await);
        one.links().set_peers(vec![other.at(&there)]);
        other.links().set_peers(vec![one.at(&back)]);
        let are_linked = || one.is_linked(2) && other.is_linked(1);
        until("they are linked", are_linked).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;

        mode.send_replace(Mode::Cut);
        until("both know", || !one.links().is_up(2, LinkKind::Control) && !other.links().is_up(1, LinkKind::Control))
            .await;
        let error = one.echo(2, LinkKind::Control, "").await.unwrap_err();
        assert!(error.contains("rabbit@nn"), "{error}");
        mode.send_replace(Mode::Pass);
        let took = until("they are linked again", are_linked).await;
        assert!(took < Duration::from_millis(2500), "{took:?}");
        assert_eq!(one.echo(2, LinkKind::Append, "hey").await.as_deref(), Ok(&b"hey"[..]));
        assert_eq!(one.links().failure(2), None);

        tokio::time::sleep(Duration::from_millis(1100)).await;
        mode.send_replace(Mode::Stall);
        let call = one.links().call(2, LinkKind::Control, ECHO, Bytes::new(), Duration::from_secs(60));
        let begun = Instant::now();
        let error = call.await.unwrap_err();
        assert!(error.contains("nothing was heard of it for 2s"), "{error}");
        assert!(begun.elapsed() < Duration::from_millis(2800), "{:?}", begun.elapsed());
        until("both know", || !other.links().is_up(1, LinkKind::Control)).await;
        mode.send_replace(Mode::Pass);
        let took = until("they are linked again", are_linked).await;
        assert!(took < Duration::from_millis(4500), "{took:?}");
    });
}

#[test]
fn nodes_that_stood_still_themselves_keep_their_links() {
    run(async {
        let (one, other) = (start(1, TLS), start(2, TLS));
        introduce(&[&one, &other]);
        until("they are linked", || one.is_linked(2) && other.is_linked(1)).await;
        std::thread::sleep(Duration::from_secs(4));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((one.downs.borrow().len(), other.downs.borrow().len()), (0, 0));
    });
}

#[test]
fn the_higher_node_dials_where_the_lower_one_cant() {
    run(async {
        let (one, other) = (start(1, PLAIN), start(2, PLAIN));
        one.links().set_peers(vec![other.at("127.0.0.1:1")]);
        other.links().set_peers(vec![one.peer()]);
        until("they are linked", || one.is_linked(2) && other.is_linked(1)).await;
    });
}

#[test]
fn a_restarted_node_takes_the_place_of_its_last_life() {
    run(async {
        let (one, other) = (start(1, TLS), start(2, TLS));
        introduce(&[&one, &other]);
        until("they are linked", || one.is_linked(2) && other.is_linked(1)).await;
        // Its connections stay open, as those of a machine that lost its power.
        other.links().0.listeners.take().iter().for_each(AbortHandle::abort);
        other.links().0.peers.take().values().flat_map(|known| &known.dialers).for_each(AbortHandle::abort);
        let again = start(2, Trait { boot: 2, ..TLS });
        again.links().set_peers(vec![one.peer()]);
        until("it is known", || one.links().hello_of(2).is_some_and(|hello| hello.boot == 2)).await;
        until("the old one is closed", || !other.links().is_up(1, LinkKind::Control)).await;
        assert_eq!(one.echo(2, LinkKind::Control, "hey").await.as_deref(), Ok(&b"hey"[..]));
    });
}

#[test]
fn control_calls_pass_a_body_of_300_mb() {
    run(async {
        let (one, other) = (start(1, TLS), start(2, TLS));
        introduce(&[&one, &other]);
        until("they are linked", || one.is_linked(2) && other.is_linked(1)).await;
        let body = Bytes::from(vec![5; 300_000_000]);
        let begun = Instant::now();
        let sender = one.clone();
        let sent = tokio::task::spawn_local(async move {
            sender.links().call(2, LinkKind::Bulk, LENGTH, body, Duration::from_secs(60)).await
        });
        let mut calls = [LinkKind::Control, LinkKind::Bulk].map(|link| (link, 0, Duration::ZERO));
        while !sent.is_finished() {
            for (link, count, longest) in &mut calls {
                let asked = Instant::now();
                assert_eq!(one.echo(2, *link, "hey").await.as_deref(), Ok(&b"hey"[..]));
                *longest = asked.elapsed().max(*longest);
                *count += 1;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("300 MB in {:?} beside {calls:?}", begun.elapsed());
        assert_eq!(sent.await.expect("no panic"), Ok(Bytes::copy_from_slice(&300_000_000u64.to_le_bytes())));
        let [(_, count, longest), (_, _, longest_in_turn)] = calls;
        assert!(
            count >= 5 && longest < Duration::from_secs(1) && longest_in_turn < Duration::from_secs(3),
            "{calls:?}"
        );
        let long = one.links().call(2, LinkKind::Control, LENGTH, Bytes::from(vec![0; 64 << 20]), SOON).await;
        assert!(long.as_ref().is_err_and(|text| text.contains("don't fit on the control link")), "{long:?}");
    });
}

#[test]
fn a_node_that_isnt_a_member_asks_and_is_refused_with_a_text() {
    run(async {
        let (one, other) = (start(1, TLS), start(2, TLS));
        one.member.set(None);
        let asked = one.links().ask(&other.address, ECHO, Bytes::from_static(b"who"), SOON).await;
        let (hello, answer) = asked.expect("it answers");
        assert_eq!((&*hello.node_name, hello.member, &answer[..]), ("rabbit@nn", Some(2), &b"who"[..]));
        assert_eq!(
            (&one.admitted.borrow()[..], &other.admitted.borrow()[..]),
            (&[LinkKind::Ask][..], &[LinkKind::Ask][..])
        );
        let refused = one.links().ask(&other.address, REFUSED, Bytes::new(), SOON).await;
        assert_eq!(refused, Err(AskError::Refused("rabbit@nn doesn't answer rabbit@n on ask".into())));
        // Itself, under any of its names.
        let (hello, _) = one.links().ask(&one.address, ECHO, Bytes::new(), SOON).await.expect("it answers");
        assert_eq!(hello.node_name, "rabbit@n");
        let nobody = one.links().ask("127.0.0.1:1", ECHO, Bytes::new(), SOON).await;
        assert_eq!(nobody, Err(AskError::Unreachable("connection refused".into())));
        let nameless = one.links().ask("nowhere.invalid:1", ECHO, Bytes::new(), SOON).await;
        assert!(matches!(&nameless, Err(AskError::Unreachable(text)) if text.contains("resolved")), "{nameless:?}");
        let late = one.links().ask(&other.address, NEVER, Bytes::new(), Duration::from_millis(100)).await;
        assert!(matches!(late, Err(AskError::Unreachable(_) | AskError::Refused(_))), "{late:?}");

        // A node without a member number gets no lasting link.
        one.links().set_peers(vec![other.peer()]);
        until("it is told", || one.links().failure(2).is_some_and(|text| text.contains("has no member number"))).await;
        one.member.set(Some(1));
        *other.refuses.borrow_mut() = Some("node rabbit@n was forgotten; reset it".into());
        until("it is told", || {
            one.links().failure(2).is_some_and(|text| text.contains("it refuses: node rabbit@n was forgotten"))
        })
        .await;
        until("it is said there", || other.refusals().concat().contains("node rabbit@n: node rabbit@n was forgotten"))
            .await;
        *other.refuses.borrow_mut() = None;
        until("they are linked", || one.is_linked(2)).await;
    });
}

#[test]
fn another_member_at_an_address_is_named() {
    run(async {
        let (one, other, third) = (start(1, PLAIN), start(2, PLAIN), start(3, PLAIN));
        one.links().set_peers(vec![other.at(&third.address)]);
        until("it is told", || {
            one.links().failure(2).is_some_and(|text| text.contains("this is node rabbit@nnn (member 3)"))
        })
        .await;
        assert!(third.ups.borrow().is_empty() && other.ups.borrow().is_empty());
    });
}

/// A directory with a root and two certificates below it, and options that name them.
fn authority(directory: &std::path::Path, name: &str) -> leveret_config::Tls {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    let root_key = KeyPair::generate().expect("a key");
    let mut root = CertificateParams::new([name.to_owned()]).expect("a name");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = root.self_signed(&root_key).expect("a root");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(["some.host.example".to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &root, &root_key).expect("a certificate");
    let file = |part: &str, text: String| {
        let path = directory.join(format!("{name}.{part}"));
        std::fs::write(&path, text).expect("is written");
        Some(path.display().to_string())
    };
    leveret_config::Tls {
        certfile: file("pem", leaf.pem()),
        keyfile: file("key", key.serialize_pem()),
        cacertfile: file("ca", root.pem()),
        ..leveret_config::Tls::default()
    }
}

#[test]
fn configured_certificates_are_verified_by_both_sides() {
    let directory = tempfile::tempdir().expect("one");
    let (ours, theirs) = (authority(directory.path(), "ours"), authority(directory.path(), "theirs"));
    run(async {
        let with = |member, options| start_with(member, PLAIN, Some(ClusterTls::configured(options).expect("files")));
        let nodes = [with(1, &ours), with(2, &ours)];
        introduce(&nodes.each_ref());
        until("they are linked", || nodes[0].is_linked(2) && nodes[1].is_linked(1)).await;
        let stranger = with(3, &theirs);
        stranger.links().set_peers(vec![nodes[0].peer()]);
        nodes[0].links().set_peers(vec![nodes[1].peer(), stranger.peer()]);
        let is_told =
            |node: &Node, member| node.links().failure(member).is_some_and(|text| text.contains("TLS failed"));
        until("both are told", || is_told(&stranger, 1) && is_told(&nodes[0], 3)).await;
        // One without files shows a certificate that nobody signed.
        let own = start(4, TLS);
        let asked = own.links().ask(&nodes[0].address, ECHO, Bytes::new(), SOON).await;
        assert!(asked.is_err(), "{asked:?}");
    });
}
