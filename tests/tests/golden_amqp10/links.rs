//! `attach` and `detach`.

use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::{DistributionMode, ExpiryPolicy, TerminusDurability};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{
    Coordinator, DeliveryState, Error, Outcome, ReceiverSettleMode, SenderSettleMode, Source, Symbol, Symbols, Target,
    TargetArchetype, condition, performative::Detach,
};

use super::script::Step::Await;
use super::script::{
    FANOUT, Script, TO, detach, plain, receiver, receiving, refused, say, script, send, sender, sending, session,
    transfer,
};

const TEMPORARY: &[Symbol<'static>] = &[Symbol::new("temporary-queue")];
const VOLATILE: &[Symbol<'static>] = &[Symbol::new("rabbitmq:volatile-queue")];
const UNKNOWN: &[Symbol<'static>] = &[Symbol::new("amqp:unknown:list")];
const SOME: &[Symbol<'static>] = &[Symbol::new("amqp:accepted:list"), Symbol::new("amqp:released:list")];

fn source<'a>(source: Source<'a>) -> Attach<'a> {
    Attach { source: Some(source), ..receiver(None) }
}

fn target<'a>(target: Target<'a>) -> Attach<'a> {
    Attach { target: Some(TargetArchetype::Target(target)), ..sender(None) }
}

pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = senders();
    scripts.extend(receivers());
    scripts.extend(ends());
    scripts.extend(permissions());
    scripts
}

