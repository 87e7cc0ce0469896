//! Connections that end, and what the broker refuses.

use fe2o3_amqp::Session;
use fe2o3_amqp::types::messaging::{Data, Message, MessageAnnotations, Properties};
use fe2o3_amqp::types::primitives::Binary;
use serde_json::json;

use super::session::{
    Asked, Cell, Client, Outcome, accepted, ask, check, client, count, debug, equal, fails, message, peer, send, take,
    within,
};

pub(crate) async fn run(cell: &Cell, scenario: &str) -> Outcome {
    match scenario {
        "exclusive" => exclusive(cell).await,
        "queue_deleted" => queue_deleted(cell).await,
        "not_found" => not_found(cell).await,
        "bad_address" => bad_address(cell).await,
        "unauthorized" => unauthorized(cell).await,
        "user_id" => {
            let mut message = message("x");
            message.properties = Some(Properties { user_id: Some(Binary::from("somebody")), ..Properties::default() });
            sends_in_vain(cell, message, "UnauthorizedAccess").await
        }
        "bad_annotation" => {
            let mut message = message("x");
            message.message_annotations = Some(MessageAnnotations::builder().insert("y", 1i32).build());
            sends_in_vain(cell, message, "DecodeError").await
        }
        "message_too_large" => sends_in_vain(cell, message(vec![0; 100_001]), "MessageSizeExceeded").await,
        "framing_error" => framing_error(cell).await,
        other => Err(format!("no scenario {other}")),
    }
}

pub(crate) async fn login(cell: &Cell) -> Outcome {
    cell.connect().await?.connection.close().await.map_err(debug)?;
    let host = cell.uri.replace("guest:guest@", "");
    let anonymous = cell.open(&host, Asked { anonymous: true, ..Asked::default() }).await;
    client(anonymous.map_err(debug)?).await?.connection.close().await.map_err(debug)?;
    let wrong = cell.uri.replace("guest:guest@", "guest:wrong@");
    fails(cell.open(&wrong, Asked::default()).await.map_err(debug), "Auth", "")
}

pub(crate) async fn vhost(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let open = |hostname: &'static str| cell.open(&cell.uri, Asked { hostname: Some(hostname), ..Asked::default() });
    let mut here = client(open("vhost:/").await.map_err(debug)?).await?;
    accepted(&mut cell.sender(&mut here.session, &address).await?, message("here")).await?;
    equal(count(&name).await?, 1, "messages")?;
    // RabbitMQ breaks the connection without a word, others may answer with an open before the close.
    match open("vhost:no such").await {
        Err(_) => Ok(()),
        Ok(connection) => check(client(connection).await.is_err(), "an unknown vhost is accepted"),
    }
}

pub(crate) async fn heartbeat_loss(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    equal(ask("mute").await?, "closed".to_owned(), "control")?;
    let end = within("the end", client.connection.on_close()).await?.map_err(debug);
    check(end.is_err(), "closed without an error")
}

pub(crate) async fn shutdown(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    equal(ask("ready term").await?, "go".to_owned(), "control")?;
    fails(within("the end", client.connection.on_close()).await?.map_err(debug), "", "Connection forced")
}

pub(crate) async fn reconnect(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut first = cell.connect().await?;
    accepted(&mut cell.sender(&mut first.session, &address).await?, message("before")).await?;
    equal(ask("ready kill").await?, "go".to_owned(), "control")?;
    let _ = within("the end", first.connection.on_close()).await?;
    let mut client = cell.connect().await?;
    equal(count(&name).await?, 1, "messages after the restart")?;
    let received = cell.get(&mut client.session, &address).await?;
    check(received.message().header.as_ref().is_some_and(|header| header.durable), "the message isn't durable")?;
    accepted(&mut cell.sender(&mut client.session, &address).await?, message("after")).await?;
    cell.get(&mut client.session, &address).await.map(drop)
}

/// The rest of a client's work isn't disturbed.
async fn goes_on(cell: &Cell, client: &mut Client) -> Outcome {
    let (_, address) = cell.queue("other", json!({})).await?;
    let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
    accepted(&mut cell.sender(&mut session, &address).await?, message("x")).await
}

async fn exclusive(cell: &Cell) -> Outcome {
    let name = format!("{}.q", cell.prefix);
    peer(json!({"do": "declare", "queue": name, "exclusive": true})).await?;
    let mut client = cell.connect().await?;
    fails(cell.receiver(&mut client.session, format!("/queues/{name}")).await, "ResourceLocked", &name)?;
    goes_on(cell, &mut client).await
}

async fn queue_deleted(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut receiver = cell.receiver(&mut client.session, address.as_str()).await?;
    let mut sender = cell.sender(&mut client.session, &address).await?;
    receiver.set_credit(1).await.map_err(debug)?;
    // An outcome after the credit: the broker has it before the queue goes.
    accepted(&mut sender, message("x")).await?;
    take(&mut receiver).await?;
    peer(json!({"do": "delete", "queue": name})).await?;
    fails(take(&mut receiver).await, "ResourceDeleted", "")?;
    let detached = debug(within("detach", sender.on_detach()).await?);
    check(detached.contains("ResourceDeleted"), detached)?;
    goes_on(cell, &mut client).await
}

async fn not_found(cell: &Cell) -> Outcome {
    let missing = format!("{}.missing", cell.prefix);
    let mut client = cell.connect().await?;
    fails(cell.receiver(&mut client.session, format!("/queues/{missing}")).await, "NotFound", &missing)?;
    for target in [format!("/queues/{missing}"), format!("/exchanges/{missing}/k")] {
        // A session whose link was refused takes no other.
        let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
        fails(cell.sender(&mut session, &target).await, "NotFound", &missing)?;
    }
    goes_on(cell, &mut client).await
}

async fn bad_address(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    for target in ["/exchanges//k", "/exchanges/amq.default/k", "/queues/", "/nothing/x", "/queues/a%zz"] {
        let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
        fails(cell.sender(&mut session, target).await, "InvalidField", "")?;
    }
    let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
    fails(cell.receiver(&mut session, "/exchanges/amq.direct/k").await, "InvalidField", "")?;
    goes_on(cell, &mut client).await
}

async fn unauthorized(cell: &Cell) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
    fails(cell.sender(&mut session, "/exchanges/amq.direct/k").await, "UnauthorizedAccess", "amq.direct")?;
    let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
    fails(cell.receiver(&mut session, address.as_str()).await, "UnauthorizedAccess", &name)?;
    Session::begin(&mut client.connection).await.map_err(debug).map(drop)
}

async fn sends_in_vain(cell: &Cell, refused: Message<Data>, condition: &str) -> Outcome {
    let (name, address) = cell.queue("q", json!({})).await?;
    let mut client = cell.connect().await?;
    let mut session = Session::begin(&mut client.connection).await.map_err(debug)?;
    let mut sender = cell.sender(&mut session, &address).await?;
    fails(send(&mut sender, refused).await, condition, "")?;
    let mut fine = message("x");
    fine.properties = Some(Properties { user_id: Some(Binary::from("guest")), ..Properties::default() });
    accepted(&mut cell.sender(&mut client.session, &address).await?, fine).await?;
    equal(count(&name).await?, 1, "messages")
}

async fn framing_error(cell: &Cell) -> Outcome {
    let mut client = cell.connect().await?;
    equal(ask("inject 0000000302000000").await?, "done".to_owned(), "control")?;
    fails(within("the end", client.connection.on_close()).await?.map_err(debug), "FramingError", "")?;
    cell.connect().await?.connection.close().await.map_err(debug)
}
