//! Receivers: outcomes, credit, and what becomes of a message that isn't accepted.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::definitions::{Fields, SenderSettleMode};
use fe2o3_amqp::types::messaging::{Header, Modified};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use fe2o3_amqp::{Receiver, Session};
use serde_json::json;

use super::session::{
    Cell, Handle, Outcome, Received, accepted, body, check, count, debug, equal, fails, message, send_numbers, take,
    take_text, within,
};

fn counts(received: &Received) -> (String, u32, bool) {
    let header = received.message().header.clone().unwrap_or_default();
    (body(received), header.delivery_count, header.first_acquirer)
}

fn modified(failed: bool, undeliverable: bool) -> Modified {
    Modified { delivery_failed: Some(failed), undeliverable_here: Some(undeliverable), message_annotations: None }
}

async fn next(receiver: &mut Receiver, expected: (&str, u32, bool)) -> Outcome<Received> {
    receiver.set_credit(1).await.map_err(debug)?;
    let received = take(receiver).await?;
    equal(counts(&received), (expected.0.to_owned(), expected.1, expected.2), "the message and its counts")?;
    Ok(received)
}

pub(crate) async fn outcomes(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    send_numbers(&mut cell.sender(&mut client.session, &address).await?, 1, 6).await?;
    let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
    let one = next(&mut receiver, ("1", 0, true)).await?;
    receiver.accept(&one).await.map_err(debug)?;
    let two = next(&mut receiver, ("2", 0, true)).await?;
    receiver.reject(&two, None).await.map_err(debug)?;
    let three = next(&mut receiver, ("3", 0, true)).await?;
    receiver.release(&three).await.map_err(debug)?;
    let three = next(&mut receiver, ("3", 0, false)).await?;
    receiver.modify(&three, modified(true, false)).await.map_err(debug)?;
    let three = next(&mut receiver, ("3", 1, false)).await?;
    receiver.accept(&three).await.map_err(debug)?;
    let four = next(&mut receiver, ("4", 0, true)).await?;
    receiver.modify(&four, modified(true, true)).await.map_err(debug)?;
    let five = next(&mut receiver, ("5", 0, true)).await?;
    receiver.accept(&five).await.map_err(debug)?;
    receiver.close().await.map_err(debug)?;
    equal(count(&name).await?, 0, "messages")
}

pub(crate) async fn ttl(cell: &Cell) -> Outcome {
    let (dead, dead_address) = cell.queue("dead", json!({})).await?;
    let arguments = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead});
    let (_, address) = cell.queue("q", arguments).await?;
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    let with = |header: Header| {
        let mut message = message("x");
        message.header = Some(header);
        message
    };
    accepted(&mut sender, with(Header { ttl: Some(1), ..Header::default() })).await?;
    let mut expired = cell.receiver(&mut client.session, dead_address.as_str()).await?;
    expired.set_credit(1).await.map_err(debug)?;
    // The library can't decode the array of deaths: that it says so shows that the message came.
    fails(take(&mut expired).await, "MessageDecode", "")?;
    accepted(&mut sender, with(Header { durable: true, ttl: Some(600_000), ..Header::default() })).await?;
    accepted(&mut sender, with(Header::default())).await?;
    accepted(&mut sender, with(Header { priority: 9.into(), ..Header::default() })).await?;
    let mut headers = Vec::new();
    for _ in 0..3 {
        headers.push(cell.get(&mut client.session, &address).await?.message().header.clone().ok_or("no header")?);
    }
    check(headers[0].ttl.is_some_and(|ttl| ttl > 0 && ttl <= 600_000), format!("ttl {:?}", headers[0].ttl))?;
    equal((headers[0].durable, headers[1].durable), (true, false), "durable")?;
    equal((headers[1].priority.0, headers[2].priority.0), (4, 9), "priority")
}

async fn ten(cell: &Cell, session: &mut Handle, address: &str) -> Outcome<Receiver> {
    let mut receiver = cell.receiver(session, address).await?;
    receiver.set_credit(10).await.map_err(debug)?;
    for number in 0..10 {
        take_text(&mut receiver, number).await?;
    }
    Ok(receiver)
}

