//! Receivers: unlimited credit, sockets that are never read, millions of requests, deliveries that are never settled.

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp10::performative::{Attach, Begin, Flow};
use leveret_amqp10::terminus::{ExpiryPolicy, TerminusDurability};
use leveret_amqp10::{
    Performative, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Symbols, Target, TargetArchetype,
};
use leveret_strict_client::amqp10::Send;
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::node::Options;

use super::canary::{assert_grown, declare, finish, stage};
use super::peer::{Peer, grant, of, receiver};

const QUEUE: &str = "hostile.credit";
const ADDRESS: &str = "/queues/hostile.credit";

fn fill(address: std::net::SocketAddr, count: u32, bytes: usize) {
    let mut client = Amqp10::open(address);
    client.sender(0, ADDRESS);
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, &vec![b'x'; bytes]);
    let mut last = None;
    for _ in 0..count {
        last = Some(client.send(0, &payload, &Send::default()));
    }
    client.outcome(last.expect("some were sent"));
    client.close();
}

#[test]
fn unlimited_credit_on_an_unread_socket_takes_bounded_memory() {
    const LINKS: u32 = 64;
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    fill(node.amqp(), 2000, 32 << 10);
    let before = node.resident_bytes();
    let mut deaf: Vec<Peer> = (0..8).map(|_| Peer::open_with(node.amqp(), 131_072, u32::MAX)).collect();
    for peer in &mut deaf {
        for handle in 0..LINKS {
            peer.send(&receiver(0, handle, "deaf", ADDRESS, handle % 2 == 0));
        }
        peer.still_served("64 receivers");
        for handle in 0..LINKS {
            peer.send(&of(0, &Flow { incoming_window: u32::MAX, ..grant(handle, u32::MAX) }.into()));
        }
    }
    for _ in 0..10 {
        canary.sings("credit of 2^32-1");
    }
    // Each is owed 64 MiB.
    assert_grown(&node, before, 32, "eight deaf connections");
    drop(deaf);
    // Unsettled messages are requeued for others.
    let mut client = Amqp10::open(node.amqp());
    client.receiver(0, ADDRESS, 1);
    client.receive(0);
    client.close();
    finish(&node, canary);
}

/// A delivery in several transfers, of which the client allows only the first: the rest waits for its window.
fn stuck(address: std::net::SocketAddr) -> Peer {
    let mut peer = Peer::open_with(address, 512, 1);
    peer.send(&receiver(0, 0, "stuck", ADDRESS, false));
    let shut = Flow { incoming_window: 1, ..grant(0, 10) };
    peer.send(&of(0, &shut.into()));
    peer.expect("the first transfer", |performative| matches!(performative, Performative::Transfer(_)));
    peer
}

