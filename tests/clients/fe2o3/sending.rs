//! Senders and the outcomes that they get.

use fe2o3_amqp::link::delivery::Sendable;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::{Data, Message, Outcome as State, Properties, Target};
use fe2o3_amqp::{Sender, Session};
use serde_json::json;

use super::session::{
    Cell, Outcome, accepted, annotation, body, check, count, debug, equal, message, peer, send, send_numbers, take,
    take_text,
};

pub(crate) async fn sessions(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    let mut other = Session::begin(&mut client.connection).await.map_err(debug)?;
    let mut links = Vec::new();
    for (name, session) in [("a", &mut client.session), ("b", &mut other)] {
        let (_, address) = cell.queue(name, json!({})).await?;
        let mut receiver = cell.receiver(session, address.as_str()).await?;
        receiver.set_credit(20).await.map_err(debug)?;
        links.push((cell.sender(session, &address).await?, receiver));
    }
    for (sender, receiver) in &mut links {
        send_numbers(sender, 0, 10).await?;
        for number in 0..10 {
            let received = take_text(receiver, number).await?;
            receiver.accept(&received).await.map_err(debug)?;
        }
    }
    client.session.end().await.map_err(debug)?;
    let (sender, receiver) = &mut links[1];
    send_numbers(sender, 10, 20).await?;
    for number in 10..20 {
        take_text(receiver, number).await?;
    }
    Ok(())
}

pub(crate) async fn many_links(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    let mut links = Vec::new();
    for number in 0..50 {
        let (_, address) = cell.queue(&number.to_string(), json!({})).await?;
        let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
        receiver.set_credit(5).await.map_err(debug)?;
        links.push((cell.sender(&mut client.session, &address).await?, receiver));
    }
    for (number, (sender, _)) in links.iter_mut().enumerate() {
        accepted(sender, message(format!("for {number}"))).await?;
    }
    for (number, (_, receiver)) in links.iter_mut().enumerate() {
        take_text(receiver, format!("for {number}")).await?;
    }
    Ok(())
}

pub(crate) async fn publish(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    send_numbers(&mut cell.sender(&mut client.session, &address).await?, 0, 100).await?;
    equal(count(&name).await?, 100, "messages")?;
    let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
    receiver.set_credit(100).await.map_err(debug)?;
    for number in 0..100 {
        let received = take_text(&mut receiver, number).await?;
        check(received.message().header.as_ref().is_some_and(|header| header.durable), "the durable flag is lost")?;
    }
    Ok(())
}