fn senders() -> Vec<Script> {
    let addressed = |address| Target { address, ..Target::default() };
    vec![
        script("attach a sender to a queue", sending(TO)),
        script("attach a sender to an exchange", sending(FANOUT)),
        script("attach a sender to an exchange with a key", sending(Some("/exchanges/amq.direct/k%20%C3%BC"))),
        script("attach a sender to nowhere", sending(None)),
        script("attach a sender to a queue whose name is escaped", sending(Some("/queues/golden10.a%20b%2Fc"))),
        script("attach a sender to a queue whose name isn't escaped", refused(sender(Some("/queues/golden10.a b/c")))),
        script("attach a sender to an address with a blank", refused(sender(Some("/queues/golden10.a b%2Fc")))),
        script("attach a sender whose target names capabilities", {
            let capable = target(Target { address: TO, capabilities: Symbols::of(UNKNOWN), ..Target::default() });
            session([say(capable), Await("attach"), Await("flow")])
        }),
        script("attach a sender with a bad escape", refused(sender(Some("/queues/%zz")))),
        script("attach a sender with an escape of no UTF-8", refused(sender(Some("/queues/%ff")))),
        script("attach a sender to an unknown queue", refused(sender(Some("/queues/golden10.none")))),
        script("attach a sender to an unknown exchange", refused(sender(Some("/exchanges/golden10.none/key")))),
        script("attach a sender to the default exchange by name", refused(sender(Some("/exchanges/amq.default/key")))),
        script("attach a sender to an exchange without a name", refused(sender(Some("/exchanges//key")))),
        script("attach a sender to an address with too many parts", refused(sender(Some("/exchanges/amq.direct/a/b")))),
        script("attach a sender to an internal exchange", refused(sender(Some("/exchanges/golden10.internal")))),
        script("attach a sender to an exclusive queue of another", sending(Some("/queues/golden10.exclusive"))),
        script("attach a sender to a bad address", refused(sender(Some("/queues/")))),
        script("attach a sender to an empty address", refused(sender(Some("")))),
        script("attach a sender to an address of version 1", refused(sender(Some("/amq/queue/golden10.queue")))),
        script("attach a sender to a queue of version 1", refused(sender(Some("golden10.queue")))),
        script("attach a sender without a target", refused(Attach { target: None, ..sender(None) })),
        script("attach a sender without a source", {
            session([say(Attach { source: None, ..sender(FANOUT) }), Await("attach"), Await("flow")])
        }),
        script("attach a sender without its delivery-count", {
            refused(Attach { initial_delivery_count: None, ..sender(FANOUT) })
        }),
        script("attach a sender with a delivery-count", {
            let attach = Attach { initial_delivery_count: Some(u32::MAX), ..sender(FANOUT) };
            session([say(attach), Await("attach"), Await("flow")])
        }),
        script("attach a sender that always settles", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..sender(FANOUT) };
            session([say(attach), Await("attach"), Await("flow")])
        }),
        script("attach a sender that never settles", {
            let attach = Attach { snd_settle_mode: SenderSettleMode::Unsettled, ..sender(FANOUT) };
            session([say(attach), Await("attach"), Await("flow")])
        }),
        script("attach a sender that settles second", {
            refused(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..sender(FANOUT) })
        }),
        script("attach a sender that always settles, second", {
            let settled = Attach { snd_settle_mode: SenderSettleMode::Settled, ..sender(FANOUT) };
            session([
                say(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..settled }),
                Await("attach"),
                Await("flow"),
            ])
        }),
        script("attach a sender with a max-message-size", {
            session([say(Attach { max_message_size: Some(100), ..sender(FANOUT) }), Await("attach"), Await("flow")])
        }),
        script("attach a sender with what only it knows", {
            let properties = EncodedMap::new().with("mine", "value");
            let attach = Attach {
                desired_capabilities: Symbols::of(UNKNOWN),
                offered_capabilities: Symbols::of(UNKNOWN),
                properties: Some(properties.as_map()),
                ..sender(FANOUT)
            };
            session([say(attach), Await("attach"), Await("flow")])
        }),
        script("attach a sender to a durable target that never expires", {
            let durable = Target { durable: TerminusDurability::UnsettledState, ..addressed(FANOUT) };
            let attach = target(Target { expiry_policy: ExpiryPolicy::Never, timeout: 7, ..durable });
            session([say(attach), Await("attach"), Await("flow")])
        }),
        script("attach a sender with a source that has an address", {
            let mine = Source { address: Some("mine"), outcomes: Symbols::of(SOME), ..Source::default() };
            session([say(Attach { source: Some(mine), ..sender(FANOUT) }), Await("attach"), Await("flow")])
        }),
        script("attach a sender with an unknown outcome", {
            let mine = Source { outcomes: Symbols::of(UNKNOWN), ..Source::default() };
            refused(Attach { source: Some(mine), ..sender(FANOUT) })
        }),
        script("attach a sender to a dynamic node", refused(target(Target { dynamic: true, ..Target::default() }))),
        script("attach a sender to a temporary queue", {
            let attach = target(Target { dynamic: true, capabilities: Symbols::of(TEMPORARY), ..Target::default() });
            session([say(attach), Await("attach"), Await("flow")])
        }),
        script("attach a sender with unsettled deliveries", {
            let unsettled = EncodedMap::new().with("t", "value");
            refused(Attach { unsettled: Some(unsettled.as_map()), ..sender(FANOUT) })
        }),
        script("attach to a coordinator", {
            let coordinator = TargetArchetype::Coordinator(Coordinator { capabilities: Symbols::NONE });
            refused(Attach { target: Some(coordinator), ..sender(None) })
        }),
        script("attach a sender with a handle in use", {
            let second = Attach { name: "second", ..sender(FANOUT) };
            session([say(sender(FANOUT)), Await("flow"), say(second), Await("end")])
        }),
        script("attach a sender with a name in use", {
            let second = Attach { handle: 5, ..sender(FANOUT) };
            session([say(sender(FANOUT)), Await("flow"), say(second), Await("attach"), Await("flow")])
        }),
        script("attach with handle 255", {
            session([say(Attach { handle: 255, ..sender(FANOUT) }), Await("attach"), Await("flow")])
        }),
        script(
            "attach with a handle beyond handle-max",
            session([say(Attach { handle: 256, ..sender(FANOUT) }), Await("end")]),
        ),
    ]
}

