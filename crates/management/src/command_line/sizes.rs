//! Sizes of published messages.

use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};

/// GET: pairs of an upper bound in bytes and the number of messages between the previous bound and this one; null
/// stands for larger messages.
pub(crate) async fn show(call: Call) -> HandlerResult {
    let mut counted: Vec<(Option<u64>, u64)> = Vec::new();
    for protocol in call.api.broker().totals_by_protocol() {
        let sizes = protocol.sizes;
        let up_to = sizes.up_to().map(|(bound, count)| (Some(bound), count)).chain([(None, sizes.messages())]);
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