pub(crate) async fn settled_publish(cell: &Cell) -> Outcome {
    let (_, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut sender = Sender::builder()
        .name(cell.unique())
        .target(address.as_str())
        .sender_settle_mode(SenderSettleMode::Settled)
        .attach(&mut client.session)
        .await
        .map_err(debug)?;
    send_numbers(&mut sender, 0, 100).await?;
    let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
    receiver.set_credit(102).await.map_err(debug)?;
    for number in 0..100 {
        take_text(&mut receiver, number).await?;
    }
    let mut mixed = cell.sender(&mut client.session, &address).await?;
    let settled = Sendable::builder().message(message("settled")).settled(true).build();
    accepted(&mut mixed, settled).await?;
    accepted(&mut mixed, message("unsettled")).await?;
    take_text(&mut receiver, "settled").await?;
    take_text(&mut receiver, "unsettled").await?;
    Ok(())
}

pub(crate) async fn exchange_target(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let (exchange, fanout) = (format!("{}.x ä/%", cell.prefix), format!("{}.f", cell.prefix));
    peer(json!({"do": "exchange", "exchange": exchange, "type": "direct"})).await?;
    peer(json!({"do": "exchange", "exchange": fanout, "type": "fanout"})).await?;
    peer(json!({"do": "bind", "queue": name, "exchange": exchange, "key": "k ü/?&"})).await?;
    peer(json!({"do": "bind", "queue": name, "exchange": fanout, "key": ""})).await?;
    let mut client = cell.connect().await?;
    let target = format!("/exchanges/{}.x%20%C3%A4%2F%25/k%20%C3%BC%2F%3F%26", cell.prefix);
    accepted(&mut cell.sender(&mut client.session, &target).await?, message("direct")).await?;
    let received = cell.get(&mut client.session, &address).await?;
    equal(annotation(&received, "x-exchange"), exchange, "x-exchange")?;
    equal(annotation(&received, "x-routing-key"), "k ü/?&".to_owned(), "x-routing-key")?;
    let target = format!("/exchanges/{fanout}");
    accepted(&mut cell.sender(&mut client.session, &target).await?, message("fanout")).await?;
    let received = cell.get(&mut client.session, &address).await?;
    equal(annotation(&received, "x-exchange"), fanout, "x-exchange of the fanout")
}

fn addressed(to: Option<&str>) -> Message<Data> {
    let mut message = message("x");
    message.properties = Some(Properties { to: to.map(Into::into), ..Properties::default() });
    message
}

pub(crate) async fn anonymous_terminus(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    peer(json!({"do": "bind", "queue": name, "exchange": "amq.direct", "key": format!("{}.k", cell.prefix)})).await?;
    let mut client = cell.connect().await?;
    let anonymous = Target::builder().build();
    let mut sender =
        Sender::builder().name(cell.unique()).target(anonymous).attach(&mut client.session).await.map_err(debug)?;
    let prefix = &cell.prefix;
    accepted(&mut sender, addressed(Some(&address))).await?;
    accepted(&mut sender, addressed(Some(&format!("/exchanges/amq.direct/{prefix}.k")))).await?;
    for nowhere in [format!("/exchanges/amq.direct/{prefix}.nowhere"), format!("/queues/{prefix}.missing")] {
        let outcome = send(&mut sender, addressed(Some(&nowhere))).await?;
        check(matches!(outcome, State::Released(_)), format!("to {nowhere}: {outcome:?}"))?;
    }
    let missing = format!("/exchanges/{prefix}.missing/k");
    for (to, condition) in
        [(Some(missing.as_str()), "NotFound"), (None, "PreconditionFailed"), (Some("/nothing/x"), "PreconditionFailed")]
    {
        let outcome = send(&mut sender, addressed(to)).await?;
        check(matches!(outcome, State::Rejected(_)), format!("to {to:?}: {outcome:?}"))?;
        check(debug(&outcome).contains(condition), format!("to {to:?}: {outcome:?}"))?;
    }
    accepted(&mut sender, addressed(Some(&address))).await?;
    equal(count(&name).await?, 3, "messages")
}

pub(crate) async fn unroutable(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let key = format!("{}.nowhere", cell.prefix);
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &format!("/exchanges/amq.direct/{key}")).await?;
    let outcome = send(&mut sender, message("lost")).await?;
    check(matches!(outcome, State::Released(_)), format!("outcome {outcome:?}"))?;
    peer(json!({"do": "bind", "queue": name, "exchange": "amq.direct", "key": key})).await?;
    accepted(&mut sender, message("found")).await?;
    equal(body(&cell.get(&mut client.session, &address).await?), "found".to_owned(), "body")
}

pub(crate) async fn rejected(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({"x-max-length": 1, "x-overflow": "reject-publish"})).await?;
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    accepted(&mut sender, message("x")).await?;
    for _ in 0..9 {
        let State::Rejected(rejected) = send(&mut sender, message("x")).await? else { continue };
        let error = rejected.error.ok_or("no error")?;
        let shown = debug(&error);
        for word in ["ResourceLimitExceeded", "maxlen", name.as_str()] {
            check(shown.contains(word), format!("{shown} has no {word}"))?;
        }
        let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
        receiver.set_credit(1).await.map_err(debug)?;
        take(&mut receiver).await?;
        return Ok(());
    }
    Err("a full queue takes everything".into())
}
