//! The content of messages, also converted from and to AMQP 0-9-1.

use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Body, Footer, Header, Message, MessageAnnotations, MessageId, Properties,
};
use fe2o3_amqp::types::primitives::{Binary, OrderedMap, SimpleValue, Symbol, Timestamp, Uuid, Value};
use serde_json::{Value as Json, json};

use super::session::{
    Asked, Cell, Outcome, accepted, annotation, body, check, client, debug, equal, message, peer, take, take_text,
    within,
};

pub(crate) async fn big_message(cell: &Cell) -> Outcome {
    let (_, address) = cell.queue("q", json!({})).await?;
    let small = Asked { max_frame_size: Some(4096), ..Asked::default() };
    let connection = cell.open(&cell.uri, small).await.map_err(debug)?;
    let mut client = client(connection).await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
    let pattern: Vec<u8> = (0..1024 * 1024usize).map(|i| ((i * 7 + i / 251) % 256) as u8).collect();
    for _ in 0..2 {
        receiver.set_credit(2).await.map_err(debug)?;
        accepted(&mut sender, message(pattern.clone())).await?;
        accepted(&mut sender, message("small")).await?;
        let big = take(&mut receiver).await?;
        let Body::Data(sections) = big.body() else { return Err("no data section".into()) };
        check(sections.iter().flat_map(|data| data.0.iter()).eq(&pattern), "the body differs")?;
        receiver.accept(&big).await.map_err(debug)?;
        let small = take_text(&mut receiver, "small").await?;
        receiver.accept(&small).await.map_err(debug)?;
    }
    Ok(())
}

pub(crate) async fn sections(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let uuid = Uuid::from([7; 16]);
    let properties = Properties {
        message_id: Some(MessageId::String("id ✓".into())),
        user_id: Some(Binary::from("guest")),
        to: Some("to".into()),
        subject: Some("subject".into()),
        reply_to: Some("/queues/answers".into()),
        correlation_id: Some(MessageId::String("correlation ✓".into())),
        content_type: Some(Symbol::from("text/plain")),
        content_encoding: Some(Symbol::from("utf-8")),
        absolute_expiry_time: Some(Timestamp::from(4_000_000_000_000)),
        creation_time: Some(Timestamp::from(1_700_000_000_123)),
        group_id: Some("group".into()),
        group_sequence: Some(7),
        reply_to_group_id: Some("back".into()),
    };
    let application = ApplicationProperties::builder()
        .insert("null", SimpleValue::Null)
        .insert("true", true)
        .insert("ubyte", 255u8)
        .insert("ushort", 65535u16)
        .insert("uint", u32::MAX)
        .insert("ulong", u64::MAX)
        .insert("byte", i8::MIN)
        .insert("short", i16::MIN)
        .insert("int", i32::MIN)
        .insert("long", i64::MIN)
        .insert("float", 1.5f32)
        .insert("double", 2.5f64)
        .insert("char", 'ä')
        .insert("timestamp", Timestamp::from(1_700_000_000_123))
        .insert("uuid", uuid)
        .insert("binary", Binary::from(vec![0, 128, 255]))
        .insert("string ключ", "wert ✓ 𝄞".to_owned())
        .insert("symbol", Symbol::from("sym"))
        .build();
    let sent = Message::builder()
        .header(Header { durable: true, priority: 7.into(), ttl: Some(600_000), ..Header::default() })
        .message_annotations(
            MessageAnnotations::builder().insert("x-s", "note ✓".to_owned()).insert("x-i", -5i32).build(),
        )
        .properties(properties.clone())
        .application_properties(application.clone())
        .footer(Footer::builder().insert("x-f", "y".to_owned()).build())
        .data(Binary::from("inhalt ✓"))
        .build();
    let mut client = cell.connect().await?;
    accepted(&mut cell.sender(&mut client.session, &address).await?, sent).await?;
    let received = cell.get(&mut client.session, &address).await?;
    let got = received.message();
    let header = got.header.as_ref().ok_or("no header")?;
    equal((header.durable, header.priority.0), (true, 7), "header")?;
    equal((header.first_acquirer, header.delivery_count), (true, 0), "first-acquirer, delivery-count")?;
    check(header.ttl.is_some_and(|ttl| ttl > 0 && ttl <= 600_000), format!("ttl {:?}", header.ttl))?;
    equal(got.properties.as_ref(), Some(&properties), "properties")?;
    equal(got.application_properties.as_ref(), Some(&application), "application properties")?;
    check(got.footer.as_ref().is_some_and(|footer| footer.0.len() == 1), format!("footer {:?}", got.footer))?;
    equal(annotation(&received, "x-s"), "note ✓".to_owned(), "annotation")?;
    equal(annotation(&received, "x-routing-key"), name, "x-routing-key")?;
    equal(body(&received), "inhalt ✓".to_owned(), "body")
}

