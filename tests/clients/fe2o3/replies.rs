//! Dynamic nodes, browsing and transactions.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::transaction::{
    Controller, Transaction, TransactionDischarge, TransactionPosting, TransactionRetirement,
};
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::{
    DeleteOnClose, DistributionMode, MessageId, Properties, Source, Target, TerminusExpiryPolicy,
};
use fe2o3_amqp::types::primitives::{Array, Symbol};
use fe2o3_amqp::{Receiver, Sender, Session};
use serde_json::json;

use super::session::{
    Cell, Client, Handle, Outcome, accepted, body, check, count, debug, equal, fails, message, send_numbers, take_text,
};

fn dynamic(capability: &str) -> Source {
    Source::builder()
        .dynamic(true)
        .expiry_policy(TerminusExpiryPolicy::LinkDetach)
        .capabilities(Array::from(vec![Symbol::from(capability)]))
        .add_lifetime_policy(DeleteOnClose::new())
        .build()
}

async fn temporary_queue(cell: &Cell, client: &mut Client) -> Outcome<Receiver> {
    cell.receiver(&mut client.session, dynamic("temporary-queue")).await
}

async fn volatile_queue(cell: &Cell, client: &mut Client) -> Outcome<Receiver> {
    let mut source = dynamic("rabbitmq:volatile-queue");
    source.dynamic_node_properties = None;
    Receiver::builder()
        .name(cell.unique())
        .source(source)
        .sender_settle_mode(SenderSettleMode::Settled)
        .credit_mode(CreditMode::Manual)
        .attach(&mut client.session)
        .await
        .map_err(debug)
}

fn address_of(receiver: &Receiver) -> Outcome<String> {
    let source = receiver.source().as_ref().ok_or("no source")?;
    source.address.clone().ok_or_else(|| "no address".into())
}

pub(crate) async fn dynamic_node(cell: &Cell) -> Outcome {
    let (mut client, mut other) = (cell.connect().await?, cell.connect().await?);
    let mut receiver = temporary_queue(cell, &mut client).await?;
    let address = address_of(&receiver)?;
    check(address.starts_with("/queues/"), format!("address {address}"))?;
    receiver.set_credit(1).await.map_err(debug)?;
    accepted(&mut cell.sender(&mut other.session, &address).await?, message("hello")).await?;
    take_text(&mut receiver, "hello").await?;
    let mut session = Session::begin(&mut other.connection).await.map_err(debug)?;
    fails(cell.receiver(&mut session, address.as_str()).await, "ResourceLocked", "")?;
    receiver.close().await.map_err(debug)?;
    let mut session = Session::begin(&mut other.connection).await.map_err(debug)?;
    fails(cell.receiver(&mut session, address.as_str()).await, "NotFound", "")
}

async fn anonymous(cell: &Cell, session: &mut Handle) -> Outcome<Sender> {
    let builder = Sender::builder().name(cell.unique()).target(Target::builder().build());
    builder.attach(session).await.map_err(debug)
}

async fn exchange_requests(cell: &Cell, mut client: Client, mut answers: Receiver) -> Outcome {
    let (_, requests) = cell.queue("requests", json!({})).await?;
    let mut server = cell.connect().await?;
    let mut asking = cell.sender(&mut client.session, &requests).await?;
    let mut asked = cell.receiver(&mut server.session, requests.as_str()).await?;
    let mut answering = anonymous(cell, &mut server.session).await?;
    answers.set_credit(3).await.map_err(debug)?;
    asked.set_credit(3).await.map_err(debug)?;
    for number in 0..3 {
        let id = MessageId::String(format!("m{number}"));
        let mut question = message(format!("question {number}"));
        let reply_to = Some(address_of(&answers)?);
        question.properties = Some(Properties { message_id: Some(id.clone()), reply_to, ..Properties::default() });
        accepted(&mut asking, question).await?;
        let question = take_text(&mut asked, format!("question {number}")).await?;
        let asked_with = question.message().properties.clone().ok_or("no properties")?;
        let mut answer = message(format!("answer {number}"));
        let (to, correlation_id) = (asked_with.reply_to, asked_with.message_id);
        answer.properties = Some(Properties { to, correlation_id, ..Properties::default() });
        accepted(&mut answering, answer).await?;
        asked.accept(&question).await.map_err(debug)?;
        let answer = take_text(&mut answers, format!("answer {number}")).await?;
        let properties = answer.message().properties.clone().ok_or("no properties")?;
        equal(properties.correlation_id, Some(id), "correlation-id")?;
        answers.accept(&answer).await.map_err(debug)?;
    }
    Ok(())
}

pub(crate) async fn request_reply(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    let answers = temporary_queue(cell, &mut client).await?;
    exchange_requests(cell, client, answers).await
}

pub(crate) async fn direct_reply_to(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    let answers = volatile_queue(cell, &mut client).await?;
    exchange_requests(cell, client, answers).await
}

pub(crate) async fn browse(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    send_numbers(&mut cell.sender(&mut client.session, &address).await?, 0, 5).await?;
    for _ in 0..2 {
        let source = Source::builder().address(address.as_str()).distribution_mode(DistributionMode::Copy).build();
        let mut browser = cell.receiver(&mut client.session, source).await?;
        browser.set_credit(10).await.map_err(debug)?;
        for number in 0..5 {
            let received = take_text(&mut browser, number).await?;
            browser.accept(&received).await.map_err(debug)?;
        }
        browser.close().await.map_err(debug)?;
    }
    equal(count(&name).await?, 5, "messages after browsing")?;
    for number in 0..5 {
        let received = cell.get(&mut client.session, &address).await?;
        let header = received.message().header.clone().ok_or("no header")?;
        equal(
            (body(&received), header.delivery_count, header.first_acquirer),
            (number.to_string(), 0, true),
            "consumed",
        )?;
    }
    Ok(())
}

pub(crate) async fn transactions(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let control = Controller::attach(&mut client.session, cell.unique()).await.map_err(debug)?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    for failed in [true, false] {
        let transaction = Transaction::declare(&control, None).await.map_err(debug)?;
        for number in 1..3 {
            transaction.post(&mut sender, message(number.to_string())).await.map_err(debug)?;
        }
        equal(count(&name).await?, 0, "messages before the discharge")?;
        let discharged = if failed { transaction.rollback().await } else { transaction.commit().await };
        discharged.map_err(debug)?;
        equal(count(&name).await?, if failed { 0 } else { 2 }, "messages after the discharge")?;
    }
    for failed in [true, false] {
        let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
        receiver.set_credit(1).await.map_err(debug)?;
        let received = take_text(&mut receiver, 1).await?;
        let transaction = Transaction::declare(&control, None).await.map_err(debug)?;
        transaction.accept(&mut receiver, &received).await.map_err(debug)?;
        let discharged = if failed { transaction.rollback().await } else { transaction.commit().await };
        discharged.map_err(debug)?;
        receiver.close().await.map_err(debug)?;
        equal(count(&name).await?, if failed { 2 } else { 1 }, "messages after the discharge of an acceptance")?;
    }
    Ok(())
}
