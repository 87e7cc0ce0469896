//! `/api/permissions`: permissions of users in vhosts.

use std::sync::Arc;

use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, CommandOutcome, Pattern, Permission, RefusedKind, SetPermissions, Topology};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::granted::Granted;
use crate::{fields, granted};

/// GET: the permissions of one user in one vhost.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    json(topology.permission(call.word(1), call.word(0)).ok_or(Error::NotFound)?.view())
}

/// PUT: responds with 201 if the user had none in this vhost, 204 otherwise.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (vhost, user) = (call.word(0), call.word(1));
    let permit = call.administers()?;
    let body = call.object()?;
    fields::require(&body, &["configure", "write", "read"])?;
    let topology = call.topology();
    granted::check(&topology, user, vhost)?;
    let command = Command::SetPermissions(parse(user, vhost, &body)?);
    match call.api.change(ChangeRequest::new(permit, command)).await? {
        Ok(outcome) => created(outcome == CommandOutcome::Created),
        // RabbitMQ's reason is a list: the pattern and the error, there as lists of code points.
        Err(refused) if refused.kind == RefusedKind::PreconditionFailed => {
            Err(Error::BadRequestOf(json!(["invalid_regexp", wrong_pattern(&body), refused.text])))
        }
        Err(refused) => Err(refused.into()),
    }
}

/// DELETE.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, user) = (call.word(0), call.word(1));
    let permit = call.administers()?;
    call.topology().permission(user, vhost).ok_or(Error::NotFound)?;
    call.api
        .delete(ChangeRequest::new(permit, Command::ClearPermissions { user: user.into(), vhost: vhost.into() }))
        .await?;
    no_content()
}

/// Parses a body of the API or an entry of definitions.
///
/// # Errors
/// A pattern is missing or isn't a text.
pub(crate) fn parse(user: &str, vhost: &str, body: &Map<String, Value>) -> Result<SetPermissions, Error> {
    Ok(SetPermissions {
        user: user.into(),
        vhost: vhost.into(),
        configure: fields::text(body, "configure")?.to_owned(),
        write: fields::text(body, "write")?.to_owned(),
        read: fields::text(body, "read")?.to_owned(),
    })
}

fn wrong_pattern(body: &Map<String, Value>) -> &str {
    let texts = ["configure", "write", "read"].iter().filter_map(|key| body.get(*key)?.as_str());
    // Compiled with the limits under which it was refused: a valid pattern may be too large.
    let mut wrong = texts.filter(|text| Pattern::new(text, "", "").is_err());
    wrong.next().unwrap_or("")
}

impl Granted for Permission {
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
            "configure": self.configure.as_str(),
            "write": self.write.as_str(),
            "read": self.read.as_str(),
        })
    }

    fn of(topology: &Topology) -> impl Iterator<Item = &Arc<Self>> {
        topology.permissions()
    }
}
