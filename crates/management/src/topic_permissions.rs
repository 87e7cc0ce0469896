//! `/api/topic-permissions`: the routing keys that users may use at topic exchanges.

use std::sync::Arc;

use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, SetTopicPermissions, TopicPermission, Topology};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, no_content, put as created};
use crate::error::Error;
use crate::fields::{self, exchange_named};
use crate::granted::{self, Granted};

/// GET: the topic permissions of one user in one vhost; 404 if there are none.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    if !topology.topic_permissions_of(call.word(1)).any(|permission| *permission.vhost == *call.word(0)) {
        return Err(Error::NotFound);
    }
    granted::listed::<TopicPermission>(&call, |permission| {
        *permission.vhost == *call.word(0) && *permission.user == *call.word(1)
    })
}

/// PUT for one exchange: responds with 201 if they are the user's first in this vhost, 204 otherwise.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (vhost, user) = (call.word(0), call.word(1));
    let permit = call.administers()?;
    let command = parse(user, vhost, &call.object()?)?;
    let topology = call.topology();
    granted::check(&topology, user, vhost)?;
    if topology.exchange(vhost, &command.exchange).is_none() {
        return Err(Error::BadRequestOf(json!(["no_such_exchange", command.exchange])));
    }
    let first = !topology.topic_permissions_of(user).any(|permission| *permission.vhost == *vhost);
    call.api.submit(permit, Command::SetTopicPermissions(command)).await?;
    created(first)
}

/// DELETE: removes all topic permissions of the user in this vhost, or those for one exchange.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, user) = (call.word(0), call.word(1));
    let permit = call.administers()?;
    if !call.topology().topic_permissions_of(user).any(|permission| *permission.vhost == *vhost) {
        return Err(Error::NotFound);
    }
    let exchange = call.path.get(2).map(|exchange| exchange_named(exchange).into());
    let command = Command::ClearTopicPermissions { user: user.into(), vhost: vhost.into(), exchange };
    call.api.delete(ChangeRequest::new(permit, command)).await?;
    no_content()
}

/// Parses a body of the API or an entry of definitions.
///
/// # Errors
/// A field is missing or isn't a text.
pub(crate) fn parse(user: &str, vhost: &str, body: &Map<String, Value>) -> Result<SetTopicPermissions, Error> {
    fields::require(body, &["exchange", "write", "read"])?;
    Ok(SetTopicPermissions {
        user: user.into(),
        vhost: vhost.into(),
        exchange: fields::text(body, "exchange")?.into(),
        write: fields::text(body, "write")?.to_owned(),
        read: fields::text(body, "read")?.to_owned(),
    })
}

impl Granted for TopicPermission {
    fn user(&self) -> &str {
        &self.user
    }

    fn vhost(&self) -> &str {
        &self.vhost
    }

    fn view(&self) -> Value {
        json!({
            "user": self.user,
            "vhost": self.vhost,
            "exchange": self.exchange,
            "write": self.write.as_str(),
            "read": self.read.as_str(),
        })
    }

    fn of(topology: &Topology) -> impl Iterator<Item = &Arc<Self>> {
        topology.topic_permissions()
    }
}
