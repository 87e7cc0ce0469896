//! Direct reply-to.

use futures_lite::StreamExt as _;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions, QueueBindOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Consumer};

use crate::session::{Outcome, Session, check, equal, fails, mandatory, text, within};

const PSEUDO: &str = "amq.rabbitmq.reply-to";

async fn consume(channel: &Channel, queue: &str, no_ack: bool) -> lapin::Result<Consumer> {
    let options = BasicConsumeOptions { no_ack, ..BasicConsumeOptions::default() };
    channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await
}

async fn next(consumer: &mut Consumer) -> Outcome<lapin::message::Delivery> {
    within("a delivery", consumer.next()).await?.ok_or("the deliveries ended")?.map_err(text)
}

pub(crate) async fn direct_reply_to(session: &Session) -> Outcome {
    let (requests_over, answers_over) = (session.connect().await?, session.connect().await?);
    let requester = requests_over.create_channel().await.map_err(text)?;
    let responder = answers_over.create_channel().await.map_err(text)?;
    let name = session.queue(&responder).await?;
    let name = name.as_str();
    let mut answers = consume(&requester, PSEUDO, true).await.map_err(text)?;
    let mut requests = consume(&responder, name, true).await.map_err(text)?;
    let asked = BasicProperties::default().with_reply_to(PSEUDO.into()).with_correlation_id("7".into());
    let ask = requester.basic_publish("".into(), name.into(), mandatory(), b"ask", asked.clone());
    ask.await.map_err(text)?;
    let request = next(&mut requests).await?;
    equal(request.data.as_slice(), b"ask".as_slice(), "request")?;
    let reply_to = request.properties.reply_to().as_ref().ok_or("no reply-to")?.as_str().to_owned();
    check(reply_to.starts_with("amq.rabbitmq.reply-to."), &reply_to)?;
    let answered = BasicProperties::default().with_correlation_id("7".into());
    let answer = responder.basic_publish("".into(), reply_to.as_str().into(), mandatory(), b"answer", answered);
    answer.await.map_err(text)?;
    let answer = next(&mut answers).await?;
    equal(answer.data.as_slice(), b"answer".as_slice(), "answer")?;
    equal(answer.properties.correlation_id().as_ref().map(|id| id.as_str()), Some("7"), "correlation id")?;
    let words = "PRECONDITION_FAILED - reply consumer cannot acknowledge";
    let act = |c: Channel| async move { consume(&c, PSEUDO, false).await };
    fails(&session.connect().await?, 406, words, act).await?;
    let words = "PRECONDITION_FAILED - fast reply consumer does not exist";
    let act = |c: Channel| async move {
        let options = BasicPublishOptions::default();
        let published = c.basic_publish("".into(), name.into(), options, b"ask", asked).await.map(drop);
        (published, c)
    };
    fails(&session.connect().await?, 406, words, act).await?;
    let reply_to = reply_to.as_str();
    let act = |c: Channel| async move {
        let options = QueueBindOptions::default();
        c.queue_bind(reply_to.into(), "amq.direct".into(), "k".into(), options, FieldTable::default()).await
    };
    fails(&session.connect().await?, 403, "ACCESS_REFUSED", act).await
}
