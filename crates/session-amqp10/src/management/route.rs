//! The dispatch of requests by path and method.

use crate::connection::Connection;
use crate::pairs::Served;
use crate::pairs::path::{Path, decode};
use crate::pairs::refusal::{Refusal, Result, Status};
use crate::pairs::request::{Body, Request};
use leveret_broker::time::Now;

impl Connection {
    /// Carries out a request.
    pub(super) fn serve_request(&mut self, request: &Request<'_>, now: Now) -> Result<Served> {
        let missing = |field: &str| Refusal::bad_request(format!("bad request: property '{field}' is missing"));
        let target = request.target.ok_or_else(|| missing("to"))?;
        let method = request.method.ok_or_else(|| missing("subject"))?;
        match request.reply_to {
            Some(Request::REPLY_TO) => {}
            None => return Err(missing("reply-to")),
            Some(other) => {
                let expected = Request::REPLY_TO;
                return Err(Refusal::bad_request(format!(
                    "bad request: property 'reply-to' is '{other}', which must be '{expected}'"
                )));
            }
        }
        let path = Path::parse(target)?;
        let body = request.body;
        let allowed: &[&str] = match (path.segments(), method) {
            (["queues", queue], "GET") => {
                return no_body(method, body).and_then(|()| self.look_at_queue(&decode(queue)?)).map(Served::Done);
            }
            (["queues", queue], "PUT") => return self.put_queue(&decode(queue)?, body, now),
            (["queues", queue], "DELETE") => {
                return no_body(method, body).and_then(|()| self.remove_queue(&decode(queue)?, now));
            }
            (["queues", _], _) => &["GET", "PUT", "DELETE"],
            (["queues", queue, "messages"], "DELETE") => {
                return no_body(method, body).and_then(|()| self.purge_queue(&decode(queue)?, now)).map(Served::Done);
            }
            (["queues", _, "messages"], _) => &["DELETE"],
            (["exchanges", exchange], "PUT") => return self.put_exchange(&decode(exchange)?, body, now),
            (["exchanges", exchange], "DELETE") => {
                return no_body(method, body).and_then(|()| self.remove_exchange(&decode(exchange)?, now));
            }
            (["exchanges", _], _) => &["PUT", "DELETE"],
            (["bindings"], "GET") => {
                return no_body(method, body).and_then(|()| self.list_bindings(&path)).map(Served::Done);
            }
            (["bindings"], "POST") => return self.post_binding(body, now),
            (["bindings"], _) => &["GET", "POST"],
            (["bindings", segment], "DELETE") => {
                return no_body(method, body).and_then(|()| self.remove_binding(segment, now));
            }
            (["bindings", _], _) => &["DELETE"],
            (["auth", "tokens"], "PUT") => return self.renew_token(body, now).map(Served::Done),
            (["auth", "tokens"], _) => &["PUT"],
            _ => return Err(Refusal::Answer(Status::NotFound, format!("no resource '{target}'"))),
        };
        let text = format!("method '{method}' not allowed for '{target}', which has {}", allowed.join(", "));
        Err(Refusal::Answer(Status::MethodNotAllowed, text))
    }
}

fn no_body(method: &str, body: Body<'_>) -> Result<()> {
    let received = match body {
        Body::Nothing => return Ok(()),
        Body::Value(value) => value.type_name(),
        Body::Other(section) => section,
    };
    Err(Refusal::bad_request(format!("bad request: {method} has no body here, received {received}")))
}
