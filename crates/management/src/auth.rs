//! `/api/auth`.

use leveret_broker::protocol::ProtocolTotals;
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, no_content};
use crate::error::Error;
use crate::list;

/// GET: logins by protocol since the node started.
pub(crate) async fn attempts(call: Call) -> HandlerResult {
    check_node(&call)?;
    let of_protocol = |ProtocolTotals { info, totals, .. }: &ProtocolTotals| {
        view(info.label, totals.auth_succeeded, totals.auth_failed)
    };
    let mut shown: Vec<Value> = call.api.broker().totals_by_protocol().iter().map(of_protocol).collect();
    let (succeeded, failed) = call.api.logins().totals();
    shown.push(view("http", succeeded, failed));
    list::values(&call.query, shown)
}

/// GET: logins by source. They aren't tracked, as in RabbitMQ by default.
pub(crate) async fn attempts_by_source(call: Call) -> HandlerResult {
    check_node(&call)?;
    list::values(&call.query, Vec::new())
}

/// DELETE: accepted without effect, because counters only grow here.
pub(crate) async fn forget_attempts(call: Call) -> HandlerResult {
    check_node(&call)?;
    no_content()
}

/// POST of a login form, which is for OAuth.
pub(crate) async fn login(_: Call) -> HandlerResult {
    Err(Error::WrongPassword)
}

fn check_node(call: &Call) -> Result<(), Error> {
    if call.word(0) == call.api.name() { Ok(()) } else { Err(Error::NotFound) }
}

fn view(protocol: &str, succeeded: u64, failed: u64) -> Value {
    json!({
        "protocol": protocol,
        "auth_attempts": succeeded + failed,
        "auth_attempts_failed": failed,
        "auth_attempts_succeeded": succeeded,
    })
}