pub(crate) async fn detach_requeues(cell: &Cell) -> Outcome {
    let (_, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    send_numbers(&mut cell.sender(&mut client.session, &address).await?, 0, 10).await?;
    ten(cell, &mut client.session, &address).await?.close().await.map_err(debug)?;
    let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
    let receiver = ten(cell, &mut session, &address).await?;
    session.end().await.map_err(debug)?;
    drop(receiver);
    let mut other = cell.connect().await?;
    let receiver = ten(cell, &mut other.session, &address).await?;
    other.connection.close().await.map_err(debug)?;
    drop(receiver);
    ten(cell, &mut client.session, &address).await.map(drop)
}

pub(crate) async fn credit(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    send_numbers(&mut sender, 0, 20).await?;
    let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
    receiver.set_credit(1).await.map_err(debug)?;
    let first = take_text(&mut receiver, 0).await?;
    receiver.accept(&first).await.map_err(debug)?;
    // The queue takes this in after the settlement: had that granted anything, it would show in the count.
    send_numbers(&mut sender, 20, 21).await?;
    equal(count(&name).await?, 20, "messages after settling")?;
    receiver.set_credit(10).await.map_err(debug)?;
    for number in 1..11 {
        let received = take_text(&mut receiver, number).await?;
        receiver.accept(&received).await.map_err(debug)?;
    }
    send_numbers(&mut sender, 21, 22).await?;
    equal(count(&name).await?, 11, "messages after settling ten")?;
    receiver.set_credit(20).await.map_err(debug)?;
    for number in 11..22 {
        take_text(&mut receiver, number).await?;
    }
    send_numbers(&mut sender, 22, 23).await?;
    take_text(&mut receiver, 22).await.map(drop)
}

pub(crate) async fn settled_receive(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    send_numbers(&mut cell.sender(&mut client.session, &address).await?, 0, 10).await?;
    let mut receiver = Receiver::builder()
        .name(cell.unique())
        .source(address.as_str())
        .sender_settle_mode(SenderSettleMode::Settled)
        .credit_mode(CreditMode::Manual)
        .attach(&mut client.session)
        .await
        .map_err(debug)?;
    receiver.set_credit(11).await.map_err(debug)?;
    for number in 0..10 {
        take_text(&mut receiver, number).await?;
    }
    receiver.close().await.map_err(debug)?;
    equal(count(&name).await?, 0, "messages")
}

/// A receiver that grants this credit again and again.
async fn automatic(cell: &Cell, session: &mut Handle, address: &str, credit: u32) -> Outcome<Receiver> {
    let builder = Receiver::builder().name(cell.unique()).source(address).credit_mode(CreditMode::Auto(credit));
    builder.attach(session).await.map_err(debug)
}

pub(crate) async fn two_receivers(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    let mut links = Vec::new();
    for name in ["a", "b"] {
        let (_, address) = cell.queue(name, json!({})).await?;
        let receiver = automatic(cell, &mut client.session, &address, 10).await?;
        links.push((cell.sender(&mut client.session, &address).await?, receiver));
    }
    for (sender, _) in &mut links {
        send_numbers(sender, 0, 200).await?;
    }
    for number in 0..200 {
        for (_, receiver) in &mut links {
            let received = take_text(receiver, number).await?;
            receiver.accept(&received).await.map_err(debug)?;
        }
    }
    let (_, address) = cell.queue("both", json!({})).await?;
    let mut both = Vec::new();
    for _ in 0..2 {
        let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
        receiver.set_credit(10).await.map_err(debug)?;
        both.push(receiver);
    }
    send_numbers(&mut cell.sender(&mut client.session, &address).await?, 0, 20).await?;
    let mut seen = Vec::new();
    for receiver in &mut both {
        for _ in 0..10 {
            seen.push(body(&take(receiver).await?).parse::<u32>().map_err(debug)?);
        }
    }
    seen.sort_unstable();
    equal(seen, (0..20).collect(), "shared messages")
}

pub(crate) async fn consumer_priority(cell: &Cell) -> Outcome {
    let (_, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut low = cell.receiver(&mut client.session, address.as_str()).await?;
    let mut priority = Fields::new();
    priority.insert(Symbol::from("rabbitmq:priority"), Value::from(5i32));
    let mut high = Receiver::builder()
        .name(cell.unique())
        .source(address.as_str())
        .properties(priority)
        .credit_mode(CreditMode::Manual)
        .attach(&mut client.session)
        .await
        .map_err(debug)?;
    low.set_credit(10).await.map_err(debug)?;
    high.set_credit(10).await.map_err(debug)?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    send_numbers(&mut sender, 0, 15).await?;
    for number in 0..10 {
        take_text(&mut high, number).await?;
    }
    for number in 10..15 {
        take_text(&mut low, number).await?;
    }
    Ok(())
}

pub(crate) async fn backlog(cell: &Cell) -> Outcome {
    const NUMBER: u32 = 20_000;
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    let mut outcomes = Vec::new();
    for number in 0..NUMBER {
        let sending = sender.send_batchable(message(number.to_string()));
        outcomes.push(within("credit to send", sending).await?.map_err(debug)?);
    }
    for outcome in outcomes {
        let outcome = within("an outcome", outcome).await?.map_err(debug)?;
        check(outcome.is_accepted(), format!("outcome {outcome:?}"))?;
    }
    equal(count(&name).await?, u64::from(NUMBER), "messages")?;
    let mut receiver = automatic(cell, &mut client.session, &address, 100).await?;
    for number in 0..NUMBER {
        let received = take_text(&mut receiver, number).await?;
        receiver.accept(&received).await.map_err(debug)?;
    }
    receiver.close().await.map_err(debug)?;
    equal(count(&name).await?, 0, "messages after the last")
}
