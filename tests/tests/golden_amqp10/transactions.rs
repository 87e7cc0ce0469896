//! Transactions, which RabbitMQ refuses.

use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::performative::{Attach, Transfer};
use leveret_amqp10::transaction::{Declare, TransactionRequest};
use leveret_amqp10::{Coordinator, DeliveryState, Outcome, Symbol, Symbols, TargetArchetype};

use super::script::Step::Await;
use super::script::{
    FANOUT, Script, Step, disposition, plain, received, say, script, send, sender, sending, session, transfer,
};

const LOCAL: &[Symbol<'static>] = &[Symbol::new("amqp:local-transactions")];

fn coordinator() -> Attach<'static> {
    let target = TargetArchetype::Coordinator(Coordinator { capabilities: Symbols::of(LOCAL) });
    Attach { name: "transactions", target: Some(target), ..sender(None) }
}

fn request(request: TransactionRequest<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    write_value_raw(&mut payload, |out| request.encode(out));
    payload
}

pub(crate) fn scripts() -> Vec<Script> {
    let with = |mut steps: Vec<Step>, more: Vec<Step>| {
        steps.extend(more);
        steps
    };
    vec![
        script("a coordinator", super::script::refused(coordinator())),
        script("a transaction is declared", {
            let declare = request(TransactionRequest::Declare(Declare { global_id: None }));
            session([
                say(coordinator()),
                Await("attach"),
                send(&transfer(0, false), &declare),
                Await("disposition or detach"),
            ])
        }),
        script("a message in an unknown transaction", {
            let state = DeliveryState::Transactional { txn_id: b"nobody's", outcome: None };
            let transfer = Transfer { state: Some(state), ..transfer(0, false) };
            with(sending(FANOUT), vec![send(&transfer, &plain()), Await("disposition or detach")])
        }),
        script("an outcome in an unknown transaction", {
            let state = DeliveryState::Transactional { txn_id: b"nobody's", outcome: Some(Outcome::Accepted) };
            with(received(1), vec![disposition(0, None, true, Some(state))])
        }),
    ]
}