fn receivers() -> Vec<Script> {
    let queue = Source { address: TO, ..Source::default() };
    vec![
        script("attach a receiver to a queue", receiving(TO)),
        script("attach a receiver to an unknown queue", refused(receiver(Some("/queues/golden10.none")))),
        script("attach a receiver to an exchange", refused(receiver(FANOUT))),
        script(
            "attach a receiver to an exclusive queue of another",
            refused(receiver(Some("/queues/golden10.exclusive"))),
        ),
        script("attach a receiver to an address of version 1", refused(receiver(Some("/amq/queue/golden10.queue")))),
        script("attach a receiver to a bad address", refused(receiver(Some("/queues/")))),
        script("attach a receiver to nothing", refused(receiver(None))),
        script("attach a receiver without a source", refused(Attach { source: None, ..receiver(None) })),
        script("attach a receiver without a target", {
            session([say(Attach { target: None, ..receiver(TO) }), Await("attach")])
        }),
        script("attach a receiver with an unknown outcome", {
            refused(source(Source { outcomes: Symbols::of(UNKNOWN), ..queue }))
        }),
        script("attach a receiver with some outcomes", {
            session([say(source(Source { outcomes: Symbols::of(SOME), ..queue })), Await("attach")])
        }),
        script("attach a receiver with a default outcome", {
            let modified =
                Outcome::Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None };
            session([say(source(Source { default_outcome: Some(modified), ..queue })), Await("attach")])
        }),
        script("attach a receiver with an unknown filter", {
            let filter = EncodedMap::new().with("mine", "value");
            session([say(source(Source { filter: Some(filter.as_map()), ..queue })), Await("attach")])
        }),
        script("attach a receiver with a selector", {
            let filter = EncodedMap::new().with("apache.org:selector-filter:string", "a = 1");
            session([say(source(Source { filter: Some(filter.as_map()), ..queue })), Await("attach")])
        }),
        script("attach a receiver with distribution-mode copy", {
            let source = source(Source { distribution_mode: Some(DistributionMode::Copy), ..queue });
            session([say(source), Await("attach")])
        }),
        script("attach a receiver with distribution-mode move", {
            let source = source(Source { distribution_mode: Some(DistributionMode::Move), ..queue });
            session([say(source), Await("attach")])
        }),
        script("attach a receiver to a durable source that never expires", {
            let durable = Source { durable: TerminusDurability::UnsettledState, ..queue };
            session([
                say(source(Source { expiry_policy: ExpiryPolicy::Never, timeout: 7, ..durable })),
                Await("attach"),
            ])
        }),
        script("attach a receiver with capabilities and a priority", {
            let properties = EncodedMap::new().with("rabbitmq:priority", 5i32);
            let attach = Attach {
                desired_capabilities: Symbols::of(UNKNOWN),
                properties: Some(properties.as_map()),
                ..receiver(TO)
            };
            session([say(attach), Await("attach")])
        }),
        script("attach a receiver whose source names capabilities", {
            session([say(source(Source { capabilities: Symbols::of(UNKNOWN), ..queue })), Await("attach")])
        }),
        script("attach a receiver whose sender always settles", {
            session([say(Attach { snd_settle_mode: SenderSettleMode::Settled, ..receiver(TO) }), Await("attach")])
        }),
        script("attach a receiver whose sender never settles", {
            session([say(Attach { snd_settle_mode: SenderSettleMode::Unsettled, ..receiver(TO) }), Await("attach")])
        }),
        script("attach a receiver that settles second", {
            refused(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..receiver(TO) })
        }),
        script("attach a receiver that settles second of what is settled", {
            let settled = Attach { snd_settle_mode: SenderSettleMode::Settled, ..receiver(TO) };
            session([say(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..settled }), Await("attach")])
        }),
        script("attach a receiver with a max-message-size", {
            session([say(Attach { max_message_size: Some(1000), ..receiver(TO) }), Await("attach")])
        }),
        script("attach a receiver with a delivery-count", {
            session([say(Attach { initial_delivery_count: Some(9), ..receiver(TO) }), Await("attach")])
        }),
        script("attach a receiver with unsettled deliveries", {
            let unsettled = EncodedMap::new().with("t", "value");
            refused(Attach { unsettled: Some(unsettled.as_map()), ..receiver(TO) })
        }),
        script("attach a receiver to a dynamic node", refused(source(Source { dynamic: true, ..Source::default() }))),
        script("attach a receiver to a dynamic node that has an address", {
            refused(source(Source { dynamic: true, capabilities: Symbols::of(TEMPORARY), ..queue }))
        }),
        script("attach a receiver to a temporary queue", {
            let source = source(Source { dynamic: true, capabilities: Symbols::of(TEMPORARY), ..Source::default() });
            session([say(source), Await("attach")])
        }),
        script("attach a receiver to a volatile queue", {
            let source = Source {
                dynamic: true,
                expiry_policy: ExpiryPolicy::LinkDetach,
                capabilities: Symbols::of(VOLATILE),
                ..Source::default()
            };
            let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..self::source(source) };
            session([say(attach), Await("attach")])
        }),
        script("attach a receiver to a volatile queue that isn't settled", {
            let source = Source {
                dynamic: true,
                expiry_policy: ExpiryPolicy::LinkDetach,
                capabilities: Symbols::of(VOLATILE),
                ..Source::default()
            };
            refused(self::source(source))
        }),
        script("attach to the management node, half a pair", refused(receiver(Some("/management")))),
    ]
}

