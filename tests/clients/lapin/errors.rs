//! The error path of each reply code that a client can provoke.

use futures_lite::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicRecoverOptions, BasicRejectOptions,
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Event, ExchangeKind};

use crate::session::{
    Outcome, Session, ask, barrier, check, connect, consume, count, durable, empty, fails, is, send, take, text, within,
};

pub(crate) async fn run(session: &Session, scenario: &str) -> Outcome {
    match scenario {
        "error_320" => error_320(session).await,
        "error_403" => error_403(session).await,
        "error_404" => error_404(session).await,
        "error_405" => error_405(session).await,
        "error_406" => error_406(session).await,
        // queue.declare on channel 1, with 00 where the end mark belongs
        "error_501" => injected(session, 501, "FRAME_ERROR", "0100010000000c0032000a000000000000000000").await,
        // queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501, the specification 502
        "error_502" => injected(session, 501, "FRAME_ERROR - cannot decode", "010001000000080032000a0000ff61ce").await,
        // queue.declare-ok, which only a broker sends
        "error_503" => injected(session, 503, "COMMAND_INVALID", "0100010000000e0032000b01610000000000000000ce").await,
        // channel.open on channel 1, which is open
        "error_504" => {
            injected(session, 504, "CHANNEL_ERROR - second 'channel.open' seen", "010001000000050014000a00ce").await
        }
        // a content header on channel 1 without a method before it
        "error_505" => injected(session, 505, "UNEXPECTED_FRAME", "0200010000000e003c000000000000000000000000ce").await,
        "error_530" => error_530(session).await,
        "error_540" => error_540(session).await,
        _ => Err("no such scenario".into()),
    }
}

async fn injected(session: &Session, code: u16, words: &str, frame: &str) -> Outcome {
    let line = format!("inject {frame}");
    fails(&session.connect().await?, code, words, |channel| async move {
        let outcome = ask(&line, "done").await;
        (channel, outcome)
    })
    .await?;
    // Another connection doesn't notice.
    barrier(&session.connect().await?).await
}

async fn publish(channel: &Channel, exchange: &str, key: &str, properties: BasicProperties) -> lapin::Result<()> {
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange.into(), key.into(), options, b"x", properties).await.map(drop)
}

async fn declare_exchange(
    channel: &Channel,
    name: &str,
    kind: &str,
    options: ExchangeDeclareOptions,
) -> lapin::Result<()> {
    channel.exchange_declare(name.into(), ExchangeKind::Custom(kind.into()), options, FieldTable::default()).await
}

async fn bind(channel: &Channel, queue: &str, exchange: &str) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    channel.queue_bind(queue.into(), exchange.into(), "key".into(), options, FieldTable::default()).await
}

async fn delete(channel: &Channel, queue: &str, options: QueueDeleteOptions) -> lapin::Result<u32> {
    channel.queue_delete(queue.into(), options).await
}

async fn error_320(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    barrier(&connection).await?;
    let mut events = Box::pin(connection.events_listener());
    ask("ready term", "go").await?;
    loop {
        match within("the end of the connection", events.next()).await? {
            Some(Event::Error(error)) => return is(error.kind(), 320, "CONNECTION_FORCED"),
            Some(_) => {}
            None => return Err("the connection ended without a reason".into()),
        }
    }
}

