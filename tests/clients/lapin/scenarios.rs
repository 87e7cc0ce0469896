//! Scenarios without errors: declaring, publishing, consuming, and reconnecting.

use futures_lite::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions, BasicRejectOptions,
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
    QueuePurgeOptions,
};
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use lapin::{BasicProperties, Consumer, ExchangeKind};

use crate::session::{
    Outcome, Session, ask, barrier, body, check, confirming, connect, consume, count, durable, empty, equal, fails,
    mandatory, send, take, text, within,
};

const KINDS: [(&str, ExchangeKind); 4] = [
    ("direct", ExchangeKind::Direct),
    ("fanout", ExchangeKind::Fanout),
    ("topic", ExchangeKind::Topic),
    ("headers", ExchangeKind::Headers),
];

fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert((*key).into(), value.clone());
    }
    table
}

fn long(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub(crate) async fn declare(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let channel = confirming(&connection).await?;
    let name = session.queue(&channel).await?;
    let again = channel.queue_declare(name.as_str().into(), durable(), FieldTable::default()).await.map_err(text)?;
    equal((again.name().as_str(), again.message_count(), again.consumer_count()), (&*name, 0, 0), "declare-ok")?;
    equal(count(&channel, &name).await?, 0, "passive declare")?;
    for (kind_name, kind) in KINDS {
        let exchange = format!("{}.{kind_name}", session.prefix);
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        for options in [options, options, ExchangeDeclareOptions { passive: true, ..options }] {
            let declared =
                channel.exchange_declare(exchange.as_str().into(), kind.clone(), options, FieldTable::default());
            declared.await.map_err(text)?;
        }
        let arguments = match kind {
            ExchangeKind::Headers => table(&[("x-match", long("all")), ("k", AMQPValue::LongInt(1))]),
            _ => FieldTable::default(),
        };
        let (queue, options) = (name.as_str().into(), QueueBindOptions::default());
        channel.queue_bind(queue, exchange.as_str().into(), "a.b".into(), options, arguments).await.map_err(text)?;
        let properties = BasicProperties::default().with_headers(table(&[("k", AMQPValue::LongInt(1))]));
        let publish = channel.basic_publish(exchange.as_str().into(), "a.b".into(), mandatory(), b"x", properties);
        let confirmation = publish.await.map_err(text)?.await.map_err(text)?;
        check(confirmation.take_message().is_none(), format!("unroutable through {kind_name}"))?;
    }
    equal(count(&channel, &name).await?, 4, "messages through four exchanges")?;
    let direct = format!("{}.direct", session.prefix);
    let (queue, exchange) = (name.as_str().into(), direct.as_str().into());
    channel.queue_unbind(queue, exchange, "a.b".into(), FieldTable::default()).await.map_err(text)?;
    let publish =
        channel.basic_publish(direct.as_str().into(), "a.b".into(), mandatory(), b"x", BasicProperties::default());
    let returned = publish.await.map_err(text)?.await.map_err(text)?.take_message();
    equal(returned.map(|message| message.reply_code), Some(312), "an unbound key")?;
    let purged = channel.queue_purge(name.as_str().into(), QueuePurgeOptions::default()).await.map_err(text)?;
    equal(purged, 4, "purge")?;
    let own = channel.queue_declare("".into(), QueueDeclareOptions::exclusive(), FieldTable::default());
    let own = own.await.map_err(text)?.name().clone();
    check(own.as_str().starts_with("amq.gen-"), format!("server-named queue {own}"))?;

    let words = "PRECONDITION_FAILED - inequivalent arg";
    let queue = name.clone();
    fails(&connection, 406, &format!("{words} 'durable' for queue"), |c| async move {
        c.queue_declare(queue.as_str().into(), QueueDeclareOptions::default(), FieldTable::default()).await
    })
    .await?;
    let queue = name.clone();
    fails(&connection, 406, &format!("{words} 'x-max-length' for queue"), |c| async move {
        c.queue_declare(queue.as_str().into(), durable(), table(&[("x-max-length", AMQPValue::LongInt(5))])).await
    })
    .await?;
    fails(&connection, 406, &format!("{words} 'type' for exchange"), |c| async move {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        c.exchange_declare(direct.as_str().into(), ExchangeKind::Fanout, options, FieldTable::default()).await
    })
    .await?;
    for (kind_name, _) in KINDS {
        let exchange = format!("{}.{kind_name}", session.prefix);
        channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await.map_err(text)?;
    }
    channel.queue_delete(own.clone(), QueueDeleteOptions::default()).await.map_err(text)?;
    fails(&connection, 404, "NOT_FOUND - no queue", |c| async move { count(&c, own.as_str()).await }).await
}

pub(crate) async fn publish_confirm(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let name = session.queue(&channel).await?;
    let mut confirms = Vec::new();
    for number in 0..100 {
        let properties = BasicProperties::default().with_delivery_mode(2);
        let payload = number.to_string();
        let publish =
            channel.basic_publish("".into(), name.as_str().into(), mandatory(), payload.as_bytes(), properties);
        confirms.push(publish.await.map_err(text)?);
    }
    for confirm in confirms {
        check(within("a confirm", confirm).await?.map_err(text)?.is_ack(), "a publish was refused")?;
    }
    equal(count(&channel, &name).await?, 100, "messages")?;
    for number in 0..100 {
        let message = take(&channel, &name, true).await?;
        equal(body(&message), number.to_string(), "body in order")?;
        equal(*message.delivery.properties.delivery_mode(), Some(2), "delivery mode")?;
    }
    Ok(())
}

pub(crate) async fn mandatory_return(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let key = format!("{}.nowhere", session.prefix);
    let properties = BasicProperties::default().with_message_id("m".into());
    let publish = channel.basic_publish("amq.direct".into(), key.as_str().into(), mandatory(), b"back", properties);
    // The client hands the return over with the confirm; a return after it would be missing here.
    let confirmation = within("a confirm", publish.await.map_err(text)?).await?.map_err(text)?;
    let returned = confirmation.take_message().ok_or("no return before the confirm")?;
    equal((returned.reply_code, returned.reply_text.as_str()), (312, "NO_ROUTE"), "reason")?;
    let delivery = returned.delivery;
    equal((delivery.exchange.as_str(), delivery.routing_key.as_str()), ("amq.direct", &*key), "address")?;
    equal(delivery.data.as_slice(), b"back".as_slice(), "body")?;
    equal(delivery.properties.message_id().as_ref().map(|id| id.as_str()), Some("m"), "message id")?;
    let options = BasicPublishOptions::default();
    let publish =
        channel.basic_publish("amq.direct".into(), key.as_str().into(), options, b"x", BasicProperties::default());
    let confirmation = publish.await.map_err(text)?.await.map_err(text)?;
    check(confirmation.is_ack() && confirmation.take_message().is_none(), "a return without mandatory")
}

async fn next(consumer: &mut Consumer) -> Outcome<lapin::message::Delivery> {
    within("a delivery", consumer.next()).await?.ok_or("the deliveries ended")?.map_err(text)
}

pub(crate) async fn ack(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let channel = confirming(&connection).await?;
    let name = session.queue(&channel).await?;
    send(&channel, &name, &[b"1", b"2", b"3", b"4", b"5"]).await?;
    let receiver = connection.create_channel().await.map_err(text)?;
    let mut consumer = consume(&receiver, &name, "").await.map_err(text)?;
    for number in 1..=5_u64 {
        let delivery = next(&mut consumer).await?;
        let expected = number.to_string().into_bytes();
        equal((delivery.delivery_tag, delivery.redelivered, delivery.data), (number, false, expected), "delivery")?;
    }
    receiver.basic_ack(1, BasicAckOptions::default()).await.map_err(text)?;
    receiver.basic_ack(3, BasicAckOptions { multiple: true }).await.map_err(text)?;
    receiver.close(200, "".into()).await.map_err(text)?;
    let again = connection.create_channel().await.map_err(text)?;
    for expected in ["4", "5"] {
        let message = take(&again, &name, false).await?;
        equal((message.delivery.redelivered, body(&message).as_str()), (true, expected), "redelivery")?;
        message.delivery.acker.ack(BasicAckOptions::default()).await.map_err(text)?;
    }
    empty(&again, &name).await?;
    again.close(200, "".into()).await.map_err(text)?;
    equal(count(&channel, &name).await?, 0, "messages")
}

pub(crate) async fn nack_requeue(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let name = session.queue(&channel).await?;
    send(&channel, &name, &[b"1", b"2", b"3", b"4"]).await?;
    let requeue = |multiple| BasicNackOptions { multiple, requeue: true };
    let _first = take(&channel, &name, false).await?;
    let second = take(&channel, &name, false).await?;
    let _third = take(&channel, &name, false).await?;
    second.delivery.acker.nack(requeue(false)).await.map_err(text)?;
    let again = take(&channel, &name, false).await?;
    equal((body(&again).as_str(), again.delivery.redelivered), ("2", true), "the place of 2 is before 4")?;
    again.delivery.acker.nack(requeue(true)).await.map_err(text)?;
    for expected in [("1", true), ("2", true), ("3", true), ("4", false)] {
        let message = take(&channel, &name, false).await?;
        equal((body(&message).as_str(), message.delivery.redelivered), expected, "order after nack multiple")?;
        message.delivery.acker.ack(BasicAckOptions::default()).await.map_err(text)?;
    }
    send(&channel, &name, &[b"5"]).await?;
    take(&channel, &name, false).await?.delivery.acker.nack(BasicNackOptions::default()).await.map_err(text)?;
    empty(&channel, &name).await
}

pub(crate) async fn reject(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let name = session.queue(&channel).await?;
    send(&channel, &name, &[b"1", b"2"]).await?;
    let first = take(&channel, &name, false).await?;
    first.delivery.acker.reject(BasicRejectOptions { requeue: true }).await.map_err(text)?;
    let again = take(&channel, &name, false).await?;
    equal((body(&again).as_str(), again.delivery.redelivered), ("1", true), "requeued")?;
    again.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.map_err(text)?;
    let next = take(&channel, &name, true).await?;
    equal((body(&next).as_str(), next.delivery.redelivered), ("2", false), "next")?;
    empty(&channel, &name).await
}

pub(crate) async fn prefetch(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let publisher = confirming(&connection).await?;
    let name = session.queue(&publisher).await?;
    let bodies: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    send(&publisher, &name, &bodies.iter().map(String::as_bytes).collect::<Vec<_>>()).await?;
    let channel = connection.create_channel().await.map_err(text)?;
    channel.basic_qos(3, BasicQosOptions::default()).await.map_err(text)?;
    let mut consumer = consume(&channel, &name, "").await.map_err(text)?;
    for expected in &bodies[..3] {
        equal(&next(&mut consumer).await?.data, &expected.as_bytes().to_vec(), "order")?;
    }
    equal(count(&channel, &name).await?, 7, "ready while 3 are unacknowledged")?;
    channel.basic_ack(2, BasicAckOptions { multiple: true }).await.map_err(text)?;
    for expected in &bodies[3..5] {
        equal(&next(&mut consumer).await?.data, &expected.as_bytes().to_vec(), "order")?;
    }
    equal(count(&channel, &name).await?, 5, "ready after 2 acks")
}

pub(crate) async fn get(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let name = session.queue(&channel).await?;
    empty(&channel, &name).await?;
    send(&channel, &name, &[b"1", b"2"]).await?;
    let first = take(&channel, &name, false).await?;
    equal((first.message_count, first.delivery.redelivered, body(&first).as_str()), (1, false, "1"), "get-ok")?;
    equal((first.delivery.exchange.as_str(), first.delivery.routing_key.as_str()), ("", &*name), "address")?;
    first.delivery.acker.ack(BasicAckOptions::default()).await.map_err(text)?;
    let last = take(&channel, &name, true).await?;
    equal((last.message_count, body(&last).as_str()), (0, "2"), "the last")?;
    empty(&channel, &name).await
}

pub(crate) async fn big_body(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let name = session.queue(&channel).await?;
    let big: Vec<u8> = (0..5 * 1024 * 1024_usize).map(|i| (i * 7 + i / 251).to_le_bytes()[0]).collect();
    let bodies: [&[u8]; 3] = [&big, b"after", &big];
    send(&channel, &name, &bodies).await?;
    for expected in bodies {
        let message = take(&channel, &name, false).await?;
        check(message.delivery.data == expected, format!("a body of {} bytes differs", message.delivery.data.len()))?;
        message.delivery.acker.ack(BasicAckOptions::default()).await.map_err(text)?;
    }
    Ok(())
}

pub(crate) async fn headers(session: &Session) -> Outcome {
    let channel = session.confirming().await?;
    let name = session.queue(&channel).await?;
    let every: Vec<u8> = (0..=255).collect();
    let list = vec![AMQPValue::LongInt(1), long("zwei ✓"), AMQPValue::FieldArray(vec![AMQPValue::Void].into())];
    let sent = table(&[
        ("unicode ключ", long("wert ✓ 𝄞")),
        ("binary string", AMQPValue::LongString(every.clone().into())),
        ("binary", AMQPValue::ByteArray(ByteArray::from(every))),
        ("true", AMQPValue::Boolean(true)),
        ("false", AMQPValue::Boolean(false)),
        ("i8", AMQPValue::ShortShortInt(i8::MIN)),
        ("u8", AMQPValue::ShortShortUInt(u8::MAX)),
        ("i16", AMQPValue::ShortInt(i16::MIN)),
        ("u16", AMQPValue::ShortUInt(u16::MAX)),
        ("i32", AMQPValue::LongInt(i32::MIN)),
        ("u32", AMQPValue::LongUInt(u32::MAX)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("float", AMQPValue::Float(2.5)),
        ("double", AMQPValue::Double(0.1)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 })),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
        ("void", AMQPValue::Void),
        ("list", AMQPValue::FieldArray(FieldArray::from(list))),
        ("table", AMQPValue::FieldTable(table(&[("a", AMQPValue::FieldTable(table(&[("b", long("tief"))])))]))),
        ("empty", long("")),
        ("long", long(&"x".repeat(70_000))),
    ]);
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_headers(sent)
        .with_delivery_mode(2)
        .with_priority(9)
        .with_correlation_id("korrelation ✓".into())
        .with_reply_to("antwort".into())
        .with_message_id("id".into())
        .with_timestamp(1_700_000_000)
        .with_type("art".into())
        .with_user_id("guest".into())
        .with_app_id("app ✓".into())
        .with_cluster_id("cluster".into());
    let content = "inhalt ✓".as_bytes();
    let publish = channel.basic_publish("".into(), name.as_str().into(), mandatory(), content, properties.clone());
    within("a confirm", publish.await.map_err(text)?).await?.map_err(text)?;
    let message = take(&channel, &name, false).await?;
    equal(message.delivery.data.as_slice(), content, "body")?;
    equal(&message.delivery.properties, &properties, "properties")?;
    message.delivery.acker.ack(BasicAckOptions::default()).await.map(drop).map_err(text)
}