pub(crate) async fn message_ids(cell: &Cell) -> Outcome {
    let (_, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    for id in [
        MessageId::String("text ✓".into()),
        MessageId::Ulong(u64::MAX),
        MessageId::Uuid(Uuid::from([9; 16])),
        MessageId::Binary(Binary::from(vec![0, 255])),
    ] {
        let mut sent = message("x");
        let ids = (Some(id.clone()), Some(id));
        sent.properties =
            Some(Properties { message_id: ids.0.clone(), correlation_id: ids.1.clone(), ..Properties::default() });
        accepted(&mut sender, sent).await?;
        let got = cell.get(&mut client.session, &address).await?.into_message().properties.ok_or("no properties")?;
        equal((got.message_id, got.correlation_id), ids, "ids")?;
    }
    Ok(())
}

pub(crate) async fn bodies(cell: &Cell) -> Outcome {
    let (_, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    let mut map = OrderedMap::new();
    map.insert(Value::from("a".to_owned()), Value::List(vec![Value::from(1i32), Value::Null]));
    for value in [
        Value::from(String::new()),
        Value::from("text ✓".to_owned()),
        Value::Null,
        Value::from(5i32),
        Value::from(true),
        Value::List(vec![Value::from(1i32), Value::from("zwei".to_owned())]),
        Value::Map(map),
        Value::Binary(Binary::from(vec![0, 255])),
    ] {
        let outcome = sender.send(Message::builder().value(value.clone()).build());
        let outcome = within("an outcome", outcome).await?.map_err(debug)?;
        check(outcome.is_accepted(), format!("outcome {outcome:?}"))?;
        match cell.get(&mut client.session, &address).await?.body() {
            Body::Value(got) => equal(&got.0, &value, "value")?,
            other => return Err(format!("{other:?}, expected {value:?}")),
        }
    }
    for bytes in ["", "data"] {
        accepted(&mut sender, message(bytes)).await?;
        equal(body(&cell.get(&mut client.session, &address).await?), bytes.to_owned(), "data")?;
    }
    let list = vec![Value::from(1i32), Value::from("two".to_owned())];
    let outcome = sender.send(Message::builder().sequence(list.clone()).build());
    let outcome = within("an outcome", outcome).await?.map_err(debug)?;
    check(outcome.is_accepted(), format!("outcome {outcome:?}"))?;
    match cell.get(&mut client.session, &address).await?.body() {
        Body::Sequence(got) => equal(got.iter().map(|one| one.0.clone()).collect::<Vec<_>>(), vec![list], "sequence"),
        other => Err(format!("{other:?}, expected a sequence")),
    }
}

pub(crate) async fn from_091(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    peer(json!({"do": "sample", "queue": name})).await?;
    let mut client = cell.connect().await?;
    let received = cell.get(&mut client.session, &address).await?;
    let header = received.message().header.as_ref().ok_or("no header")?;
    equal((header.durable, header.priority.0), (true, 5), "header")?;
    let expected = Properties {
        message_id: Some(MessageId::String("message".into())),
        user_id: Some(Binary::from("guest")),
        reply_to: Some("/queues/answers".into()),
        correlation_id: Some(MessageId::String("correlation".into())),
        content_type: Some(Symbol::from("text/plain")),
        content_encoding: Some(Symbol::from("utf-8")),
        creation_time: Some(Timestamp::from(1_700_000_000_000)),
        group_id: Some("app".into()),
        ..Properties::default()
    };
    equal(received.message().properties.as_ref(), Some(&expected), "properties")?;
    equal(annotation(&received, "x-a"), "note".to_owned(), "x-a")?;
    equal(annotation(&received, "x-basic-type"), "kind".to_owned(), "x-basic-type")?;
    let application = ApplicationProperties::builder().insert("b", 7i64).insert("c", "ключ".to_owned()).build();
    equal(received.message().application_properties.as_ref(), Some(&application), "application properties")?;
    equal(body(&received), "body ✓".to_owned(), "body")
}

pub(crate) async fn to_091(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let sent = Message::builder()
        .header(Header { durable: true, priority: 5.into(), ..Header::default() })
        .message_annotations(MessageAnnotations::builder().insert("x-a", "note".to_owned()).build())
        .properties(Properties {
            message_id: Some(MessageId::String("message".into())),
            user_id: Some(Binary::from("guest")),
            reply_to: Some("/queues/answers".into()),
            correlation_id: Some(MessageId::String("correlation".into())),
            content_type: Some(Symbol::from("text/plain")),
            creation_time: Some(Timestamp::from(1_700_000_000_000)),
            group_id: Some("group".into()),
            ..Properties::default()
        })
        .application_properties(
            ApplicationProperties::builder()
                .insert("s", "text ✓".to_owned())
                .insert("i", 5i32)
                .insert("t", true)
                .insert("l", 1i64 << 40)
                .build(),
        )
        .data(Binary::from("body ✓"))
        .build();
    let mut client = cell.connect().await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    accepted(&mut sender, sent).await?;
    let value = Message::builder().value(Value::List(vec![Value::from(1i32)])).build();
    within("an outcome", sender.send(value)).await?.map_err(debug)?;
    let got = peer(json!({"do": "get", "queue": name})).await?;
    equal(&got["body"], &json!("body ✓"), "body")?;
    let expected = json!({"delivery_mode": 2, "priority": 5, "message_id": "message", "correlation_id": "correlation",
        "content_type": "text/plain", "timestamp": 1_700_000_000, "reply_to": "answers", "app_id": "group",
        "user_id": "guest"});
    for (key, value) in expected.as_object().into_iter().flatten() {
        equal(&got["properties"][key], value, key)?;
    }
    let headers = json!({"s": "text ✓", "i": 5, "t": true, "l": 1i64 << 40, "x-a": "note"});
    for (key, value) in headers.as_object().into_iter().flatten() {
        equal(&got["properties"]["headers"][key], value, key)?;
    }
    let second: Json = peer(json!({"do": "get", "queue": name})).await?;
    equal(&second["properties"]["type"], &json!("amqp-1.0"), "type of a value body")
}