fn ends() -> Vec<Script> {
    let with = |mut steps: Vec<_>, more: Vec<_>| {
        steps.extend(more);
        steps
    };
    let error = Error { condition: condition::INTERNAL_ERROR, description: Some("mine"), info: None };
    vec![
        script("detach a sender", with(sending(FANOUT), vec![detach(0, true), Await("detach")])),
        script("detach a sender, not closed", with(sending(FANOUT), vec![detach(0, false), Await("detach")])),
        script("detach a sender with an error", {
            with(sending(FANOUT), vec![say(Detach { handle: 0, closed: true, error: Some(error) }), Await("detach")])
        }),
        script("detach a receiver", with(receiving(TO), vec![detach(1, true), Await("detach")])),
        script("detach a receiver, not closed", with(receiving(TO), vec![detach(1, false), Await("detach")])),
        script("detach twice", with(sending(FANOUT), vec![detach(0, true), Await("detach"), detach(0, true)])),
        script("detach an unknown handle", with(session([]), vec![detach(7, true)])),
        script("attach again after a detach", {
            let again = vec![say(sender(TO)), Await("attach"), Await("flow")];
            let mut steps = sending(FANOUT);
            steps.extend([detach(0, false), Await("detach")]);
            with(steps, again)
        }),
        script("a transfer after a detach", {
            with(
                sending(FANOUT),
                vec![detach(0, true), Await("detach"), send(&transfer(0, false), &plain()), Await("end")],
            )
        }),
        script("the answer to a refused attach's detach", {
            with(refused(sender(Some("/queues/golden10.none"))), vec![detach(0, true)])
        }),
        script("attach again after a refused attach", {
            let mut steps = refused(sender(Some("/queues/golden10.none")));
            steps.extend([detach(0, true), say(sender(FANOUT)), Await("attach"), Await("flow")]);
            steps
        }),
        script("the queue of a receiver is deleted", {
            let mut steps = receiving(TO);
            steps.extend([super::script::Step::Classic(super::settling::delete_queue), Await("detach")]);
            steps
        }),
        script("the queue of a sender is deleted", {
            let mut steps = sending(TO);
            steps.push(super::script::Step::Classic(super::settling::delete_queue));
            // Without this wait the transfer may arrive before the deletion, and be answered as RabbitMQ answers it.
            steps.push(super::script::Step::AwaitOurs("detach"));
            steps.push(send(&transfer(0, false), &plain()));
            steps
        }),
        script("a receiver's disposition with a sender's role", {
            let disposition = leveret_amqp10::performative::Disposition {
                role: leveret_amqp10::Role::Sender,
                first: 0,
                last: None,
                settled: true,
                state: Some(DeliveryState::Accepted),
                batchable: false,
            };
            with(sending(FANOUT), vec![say(disposition)])
        }),
    ]
}

fn permissions() -> Vec<Script> {
    let restricted = |name, steps| Script { restricted: true, ..script(name, steps) };
    vec![
        restricted("a restricted user's sender to a queue", refused(sender(TO))),
        restricted("a restricted user's sender to an exchange", refused(sender(FANOUT))),
        restricted(
            "a restricted user's sender to an unknown exchange",
            refused(sender(Some("/exchanges/golden10.none"))),
        ),
        restricted("a restricted user's sender to an unknown queue", refused(sender(Some("/queues/golden10.none")))),
        restricted("a restricted user's sender to nowhere", sending(None)),
        restricted("a restricted user's message by its to", {
            let to = leveret_amqp10::message::Properties { to: FANOUT, ..Default::default() };
            let mut steps = sending(None);
            steps.extend([send(&transfer(0, false), &super::script::message(&to)), Await("disposition or detach")]);
            steps
        }),
        restricted(
            "a restricted user's receiver from a queue that it may read",
            receiving(Some("/queues/golden10.read")),
        ),
        restricted("a restricted user's receiver from another queue", refused(receiver(TO))),
        restricted(
            "a restricted user's receiver from an unknown queue",
            refused(receiver(Some("/queues/golden10.none"))),
        ),
        restricted("a restricted user's temporary queue", {
            let source = Source { dynamic: true, capabilities: Symbols::of(TEMPORARY), ..Source::default() };
            refused(self::source(source))
        }),
    ]
}
