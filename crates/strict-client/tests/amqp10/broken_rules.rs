//! A peer that breaks each rule.

use leveret_amqp10::performative::{Attach, Begin, Close, Detach, Disposition, End, Flow, Transfer};
use leveret_amqp10::sasl::SaslCode;
use leveret_amqp10::{DeliveryState, HEADER_AMQP, HEADER_SASL, Role, SenderSettleMode, Serial};
use leveret_strict_client::Rule;
use leveret_strict_client::amqp10::{Mechanism, Options, Send};

use crate::peer::{CHANNEL, HANDLE, Peer};

/// Violations by a peer, each with the rule that it breaks.
#[test]
fn each_broken_rule_is_seen() {
    type Break = fn(&mut Peer);
    type Case = (&'static str, fn() -> Peer, Break, Rule);
    let cases: &[Case] = &[
        (
            "not AMQP at all",
            || Peer::fresh(Options::default()),
            |p| {
                p.header(*b"HTTP/1.1");
            },
            Rule::OpenOrder,
        ),
        (
            "AMQP header before SASL",
            || Peer::fresh(Options::default()),
            |p| {
                p.header(HEADER_AMQP);
            },
            Rule::OpenOrder,
        ),
        (
            "outcome before mechanisms",
            || Peer::fresh(Options::default()),
            |p| {
                p.header(HEADER_SASL).sasl(Peer::outcome(SaslCode::Ok));
            },
            Rule::OpenOrder,
        ),
        (
            "no mechanism of ours",
            || {
                Peer::fresh(Options {
                    mechanism: Mechanism::Other { name: "X".into(), initial_response: None },
                    ..Options::default()
                })
            },
            |p| {
                p.header(HEADER_SASL).sasl(Peer::mechanisms());
            },
            Rule::OpenOrder,
        ),
        (
            "begin before open",
            || Peer::fresh(Options { mechanism: Mechanism::None, ..Options::default() }),
            |p| {
                p.header(HEADER_AMQP).send(0, Peer::begin_answer(1));
            },
            Rule::OpenOrder,
        ),
        (
            "open on a channel",
            || Peer::fresh(Options { mechanism: Mechanism::None, ..Options::default() }),
            |p| {
                p.header(HEADER_AMQP).send(1, Peer::open());
            },
            Rule::OpenOrder,
        ),
        (
            "open twice",
            Peer::opened,
            |p| {
                p.send(0, Peer::open());
            },
            Rule::OpenOrder,
        ),
        (
            "a SASL frame after SASL",
            Peer::opened,
            |p| {
                p.sasl(Peer::mechanisms());
            },
            Rule::OpenOrder,
        ),
        (
            "a frame beyond max-frame-size",
            Peer::opened,
            |p| p.wire.extend([0, 0, 2, 0x59, 2, 0, 0, 0]),
            Rule::WellFormed,
        ),
        (
            "an unknown performative",
            Peer::opened,
            |p| p.wire.extend(b"\0\0\0\x0C\x02\0\0\0\0\x53\x19\x45"),
            Rule::WellFormed,
        ),
        (
            "begin without being asked",
            Peer::opened,
            |p| {
                p.send(1, Peer::begin_answer(1));
            },
            Rule::BeginAnswer,
        ),
        (
            "begin that answers nothing",
            Peer::opened,
            |p| {
                p.send(1, Begin { remote_channel: None, ..Peer::begin_answer(1) });
            },
            Rule::BeginAnswer,
        ),
        (
            "begin twice",
            Peer::begun,
            |p| {
                p.send(102, Peer::begin_answer(1));
            },
            Rule::BeginAnswer,
        ),
        (
            "begin beyond channel-max",
            Peer::opened,
            |p| {
                p.send(301, Peer::begin_answer(1));
            },
            Rule::ChannelMax,
        ),
        (
            "a frame beyond channel-max",
            Peer::begun,
            |p| {
                p.send(301, End::default());
            },
            Rule::ChannelMax,
        ),
        (
            "a frame before begin",
            Peer::opened,
            |p| {
                p.send(5, p.flow(0));
            },
            Rule::SessionBegun,
        ),
        (
            "a frame after end",
            Peer::begun,
            |p| {
                p.send(CHANNEL, End::default()).send(CHANNEL, End::default());
            },
            Rule::SessionBegun,
        ),
        (
            "a frame after close",
            Peer::opened,
            |p| {
                p.send(0, Close::default()).send(0, Close::default());
            },
            Rule::ConnectionClosed,
        ),
        (
            "attach without being asked",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Peer::attach_answer("other", 3, Role::Sender));
            },
            Rule::AttachAnswer,
        ),
        (
            "attach twice",
            || Peer::receiving(0),
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in", 3, Role::Sender));
            },
            Rule::AttachAnswer,
        ),
        (
            "attach from the wrong end",
            || {
                let mut peer = Peer::begun();
                peer.client.attach_sender(1, 0, "in", None);
                peer
            },
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in", 3, Role::Sender));
            },
            Rule::AttachAnswer,
        ),
        (
            "attach without initial-delivery-count",
            || {
                let mut peer = Peer::begun();
                peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
                peer
            },
            |p| {
                p.send(CHANNEL, Attach { initial_delivery_count: None, ..Peer::attach_answer("in", 3, Role::Sender) });
            },
            Rule::AttachAnswer,
        ),
        (
            "attach beyond handle-max",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in", 21, Role::Sender));
            },
            Rule::HandleMax,
        ),
        (
            "attach with a handle in use",
            || {
                let mut peer = Peer::receiving(0);
                peer.client.attach_receiver(1, 1, "in 2", "/queues/q", false);
                peer
            },
            |p| {
                p.send(CHANNEL, Peer::attach_answer("in 2", HANDLE, Role::Sender));
            },
            Rule::HandleInUse,
        ),
        (
            "transfer before attach",
            Peer::begun,
            |p| {
                p.deliver(0);
            },
            Rule::HandleAttached,
        ),
        (
            "flow for a handle that isn't attached",
            Peer::begun,
            |p| {
                p.send(CHANNEL, p.link_flow(0, 1));
            },
            Rule::HandleAttached,
        ),
        (
            "transfer after detach",
            || Peer::receiving(1),
            |p| {
                p.send(CHANNEL, Detach { handle: HANDLE, ..Detach::default() }).deliver(0);
            },
            Rule::HandleAttached,
        ),
        (
            "transfer to a sender",
            || Peer::sending(1),
            |p| {
                p.deliver(0);
            },
            Rule::HandleAttached,
        ),
        (
            "detach instead of close",
            || {
                let mut peer = Peer::receiving(1);
                peer.client.detach(1, 0, true, None);
                peer
            },
            |p| {
                p.send(CHANNEL, Detach { handle: HANDLE, ..Detach::default() });
            },
            Rule::DetachAnswer,
        ),
        (
            "transfers beyond the window",
            || Peer::receiving(9),
            |p| {
                (0..6).for_each(|id| {
                    p.deliver(id);
                })
            },
            Rule::SessionWindow,
        ),
        (
            "transfer without credit",
            || Peer::receiving(0),
            |p| {
                p.deliver(0);
            },
            Rule::LinkCredit,
        ),
        (
            "one transfer too many",
            || Peer::receiving(2),
            |p| {
                p.deliver(0).deliver(1).deliver(2);
            },
            Rule::LinkCredit,
        ),
        (
            "transfer after the drain was answered",
            || {
                let mut peer = Peer::receiving(2);
                peer.client.grant(1, 0, 2, true);
                peer
            },
            |p| {
                p.send(CHANNEL, Flow { drain: true, ..p.sender_flow(2, 0) }).deliver(0);
            },
            Rule::LinkCredit,
        ),
        (
            "a drain that keeps credit",
            || {
                let mut peer = Peer::receiving(3);
                peer.client.grant(1, 0, 3, true);
                peer
            },
            |p| {
                p.send(CHANNEL, Flow { drain: true, ..p.sender_flow(1, 2) });
            },
            Rule::Drain,
        ),
        (
            "a drain answered within a delivery",
            || {
                let mut peer = Peer::receiving(3);
                peer.client.grant(1, 0, 3, true);
                peer
            },
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"half");
                p.send(CHANNEL, Flow { drain: true, ..p.sender_flow(3, 0) });
            },
            Rule::Drain,
        ),
        (
            "credit used up without drain",
            || Peer::receiving(3),
            |p| {
                p.send(CHANNEL, p.sender_flow(3, 0));
            },
            Rule::DeliveryCount,
        ),
        (
            "a delivery-count that goes back",
            || Peer::receiving(3),
            |p| {
                p.deliver(0);
                p.send(CHANNEL, p.sender_flow(0, 3));
            },
            Rule::DeliveryCount,
        ),
        (
            "a delivery-count beyond what was sent",
            || Peer::sending(3),
            |p| {
                p.send(CHANNEL, Flow { next_incoming_id: Some(0), ..p.link_flow(1, 2) });
            },
            Rule::DeliveryCount,
        ),
        (
            "credit that nobody granted",
            || Peer::receiving(3),
            |p| {
                p.send(CHANNEL, p.sender_flow(0, 4));
            },
            Rule::CreditEcho,
        ),
        (
            "next-incoming-id beyond what was sent",
            Peer::begun,
            |p| {
                p.send(CHANNEL, p.flow(1));
            },
            Rule::TransferIds,
        ),
        (
            "flow without next-incoming-id",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Flow { next_incoming_id: None, ..p.flow(0) });
            },
            Rule::TransferIds,
        ),
        (
            "next-outgoing-id that counts wrong",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Flow { next_outgoing_id: 5, ..p.flow(0) });
            },
            Rule::TransferIds,
        ),
        (
            "flow of a link without handle",
            Peer::begun,
            |p| {
                p.send(CHANNEL, Flow { link_credit: Some(1), ..p.flow(0) });
            },
            Rule::FlowFields,
        ),
        (
            "flow of a sender without credit",
            || Peer::receiving(1),
            |p| {
                p.send(CHANNEL, Flow { handle: Some(HANDLE), ..p.flow(0) });
            },
            Rule::FlowFields,
        ),
        (
            "flow of a receiver without credit",
            || Peer::sending(1),
            |p| {
                p.send(CHANNEL, Flow { handle: Some(HANDLE), ..p.flow(0) });
            },
            Rule::FlowFields,
        ),
        (
            "a delivery-id skipped",
            || Peer::receiving(5),
            |p| {
                p.deliver(0).deliver(2);
            },
            Rule::DeliveryId,
        ),
        (
            "a delivery-id repeated",
            || Peer::receiving(5),
            |p| {
                p.deliver(3).deliver(3);
            },
            Rule::DeliveryId,
        ),
        (
            "a delivery without delivery-id",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { delivery_id: None, ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::Continuation,
        ),
        (
            "a delivery without message-format",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { message_format: None, ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::Continuation,
        ),
        (
            "a delivery within a delivery",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"half").deliver(1);
            },
            Rule::Continuation,
        ),
        (
            "another tag within a delivery",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"half");
                p.transfer(Peer::first_transfer(0, b"u"), b"");
            },
            Rule::Continuation,
        ),
        (
            "a delivery without tag",
            || Peer::receiving(5),
            |p| {
                p.transfer(Transfer { delivery_tag: None, ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::UniqueTag,
        ),
        (
            "a tag of an unsettled delivery",
            || Peer::receiving(5),
            |p| {
                p.transfer(Peer::first_transfer(0, b"t"), b"").transfer(Peer::first_transfer(1, b"t"), b"");
            },
            Rule::UniqueTag,
        ),
        (
            "a settled delivery on an unsettled link",
            || {
                let mut peer = Peer::begun();
                peer.client.attach_receiver(1, 0, "in", "/queues/q", false);
                let mode = SenderSettleMode::Unsettled;
                peer.send(CHANNEL, Attach { snd_settle_mode: mode, ..Peer::attach_answer("in", HANDLE, Role::Sender) });
                peer.take();
                peer.client.grant(1, 0, 1, false);
                peer
            },
            |p| {
                p.transfer(Transfer { settled: Some(true), ..Peer::first_transfer(0, b"t") }, b"");
            },
            Rule::SettleMode,
        ),
        (
            "a message beyond max-message-size",
            || {
                let mut peer = Peer::begun();
                let attach =
                    Attach { name: "in", role: Role::Receiver, max_message_size: Some(6), ..Attach::default() };
                peer.client.attach(1, &attach);
                peer.send(CHANNEL, Peer::attach_answer("in", HANDLE, Role::Sender));
                peer.take();
                peer.client.grant(1, 0, 1, false);
                peer
            },
            |p| {
                p.transfer(Transfer { more: true, ..Peer::first_transfer(0, b"t") }, b"1234");
                p.transfer(Transfer { handle: HANDLE, more: true, ..Transfer::default() }, b"567");
            },
            Rule::MessageSize,
        ),
        (
            "a disposition of nothing",
            || Peer::sending(1),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 0));
            },
            Rule::KnownDelivery,
        ),
        (
            "a disposition by the sender of nothing",
            || Peer::receiving(1),
            |p| {
                p.send(CHANNEL, outcome(Role::Sender, 0, 0));
            },
            Rule::KnownDelivery,
        ),
        (
            "a range beyond what was sent",
            || sent(2),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 2));
            },
            Rule::KnownDelivery,
        ),
        (
            "an outcome twice",
            || sent(2),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 1)).send(CHANNEL, outcome(Role::Receiver, 1, 1));
            },
            Rule::SettledOnce,
        ),
        (
            "an outcome for what was sent settled",
            || {
                let mut peer = Peer::sending(2);
                peer.client.send(1, 0, b"1", b"", &Send { settled: true, ..Send::default() });
                peer
            },
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 0, 0));
            },
            Rule::SettledOnce,
        ),
        (
            "a state after the receiver settled",
            || {
                let mut peer = Peer::receiving(1);
                peer.deliver(0);
                peer.take();
                peer.client.accept(1, Serial(0), Serial(0));
                peer
            },
            |p| {
                p.send(CHANNEL, outcome(Role::Sender, 0, 0));
            },
            Rule::SettledOnce,
        ),
        (
            "a range that ends before it begins",
            || sent(2),
            |p| {
                p.send(CHANNEL, outcome(Role::Receiver, 1, 0));
            },
            Rule::DispositionRange,
        ),
    ];
    for (what, start, break_rule, rule) in cases {
        let mut peer = start();
        peer.wire.clear();
        break_rule(&mut peer);
        assert_eq!(peer.broken(), *rule, "{what}");
    }
    let mut seen: Vec<_> = cases.iter().map(|(_, _, _, rule)| format!("{rule:?}")).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() >= 25, "{} rules are broken here: {seen:?}", seen.len());
}

fn outcome(role: Role, first: u32, last: u32) -> Disposition<'static> {
    let state = Some(DeliveryState::Accepted);
    Disposition { role, first, last: Some(last), settled: true, state, batchable: false }
}

/// A client that has sent this many messages.
fn sent(count: u32) -> Peer {
    let mut peer = Peer::sending(count);
    for number in 0..count {
        let id = peer.client.send(1, 0, &number.to_be_bytes(), b"x", &Send::default());
        assert_eq!(id, Some(Serial(number)));
    }
    peer
}
