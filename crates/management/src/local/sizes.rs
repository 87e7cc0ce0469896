//! Sizes of published messages.

use leveret_broker::traffic::Protocol;
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};

/// GET: pairs of an upper bound in bytes and the number of messages between the previous bound and this one; null
/// stands for larger messages.
pub(crate) async fn show(call: Call) -> HandlerResult {
    let mut counted: Vec<(Option<u64>, u64)> = Vec::new();
    for totals in Protocol::ALL.map(|protocol| call.api.broker().message_sizes(protocol)) {
        let up_to = totals.up_to().map(|(bound, count)| (Some(bound), count)).chain([(None, totals.messages())]);
        let mut below = 0;
        for (at, (bound, count)) in up_to.enumerate() {
            if counted.len() == at {
                counted.push((bound, 0));
            }
            counted[at].1 += count - below;
            below = count;
        }
    }
    json(counted.into_iter().map(|(bound, count)| json!([bound, count])).collect::<Vec<Value>>().into())
}
