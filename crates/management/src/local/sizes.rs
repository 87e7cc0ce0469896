//! How large messages are that clients publish.

use serde_json::{Value, json};

use crate::call::{Answer, Call, json};

/// GET: pairs of a size in bytes and of how many messages have it at most and are larger than the one before; null stands
/// for those that are larger than all.
pub(crate) async fn show(call: Call) -> Answer {
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