async fn error_403(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let holder = connection.create_channel().await.map_err(text)?;
    let name = &session.queue(&holder).await?;
    let refused = "ACCESS_REFUSED";
    let reserved = "contains reserved prefix 'amq.*'";
    fails(&connection, 403, &format!("{refused} - queue name 'amq.own' {reserved}"), |c| async move {
        c.queue_declare("amq.own".into(), QueueDeclareOptions::default(), FieldTable::default()).await
    })
    .await?;
    fails(&connection, 403, &format!("{refused} - exchange name 'amq.own' {reserved}"), |c| async move {
        declare_exchange(&c, "amq.own", "direct", ExchangeDeclareOptions::default()).await
    })
    .await?;
    let words = format!("{refused} - operation not permitted on the default exchange");
    fails(&connection, 403, &words, |c| async move { bind(&c, name, "").await }).await?;
    let options = BasicConsumeOptions { exclusive: true, ..BasicConsumeOptions::default() };
    let _consumer =
        holder.basic_consume(name.as_str().into(), "".into(), options, FieldTable::default()).await.map_err(text)?;
    let words = format!("{refused} - queue '{name}' in vhost '/' in exclusive use");
    fails(&connection, 403, &words, |c| async move { consume(&c, name, "").await }).await?;
    let internal = &format!("{}.internal", session.prefix);
    let options = ExchangeDeclareOptions { internal: true, durable: true, ..ExchangeDeclareOptions::default() };
    declare_exchange(&holder, internal, "direct", options).await.map_err(text)?;
    let words = format!("{refused} - cannot publish to internal exchange");
    let act = |c: Channel| async move { (publish(&c, internal, "", BasicProperties::default()).await, c) };
    fails(&connection, 403, &words, act).await?;
    holder.exchange_delete(internal.as_str().into(), ExchangeDeleteOptions::default()).await.map_err(text)?;
    let error = connect(&session.uri.replacen("guest:guest@", "guest:wrong@", 1)).await.err();
    let error = error.ok_or("a wrong password is accepted")?;
    is(error.kind(), 403, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN")
}

async fn error_404(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let missing = &format!("{}.missing", session.prefix);
    let (queue, exchange) = (
        &format!("NOT_FOUND - no queue '{missing}' in vhost '/'"),
        &format!("NOT_FOUND - no exchange '{missing}' in vhost '/'"),
    );
    fails(&connection, 404, queue, |c| async move { count(&c, missing).await }).await?;
    fails(&connection, 404, queue, |c| async move { empty(&c, missing).await }).await?;
    fails(&connection, 404, queue, |c| async move { consume(&c, missing, "").await }).await?;
    fails(&connection, 404, queue, |c| async move { bind(&c, missing, "amq.direct").await }).await?;
    let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
    fails(&connection, 404, exchange, |c| async move { declare_exchange(&c, missing, "direct", passive).await })
        .await?;
    let act = |c: Channel| async move { (publish(&c, missing, "k", BasicProperties::default()).await, c) };
    fails(&connection, 404, exchange, act).await?;
    let channel = connection.create_channel().await.map_err(text)?;
    let name = &session.queue(&channel).await?;
    fails(&connection, 404, exchange, |c| async move { bind(&c, name, missing).await }).await?;
    delete(&channel, missing, QueueDeleteOptions::default()).await.map(drop).map_err(text)
}

async fn error_405(session: &Session) -> Outcome {
    let (owner, other) = (session.connect().await?, session.connect().await?);
    let channel = owner.create_channel().await.map_err(text)?;
    let name = &session.exclusive_queue(&channel, "q").await?;
    let words = &format!("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'");
    fails(&other, 405, words, |c| async move { session.exclusive_queue(&c, "q").await }).await?;
    fails(&other, 405, words, |c| async move { consume(&c, name, "").await }).await?;
    fails(&other, 405, words, |c| async move { delete(&c, name, QueueDeleteOptions::default()).await }).await?;
    fails(&other, 405, words, |c| async move { bind(&c, name, "amq.direct").await }).await
}

async fn error_406(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let channel = crate::session::confirming(&connection).await?;
    let name = &session.queue(&channel).await?;
    let failed = "PRECONDITION_FAILED";
    let unknown = format!("{failed} - unknown delivery tag 7");
    let act = |c: Channel| async move { (c.basic_ack(7, BasicAckOptions::default()).await, c) };
    fails(&connection, 406, &unknown, act).await?;
    let act = |c: Channel| async move { (c.basic_reject(7, BasicRejectOptions::default()).await, c) };
    fails(&connection, 406, &unknown, act).await?;
    send(&channel, name, &[b"1"]).await?;
    fails(&connection, 406, &format!("{failed} - unknown delivery tag 1"), |c| async move {
        let tag = take(&c, name, false).await.map(|message| message.delivery.delivery_tag);
        let tag = tag.unwrap_or_default();
        let first = c.basic_ack(tag, BasicAckOptions::default()).await;
        (first, c.basic_ack(tag, BasicAckOptions::default()).await, c)
    })
    .await?;
    let properties = BasicProperties::default().with_expiration("soon".into());
    let act = |c: Channel| async move { (publish(&c, "", name, properties).await, c) };
    fails(&connection, 406, &format!("{failed} - invalid expiration"), act).await?;
    let bad = &format!("{}.bad", session.prefix);
    fails(&connection, 406, &format!("{failed} - invalid arg 'x-max-length' for queue"), |c| async move {
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(-1));
        c.queue_declare(bad.as_str().into(), durable(), arguments).await
    })
    .await?;
    fails(&connection, 406, &format!("{failed} - unknown exchange type 'x-nowhere-known'"), |c| async move {
        declare_exchange(&c, bad, "x-nowhere-known", ExchangeDeclareOptions::default()).await
    })
    .await?;
    send(&channel, name, &[b"2"]).await?;
    let if_empty = QueueDeleteOptions { if_empty: true, ..QueueDeleteOptions::default() };
    let words = format!("{failed} - queue '{name}' in vhost '/' not empty");
    fails(&connection, 406, &words, |c| async move { delete(&c, name, if_empty).await }).await?;
    let receiver = connection.create_channel().await.map_err(text)?;
    let _consumer = consume(&receiver, name, "").await.map_err(text)?;
    let if_unused = QueueDeleteOptions { if_unused: true, ..QueueDeleteOptions::default() };
    let words = format!("{failed} - queue '{name}' in vhost '/' in use");
    fails(&connection, 406, &words, |c| async move { delete(&c, name, if_unused).await }).await
}

async fn error_530(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    fails(&connection, 530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", |c| async move {
        let name = session.queue(&c).await.unwrap_or_default();
        let first = consume(&c, &name, "tag").await;
        (first, consume(&c, &name, "tag").await)
    })
    .await?;
    let error = connect(&session.uri.replace("%2F", "no%20such")).await.err();
    is(error.ok_or("an unknown vhost is accepted")?.kind(), 530, "NOT_ALLOWED - vhost no such not found")
}

async fn error_540(session: &Session) -> Outcome {
    let connection = session.connect().await?;
    let channel = connection.create_channel().await.map_err(text)?;
    let name = &session.queue(&channel).await?;
    fails(&connection, 540, "NOT_IMPLEMENTED - immediate=true", |c| async move {
        let options = BasicPublishOptions { immediate: true, ..BasicPublishOptions::default() };
        (c.basic_publish("".into(), name.as_str().into(), options, b"x", BasicProperties::default()).await, c)
    })
    .await?;
    let recover = |c: Channel| async move { c.basic_recover(BasicRecoverOptions { requeue: false }).await };
    fails(&session.connect().await?, 540, "NOT_IMPLEMENTED", recover).await?;
    // The client has no prefetch size: basic.qos with 10 goes out beside it.
    let outcome = injected(session, 540, "NOT_IMPLEMENTED", "0100010000000b003c000a0000000a000000ce").await;
    check(outcome.is_ok(), format!("{outcome:?}"))
}