pub(crate) async fn exclusive(session: &Session) -> Outcome {
    let (owner, other) = (session.connect().await?, session.connect().await?);
    let channel = owner.create_channel().await.map_err(text)?;
    let name = &session.exclusive_queue(&channel, "q").await?;
    let words = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue";
    fails(&other, 405, words, |c| async move { count(&c, name).await }).await?;
    fails(&other, 405, words, |c| async move { empty(&c, name).await }).await?;
    let purge =
        |c: lapin::Channel| async move { c.queue_purge(name.as_str().into(), QueuePurgeOptions::default()).await };
    fails(&other, 405, words, purge).await?;
    equal(count(&channel, name).await?, 0, "messages for the owner")?;
    owner.close(200, "".into()).await.map_err(text)?;
    fails(&other, 404, "NOT_FOUND - no queue", |c| async move { count(&c, name).await }).await?;
    let channel = other.create_channel().await.map_err(text)?;
    session.exclusive_queue(&channel, "q").await.map(drop)
}

pub(crate) async fn reconnect(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let channel = confirming(&connection).await?;
    let name = session.queue(&channel).await?;
    let transient = &session.exclusive_queue(&channel, "transient").await?;
    send(&channel, &name, &[b"before"]).await?;
    send(&channel, transient, &[b"lost"]).await?;
    let mut events = Box::pin(connection.events_listener());
    ask("ready kill", "go").await?;
    within("the end of the connection", events.next()).await?;
    let connection = session.connect().await?;
    let channel = confirming(&connection).await?;
    equal(count(&channel, &name).await?, 1, "messages after the restart")?;
    let message = take(&channel, &name, false).await?;
    equal(body(&message).as_str(), "before", "the message")?;
    message.delivery.acker.ack(BasicAckOptions::default()).await.map_err(text)?;
    send(&channel, &name, &[b"after"]).await?;
    equal(body(&take(&channel, &name, true).await?).as_str(), "after", "a message of the second life")?;
    fails(&connection, 404, "NOT_FOUND - no queue", |c| async move { count(&c, transient).await }).await
}

pub(crate) async fn heartbeat_loss(session: &Session) -> Outcome {
    let connection = connect(&format!("{}?heartbeat=1", session.uri)).await.map_err(text)?;
    barrier(&connection).await?;
    let mut events = Box::pin(connection.events_listener());
    ask("mute", "closed").await?;
    within("the end of the connection", events.next()).await.map(drop)
}