#[test]
fn flow_requests_behind_a_closed_window_get_one_reply() {
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    fill(node.amqp(), 1, 1000);
    let mut peer = stuck(node.amqp());
    let before = node.resident_bytes();
    let ask = |link_credit, drain| {
        let flow = Flow { next_incoming_id: Some(1), incoming_window: 0, echo: true, drain, ..grant(0, link_credit) };
        of(0, &flow.into())
    };
    let piece = [ask(5, false), ask(5, true), ask(7, false)].concat().repeat(1000);
    for _ in 0..300 {
        peer.send(&piece);
    }
    canary.sings("questions behind a window");
    // The window opens: the rest is sent, and then the replies.
    peer.send(&of(0, &Flow { next_incoming_id: Some(1), incoming_window: 100, ..Flow::default() }.into()));
    let whole =
        |performative: &Performative<'_>| matches!(performative, Performative::Transfer(transfer) if !transfer.more);
    peer.expect("the last transfer", whole);
    let mut answers = 0;
    peer.send(&of(0, &Flow { next_incoming_id: Some(3), incoming_window: 100, echo: true, ..Flow::default() }.into()));
    loop {
        let (_, body) = peer.frame().expect("an answer");
        match Performative::decode(&body).expect("a performative").0 {
            Performative::Flow(flow) if flow.handle.is_none() => break,
            Performative::Flow(_) => answers += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!((1..=2).contains(&answers), "{answers} answers to 900,000 questions");
    assert_grown(&node, before, 8, "900,000 questions");
    drop(peer);
    finish(&node, canary);
}

#[test]
fn requests_with_unread_replies_take_bounded_memory() {
    const MOST: usize = 64 << 20;
    let (node, canary) = stage(Options::new());
    declare(node.amqp(), QUEUE);
    let before = node.resident_bytes();
    let mut peer = Peer::open(node.amqp());
    peer.send(&receiver(0, 0, "asks", ADDRESS, false));
    peer.still_served("a receiver");
    let taken = peer.stuff(&of(0, &Flow { echo: true, ..grant(0, 1) }.into()).repeat(1000), MOST);
    assert!(taken < MOST, "the node reads on although nobody reads what it answers");
    println!("{} KiB of questions were taken", taken >> 10);
    canary.sings("questions about a link");
    // A session's state is sent once, however often it is requested while the reply waits.
    let mut other = Peer::open(node.amqp());
    let taken = other.stuff(&of(0, &Flow { echo: true, ..Flow::default() }.into()).repeat(1000), 32 << 20);
    println!("{} KiB of questions were taken", taken >> 10);
    canary.sings("questions about a session");
    assert_grown(&node, before, 16, "unread answers");
    drop((peer, other));
    finish(&node, canary);
}

#[test]
fn deliveries_that_are_never_settled_end_at_a_limit() {
    let (node, canary) = stage(Options::new().set("unsettled_max_per_session", 100));
    declare(node.amqp(), QUEUE);
    fill(node.amqp(), 300, 10);
    let mut client = Amqp10::open(node.amqp());
    client.receiver(0, ADDRESS, 1000);
    client.receiver(1, ADDRESS, 1000);
    let mut come = Vec::new();
    let take = |client: &mut Amqp10, come: &mut Vec<_>, count: usize| {
        while client.waiting(CHANNEL, 0) + client.waiting(CHANNEL, 1) < count {
            client.try_read().expect("a delivery");
        }
        client.barrier(CHANNEL);
        assert_eq!(client.waiting(CHANNEL, 0) + client.waiting(CHANNEL, 1), count);
        come.extend(
            (0..client.waiting(CHANNEL, 0))
                .map(|_| 0)
                .collect::<Vec<u32>>()
                .into_iter()
                .map(|link| client.receive(link)),
        );
        come.extend(
            (0..client.waiting(CHANNEL, 1))
                .map(|_| 1)
                .collect::<Vec<u32>>()
                .into_iter()
                .map(|link| client.receive(link)),
        );
    };
    take(&mut client, &mut come, 100);
    // Settling makes room for as many deliveries, wherever they are, and settled links don't count.
    for at in [50, 51, 52] {
        client.accept(&come[at]);
    }
    take(&mut client, &mut come, 3);
    client.client.accept(CHANNEL, come[0].delivery_id(), come[49].delivery_id());
    client.flush();
    take(&mut client, &mut come, 50);
    client.client.attach_receiver(CHANNEL, 2, "settled", ADDRESS, true);
    client.attached(CHANNEL, 2);
    client.grant(2, 10);
    for _ in 0..10 {
        client.receive(2);
    }
    client.close();
    finish(&node, canary);
}

/// Direct reply-to: a requester that doesn't read its replies loses them.
#[test]
fn unread_direct_replies_are_dropped() {
    let (node, canary) = stage(Options::new());
    let mut asks = Peer::open(node.amqp());
    let begin = Begin { incoming_window: 0, outgoing_window: 100, ..Begin::default() };
    asks.send(&of(1, &begin.into()));
    asks.expect("begin", |performative| matches!(performative, Performative::Begin(_)));
    let capabilities = [Symbol::new("rabbitmq:volatile-queue")];
    let source = Source {
        durable: TerminusDurability::None,
        expiry_policy: ExpiryPolicy::LinkDetach,
        dynamic: true,
        capabilities: Symbols::of(&capabilities),
        ..Source::default()
    };
    let attach = Attach {
        name: "answers",
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: SenderSettleMode::Settled,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(source),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    asks.send(&of(1, &attach.into()));
    let body = asks.expect("attach", |performative| matches!(performative, Performative::Attach(_)));
    let Ok((Performative::Attach(attached), _)) = Performative::decode(&body) else { unreachable!("expected") };
    let address = attached.source.and_then(|source| source.address).expect("an address").to_owned();
    asks.send(&of(1, &Flow { incoming_window: 0, ..grant(0, u32::MAX) }.into()));
    asks.still_served("a requester");
    let mut answers = Amqp10::open(node.amqp());
    answers.sender(0, &address);
    let before = node.resident_bytes();
    for _ in 0..2000 {
        let mut payload = Vec::new();
        write_data(&mut payload, &[b'x'; 32 << 10]);
        let id = answers.send(0, &payload, &Send::default());
        answers.outcome(id);
        answers.backlog.clear();
    }
    canary.sings("answers that aren't taken");
    assert_grown(&node, before, 24, "64 MiB of answers");
    answers.close();
    drop(asks);
    finish(&node, canary);
}
